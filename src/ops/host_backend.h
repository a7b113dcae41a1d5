// What the backends whose ops work on ordinary host memory, at once, have in common.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "ops/backend.h"
#include "ops/head.h"

namespace baltoro {

class HostBackend : public Backend {
 public:
  explicit HostBackend(Activations activations) : activations_(activations) {}

  Activations activations() const override { return activations_; }
  DType activation_dtype() const override { return DType::kF32; }
  DType cache_dtype() const override {
    return activations_ == Activations::kBf16 ? DType::kBf16 : DType::kF32;
  }

  bool uses_host_memory() const override { return true; }
  Buffer allocate(std::size_t bytes, const char* purpose) override { return {bytes, purpose}; }
  Buffer allocate_shared(std::size_t bytes, const char* purpose) override {
    return {bytes, purpose};
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    if (bytes != 0) std::memmove(to, from, bytes);
  }
  void copy_in_order(void* to, const void* from, std::size_t bytes) override {
    copy(to, from, bytes);
  }
  void run_on_host(std::function<void()> work) override { work(); }
  void clear(void* data, std::size_t bytes) override {
    if (bytes != 0) std::memset(data, 0, bytes);
  }
  void synchronize() override {}
  std::optional<std::uint64_t> free_memory() const override { return std::nullopt; }
  Buffer expert_table(std::span<const ExpertWeights> /*experts*/) override { return {}; }
  void run_pass(const BatchView& /*batch*/, const std::function<void()>& ops) override { ops(); }
  void head_draw(const HeadDrawArgs& args) override {
    const auto vocab = static_cast<std::size_t>(args.weight.rows);
    logits_.resize(args.rows.size() * vocab);
    baltoro::head(
        *this, {.x = args.x, .rows = args.rows, .weight = args.weight, .logits = logits_.data()});
    for (std::size_t i = 0; i < args.rows.size(); ++i) {
      args.drawn[i] = draw_token(std::span(logits_).subspan(i * vocab, vocab), args.draws[i]);
    }
  }
  void fetch_logits(std::size_t index, std::span<float> to) override {
    std::copy_n(logits_.begin() + static_cast<std::ptrdiff_t>(index * to.size()), to.size(),
                to.begin());
  }

 private:
  Activations activations_;
  std::vector<float> logits_;  // of the last head_draw()
};

}  // namespace baltoro
