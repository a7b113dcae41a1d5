#include "model/mapped_weights.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"

namespace baltoro {
namespace {

// Ranges that touch the same or the next page are one read.
constexpr std::uint64_t kJoinBytes = 4096;

void add(const WeightStore& store, const WeightView& view, std::vector<FileRange>& ranges) {
  if (!view) return;
  const auto scale_bytes = static_cast<std::uint64_t>(
      view.scales == nullptr ? 0 : view.bytes() - view.rows * view.row_bytes());
  const auto data_bytes = static_cast<std::uint64_t>(view.bytes()) - scale_bytes;
  if (const auto data = store.locate(view.data, data_bytes)) ranges.push_back(*data);
  if (const auto scales = store.locate(view.scales, scale_bytes)) ranges.push_back(*scales);
}

std::vector<FileRange> joined(std::vector<FileRange> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const FileRange& a, const FileRange& b) {
    return a.file != b.file ? a.file < b.file : a.offset < b.offset;
  });
  std::vector<FileRange> out;
  for (const FileRange& range : ranges) {
    const bool joins = !out.empty() && out.back().file == range.file &&
                       range.offset <= out.back().offset + out.back().bytes + kJoinBytes;
    if (joins) {
      out.back().bytes = range.offset + range.bytes - out.back().offset;
    } else {
      out.push_back(range);
    }
  }
  out.shrink_to_fit();
  return out;
}

std::vector<FileRange> ranges_of(const WeightStore& store, const LayerWeights& layer) {
  std::vector<FileRange> ranges;
  for_each_trunk_matrix(layer, [&](const WeightView& view) { add(store, view, ranges); });
  return joined(std::move(ranges));
}

std::vector<FileRange> ranges_of(const WeightStore& store, const WeightView& view) {
  std::vector<FileRange> ranges;
  add(store, view, ranges);
  return ranges;
}

std::uint64_t page_bytes(const std::vector<FileRange>& ranges) {
  std::uint64_t bytes = 0;
  for (const FileRange& range : ranges) bytes += page_bytes(range);
  return bytes;
}

// [layer][id], and the ranges in the order of their numbers.
std::vector<std::vector<std::uint64_t>> expert_bytes(
    const WeightStore& store, const ModelWeights& weights,
    std::vector<std::vector<FileRange>>& all_ranges) {
  std::vector<std::vector<std::uint64_t>> bytes(weights.layers.size());
  for (std::size_t l = 0; l < weights.layers.size(); ++l) {
    const auto* moe = std::get_if<MoeWeights>(&weights.layers[l].ffn);
    if (moe == nullptr) continue;
    for (const ExpertWeights& expert : moe->experts) {
      std::vector<FileRange> ranges;
      for (const WeightView& view : {expert.w1, expert.w3, expert.w2}) add(store, view, ranges);
      all_ranges.push_back(joined(std::move(ranges)));
      bytes[l].push_back(page_bytes(all_ranges.back()));
    }
  }
  return bytes;
}

}  // namespace

MappedWeights::MappedWeights(const WeightStore& store, const ModelWeights& weights,
                             const MemoryPlan& plan)
    : plan_(plan), experts_(expert_bytes(store, weights, expert_ranges_)) {
  for (const FileReader& file : store.files().files()) read_exactly(file);
  const std::size_t num_layers = weights.layers.size();
  const std::size_t first_streamed =
      num_layers - static_cast<std::size_t>(plan.device_layers + plan.streamed_layers);
  for (std::size_t l = 0; l < num_layers; ++l) {
    parts_.push_back({.ranges = ranges_of(store, weights.layers[l]), .stays = l < first_streamed});
  }
  parts_.push_back({.ranges = ranges_of(store, weights.lm_head), .stays = !plan.head_streamed});
  // The head is not read ahead: only the last pass of a prompt needs it.
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const std::size_t begin = i == num_layers ? 0 : i + 1;
    for (std::size_t j = 0; j < num_layers && parts_[i].ranges.size(); ++j) {
      parts_[i].next = (begin + j) % num_layers;
      if (!parts_[parts_[i].next].ranges.empty()) break;
    }
  }
  if (plan.streamed > 0 && weights.embed.data != weights.lm_head.data) {
    embedding_ = ranges_of(store, weights.embed);
  }
  expert_tickets_.resize(expert_ranges_.size());
  for (const auto& ranges : expert_ranges_) {
    largest_expert_ = std::max(largest_expert_, page_bytes(ranges));
  }
  experts_.set_limit(plan.expert_cache);
}

void MappedWeights::yield_to_state(std::uint64_t bytes) {
  if (plan_.experts == 0) return;
  if (bytes + 2 * largest_expert_ > plan_.expert_cache) {
    fail(ErrorCode::kDoesNotFit,
         "the state of the sequences has grown {} bytes beyond the plan and leaves no room for "
         "experts within {} bytes; give a larger --memory, or shorter or fewer sequences",
         bytes, plan_.limit);
  }
  experts_.set_limit(plan_.expert_cache - bytes);
}

void MappedWeights::enter(std::size_t index) {
  Part& part = parts_[index];
  if (part.ranges.empty()) return;
  std::vector<FileRange> drops;
  Part& before = parts_[entered_];
  Part& next = parts_[part.next];
  if (&before != &part && &before != &next && !before.stays) {
    drops = before.ranges;
    before.ticket = 0;
  }
  entered_ = index;
  if (part.ticket == 0) part.ticket = pager_.move({}, part.ranges);
  if (next.ticket == 0 && !next.ranges.empty()) {
    next.ticket = pager_.move(std::move(drops), next.ranges);
  } else if (!drops.empty()) {
    pager_.move(std::move(drops), {});
  }
  pager_.wait(part.ticket);
}

void MappedWeights::enter_layer(int layer) {
  layer_ = layer;
  if (layer == 0) {
    experts_.begin_pass();
    if (!embedding_.empty()) pager_.move(embedding_, {});
  }
  enter(static_cast<std::size_t>(layer));
}

void MappedWeights::enter_head() { enter(parts_.size() - 1); }

std::size_t MappedWeights::acquire(std::span<const std::int32_t> ids) {
  if (plan_.experts == 0) return ids.size();
  const ExpertCache::Step& step = experts_.acquire(layer_, ids);
  // Each read gives up what makes room for it, so that the first read does not wait for all drops.
  std::size_t dropped = 0;
  for (std::size_t i = 0; i < step.reads.size(); ++i) {
    std::vector<FileRange> drops;
    for (const std::size_t end = step.drops.size() * (i + 1) / step.reads.size(); dropped < end;
         ++dropped) {
      const std::vector<FileRange>& ranges = expert_ranges_[step.drops[dropped]];
      drops.insert(drops.end(), ranges.begin(), ranges.end());
    }
    const std::size_t number = step.reads[i];
    expert_tickets_[number] = pager_.move(std::move(drops), expert_ranges_[number]);
  }
  Pager::Ticket last = 0;
  for (const std::int32_t id : ids.first(step.ready)) {
    last = std::max(last, expert_tickets_[experts_.number(layer_, id)]);
  }
  pager_.wait(last);
  return step.ready;
}

}  // namespace baltoro
