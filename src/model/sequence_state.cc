#include "model/sequence_state.h"

#include "core/error.h"
#include "ops/latent_page.h"

namespace baltoro {

SequenceState::SequenceState(Backend& backend, const ModelConfig& config, const StateFormat& format)
    : backend_(backend),
      kda_shape_(kda_shape(config.kda)),
      kda_dtype_(format.kda),
      mla_shape_(mla_shape(config.mla)),
      cache_dtype_(format.fp8_latents ? DType::kE4m3 : backend.cache_dtype()) {
  const auto bytes = [](std::int64_t elements, DType dtype) {
    return static_cast<std::size_t>(elements) * dtype_bytes(dtype);
  };
  const auto page_bytes = static_cast<std::size_t>(cache_page_bytes(mla_shape_, cache_dtype_));
  for (const LayerSpec& layer : config.layers) {
    if (layer.mixer == MixerKind::kKda) {
      index_of_layer_.push_back(static_cast<int>(states_.size()));
      states_.push_back({Buffer(), bytes(kda_shape_.state_elements(), kda_dtype_)});
      convs_.push_back({Buffer(), bytes(kda_shape_.conv_elements(), DType::kF32)});
    } else {
      index_of_layer_.push_back(static_cast<int>(caches_.size()));
      caches_.push_back({Buffer(), page_bytes});
    }
  }
}

std::byte* SequenceState::item(Pool& pool, std::int32_t index) {
  return static_cast<std::byte*>(pool.buffer.data()) +
         static_cast<std::size_t>(index) * pool.item_bytes;
}

void SequenceState::grow(Pool& pool, std::int32_t old_count, std::int32_t new_count,
                         const char* purpose) {
  if (pool.item_bytes == 0) return;
  Buffer larger = backend_.allocate(static_cast<std::size_t>(new_count) * pool.item_bytes, purpose);
  const std::size_t kept = static_cast<std::size_t>(old_count) * pool.item_bytes;
  if (kept > 0) backend_.copy(larger.data(), pool.buffer.data(), kept);
  pool.buffer = std::move(larger);
}

void SequenceState::reserve_slots(std::int32_t count) {
  if (count <= num_slots_) return;
  for (Pool& pool : states_) grow(pool, num_slots_, count, "KDA states");
  for (Pool& pool : convs_) grow(pool, num_slots_, count, "short-convolution history");
  num_slots_ = count;
}

void SequenceState::reserve_pages(std::int32_t count) {
  if (count <= num_pages_) return;
  for (Pool& pool : caches_) grow(pool, num_pages_, count, "MLA cache");
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
  for (std::span<std::byte> part : slot_parts(slot)) backend_.clear(part.data(), part.size());
}

void SequenceState::copy_slot(std::int32_t to, std::int32_t from) {
  BALTORO_CHECK(to != from, "slot {} copied onto itself", to);
  for (std::vector<Pool>* pools : {&states_, &convs_}) {
    for (Pool& pool : *pools) {
      if (pool.item_bytes > 0) backend_.copy(item(pool, to), item(pool, from), pool.item_bytes);
    }
  }
}

void SequenceState::copy_page(std::int32_t to, std::int32_t from) {
  BALTORO_CHECK(to != from, "page {} copied onto itself", to);
  for (Pool& pool : caches_) backend_.copy(item(pool, to), item(pool, from), pool.item_bytes);
}

std::size_t SequenceState::slot_bytes() const noexcept {
  std::size_t bytes = 0;
  for (const Pool& pool : states_) bytes += pool.item_bytes;
  for (const Pool& pool : convs_) bytes += pool.item_bytes;
  return bytes;
}

std::size_t SequenceState::page_bytes() const noexcept {
  std::size_t bytes = 0;
  for (const Pool& pool : caches_) bytes += pool.item_bytes;
  return bytes;
}

std::vector<std::span<std::byte>> SequenceState::slot_parts(std::int32_t slot) {
  std::vector<std::span<std::byte>> parts;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    parts.emplace_back(item(states_[i], slot), states_[i].item_bytes);
    if (convs_[i].item_bytes > 0) parts.emplace_back(item(convs_[i], slot), convs_[i].item_bytes);
  }
  return parts;
}

std::vector<std::span<std::byte>> SequenceState::page_parts(std::int32_t page) {
  std::vector<std::span<std::byte>> parts;
  for (Pool& pool : caches_) {
    const std::span<std::byte> whole(item(pool, page), pool.item_bytes);
    if (cache_dtype_ != DType::kE4m3) {
      parts.push_back(whole);
      continue;
    }
    const LatentPage layout(mla_shape_);
    const auto side = static_cast<std::size_t>(layout.side_at(0));
    const auto scales = static_cast<std::size_t>(layout.scale_at(0));
    parts.push_back(whole.first(side));
    if (scales > side) parts.push_back(whole.subspan(side, scales - side));
    parts.push_back(whole.subspan(scales));
  }
  return parts;
}

}  // namespace baltoro
