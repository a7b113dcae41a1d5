// The memory of all sequences between forward passes: a pool of KDA and conv state slots and a pool
// of MLA cache pages for each layer. Which slot and pages belong to whom is the engine's business
// (engine/state_pool.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/buffer.h"
#include "model/config.h"
#include "ops/backend.h"
#include "ops/kda.h"
#include "ops/mla.h"

namespace baltoro {

// How sequences are stored: KDA states as f32 or bf16, latents as the backend's cache_dtype() or as
// fp8 (ops/latent_page.h). Others than the first where the backend serves them.
struct StateFormat {
  DType kda = DType::kF32;
  bool fp8_latents = false;
};

// Bytes of one slot and of one page.
struct StateBytes {
  std::size_t slot = 0;
  std::size_t page = 0;
};

// A layer's part of a slot or page, in memory of the layer's backend.
struct StatePart {
  Backend* backend = nullptr;
  std::span<std::byte> bytes;

  // Its first to.size() bytes, to memory of the host.
  void fetch(std::span<std::byte> to) const { backend->copy(to.data(), bytes.data(), to.size()); }
  // All of them, from there.
  void store(std::span<const std::byte> from) const {
    backend->copy(bytes.data(), from.data(), bytes.size());
  }
};

// One thread at a time. Pointers from kda() and mla() are valid until the next reserve.
class SequenceState {
 public:
  SequenceState(Backend& backend, const ModelConfig& config, const StateFormat& format = {});
  // Each layer's state is where the layer is computed, by of_layer[layer]; all store caches in one
  // type.
  SequenceState(std::span<Backend* const> of_layer, const ModelConfig& config,
                const StateFormat& format);

  // The last layer's.
  Backend& backend() noexcept { return *of_layer_.back(); }

  // Grow the pools to at least this many slots or pages; contents are kept. New slots are zero.
  void reserve_slots(std::int32_t count);
  void reserve_pages(std::int32_t count);
  std::int32_t num_slots() const noexcept { return num_slots_; }
  std::int32_t num_pages() const noexcept { return num_pages_; }

  // `layer` counts all layers; it must be of the right kind.
  KdaStatePool kda(int layer);
  MlaCache mla(int layer);

  void clear_slot(std::int32_t slot);
  void copy_slot(std::int32_t to, std::int32_t from);
  void copy_page(std::int32_t to, std::int32_t from);

  // Over all layers.
  std::size_t slot_bytes() const noexcept { return bytes_of(0, num_layers()).slot; }
  std::size_t page_bytes() const noexcept { return bytes_of(0, num_layers()).page; }
  // Over layers [begin, end).
  StateBytes bytes_of(std::size_t begin, std::size_t end) const noexcept;
  // All layers' parts of one slot or page, in layer order, for saving and restoring. A part of a page
  // holds kBlockTokens rows.
  std::vector<StatePart> slot_parts(std::int32_t slot);
  std::vector<StatePart> page_parts(std::int32_t page);

 private:
  // One array of `item_bytes`-sized items, one item a slot or page.
  struct Pool {
    Backend* backend = nullptr;
    std::size_t layer = 0;
    Buffer buffer;
    std::size_t item_bytes = 0;

    void grow(std::int32_t old_count, std::int32_t new_count, const char* purpose);
    StatePart item(std::int32_t index);
    void copy_item(std::int32_t to, std::int32_t from);
  };
  std::size_t num_layers() const noexcept { return of_layer_.size(); }

  std::vector<Backend*> of_layer_;
  KdaShape kda_shape_;
  DType kda_dtype_;
  MlaShape mla_shape_;
  DType cache_dtype_;
  std::vector<int> index_of_layer_;  // among the layers of the same kind
  std::vector<Pool> states_;         // a KDA layer each
  std::vector<Pool> convs_;          // a KDA layer each
  std::vector<Pool> caches_;         // an MLA layer each
  std::int32_t num_slots_ = 0;
  std::int32_t num_pages_ = 0;
};

}  // namespace baltoro
