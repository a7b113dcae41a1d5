#include "model/sequence_state.h"

#include "core/error.h"
#include "ops/latent_page.h"

namespace baltoro {

SequenceState::SequenceState(Backend& backend, const ModelConfig& config, const StateFormat& format)
    : SequenceState(std::vector<Backend*>(config.layers.size(), &backend), config, format) {}

SequenceState::SequenceState(std::span<Backend* const> of_layer, const ModelConfig& config,
                             const StateFormat& format)
    : of_layer_(of_layer.begin(), of_layer.end()),
      kda_shape_(kda_shape(config.kda)),
      kda_dtype_(format.kda),
      mla_shape_(mla_shape(config.mla)),
      cache_dtype_(format.fp8_latents ? DType::kE4m3 : backend().cache_dtype()) {
  const auto bytes = [](std::int64_t elements, DType dtype) {
    return static_cast<std::size_t>(elements) * dtype_bytes(dtype);
  };
  const auto page_bytes = static_cast<std::size_t>(cache_page_bytes(mla_shape_, cache_dtype_));
  for (std::size_t layer = 0; layer < num_layers(); ++layer) {
    Backend* const on = of_layer_[layer];
    BALTORO_CHECK(on->cache_dtype() == backend().cache_dtype(), "{} and {} cache in two types",
                  on->name(), backend().name());
    if (config.layers[layer].mixer == MixerKind::kKda) {
      index_of_layer_.push_back(static_cast<int>(states_.size()));
      states_.push_back({on, layer, Buffer(), bytes(kda_shape_.state_elements(), kda_dtype_)});
      convs_.push_back({on, layer, Buffer(), bytes(kda_shape_.conv_elements(), DType::kF32)});
    } else {
      index_of_layer_.push_back(static_cast<int>(caches_.size()));
      caches_.push_back({on, layer, Buffer(), page_bytes});
    }
  }
}

StatePart SequenceState::Pool::item(std::int32_t index) {
  auto* const data = static_cast<std::byte*>(buffer.data());
  return {backend, {data + static_cast<std::size_t>(index) * item_bytes, item_bytes}};
}

void SequenceState::Pool::copy_item(std::int32_t to, std::int32_t from) {
  if (item_bytes > 0) backend->copy(item(to).bytes.data(), item(from).bytes.data(), item_bytes);
}

void SequenceState::Pool::grow(std::int32_t old_count, std::int32_t new_count,
                               const char* purpose) {
  if (item_bytes == 0) return;
  Buffer larger = backend->allocate(static_cast<std::size_t>(new_count) * item_bytes, purpose);
  const std::size_t kept = static_cast<std::size_t>(old_count) * item_bytes;
  if (kept > 0) backend->copy(larger.data(), buffer.data(), kept);
  buffer = std::move(larger);
}

void SequenceState::reserve_slots(std::int32_t count) {
  if (count <= num_slots_) return;
  for (Pool& pool : states_) pool.grow(num_slots_, count, "KDA states");
  for (Pool& pool : convs_) pool.grow(num_slots_, count, "short-convolution history");
  num_slots_ = count;
}

void SequenceState::reserve_pages(std::int32_t count) {
  if (count <= num_pages_) return;
  for (Pool& pool : caches_) pool.grow(num_pages_, count, "MLA cache");
  num_pages_ = count;
}

KdaStatePool SequenceState::kda(int layer) {
  const auto index = static_cast<std::size_t>(index_of_layer_.at(static_cast<std::size_t>(layer)));
  return {.state = states_.at(index).buffer.data(),
          .conv = convs_.at(index).buffer.f32(),
          .num_slots = num_slots_,
          .dtype = kda_dtype_};
}

MlaCache SequenceState::mla(int layer) {
  const auto index = static_cast<std::size_t>(index_of_layer_.at(static_cast<std::size_t>(layer)));
  return {.data = caches_.at(index).buffer.data(), .dtype = cache_dtype_, .num_pages = num_pages_};
}

void SequenceState::clear_slot(std::int32_t slot) {
  for (const StatePart& part : slot_parts(slot)) {
    part.backend->clear(part.bytes.data(), part.bytes.size());
  }
}

void SequenceState::copy_slot(std::int32_t to, std::int32_t from) {
  BALTORO_CHECK(to != from, "slot {} copied onto itself", to);
  for (Pool& pool : states_) pool.copy_item(to, from);
  for (Pool& pool : convs_) pool.copy_item(to, from);
}

void SequenceState::copy_page(std::int32_t to, std::int32_t from) {
  BALTORO_CHECK(to != from, "page {} copied onto itself", to);
  for (Pool& pool : caches_) pool.copy_item(to, from);
}

StateBytes SequenceState::bytes_of(std::size_t begin, std::size_t end) const noexcept {
  const auto sum = [&](const std::vector<Pool>& pools) {
    std::size_t bytes = 0;
    for (const Pool& pool : pools) {
      if (begin <= pool.layer && pool.layer < end) bytes += pool.item_bytes;
    }
    return bytes;
  };
  return {.slot = sum(states_) + sum(convs_), .page = sum(caches_)};
}

std::vector<StatePart> SequenceState::slot_parts(std::int32_t slot) {
  std::vector<StatePart> parts;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    parts.push_back(states_[i].item(slot));
    if (convs_[i].item_bytes > 0) parts.push_back(convs_[i].item(slot));
  }
  return parts;
}

std::vector<StatePart> SequenceState::page_parts(std::int32_t page) {
  std::vector<StatePart> parts;
  for (Pool& pool : caches_) {
    const StatePart whole = pool.item(page);
    if (cache_dtype_ != DType::kE4m3) {
      parts.push_back(whole);
      continue;
    }
    const LatentPage layout(mla_shape_);
    const auto side = static_cast<std::size_t>(layout.side_at(0));
    const auto scales = static_cast<std::size_t>(layout.scale_at(0));
    parts.push_back({whole.backend, whole.bytes.first(side)});
    if (scales > side) {
      parts.push_back({whole.backend, whole.bytes.subspan(side, scales - side)});
    }
    parts.push_back({whole.backend, whole.bytes.subspan(scales)});
  }
  return parts;
}

}  // namespace baltoro
