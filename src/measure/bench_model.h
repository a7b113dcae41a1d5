// Speed of a model: prefill and decode at chosen sizes, depths and batches.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "baltoro/engine.h"
#include "measure/bench_row.h"

namespace baltoro {

struct ModelBench {
  std::filesystem::path dir;
  EngineOptions engine;  // num_threads is not used
  std::vector<int> threads = {0};
  std::vector<std::int64_t> prompts = {512};    // tokens of a prefill
  std::vector<std::int64_t> generated = {128};  // tokens of a decode
  std::vector<std::int64_t> depths = {0};
  std::vector<std::int64_t> batches = {1};
  RepeatOptions repeat;
};

// Calls `on_row` as each row is done, thread count by thread count (`on_engine` first), then by
// depth and batch. Tokens are random, the same for every run; a decode feeds them as generated ones
// and samples nothing. Sequences of a batch share no memory but the weights. Throws as Engine::load
// and Engine::forward.
void bench_model(const ModelBench& bench, const std::function<void(const EngineInfo&)>& on_engine,
                 const std::function<void(const BenchRow&)>& on_row, Roof& roof);

}  // namespace baltoro
