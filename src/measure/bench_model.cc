#include "measure/bench_model.h"

#include <fmt/format.h>

#include "measure/forward_batch.h"
#include "measure/model_work.h"
#include "model/config.h"

namespace baltoro {
namespace {

// All rows of one engine.
class EngineBench {
 public:
  EngineBench(const ModelBench& bench, Engine& engine, Roof& roof,
              const std::function<void(const BenchRow&)>& on_row)
      : bench_(bench),
        config_(load_config(bench.dir, {bench.engine.latent_norm_eps})),
        engine_(engine),
        roof_(roof),
        on_row_(on_row) {}

  void run() {
    for (const std::int64_t depth : bench_.depths) {
      for (const std::int64_t size : bench_.batches) {
        ForwardBatch batch(engine_, size, depth);
        for (const std::int64_t count : bench_.prompts) {
          const Work work =
              pass_work(config_, engine_.info(), {size, count, depth, Origin::kPrompt});
          measure("prefill", {size, count, depth, Origin::kPrompt}, work, 1,
                  [&] { return batch.prefill(count); });
        }
        for (const std::int64_t count : bench_.generated) {
          Work work;
          for (std::int64_t t = 0; t < count; ++t) {
            work += pass_work(config_, engine_.info(), {size, 1, depth + t, Origin::kGenerated});
          }
          measure("decode", {size, count, depth, Origin::kGenerated}, work, count,
                  [&] { return batch.decode(count); });
        }
      }
    }
  }

 private:
  void measure(const char* name, const PassShape& shape, const Work& work, std::int64_t passes,
               const std::function<double()>& run) {
    BenchRow row;
    row.name = fmt::format("{} {}", name, shape.tokens);
    row.threads = engine_.info().num_threads;
    row.batch = shape.batch;
    row.depth = shape.depth;
    row.tokens = shape.tokens;
    row.work = work;
    const auto n = static_cast<double>(passes);
    const Work pass{work.flops / n, work.bytes / n};
    const Activations products = bench_.engine.activations;
    row.floor = roof_.floor(row.threads, pass, products);
    row.floor.seconds *= n;
    std::function<double()> now = roof_.floor_now(row.threads, pass, products, row.floor.bound);
    if (now) now = [now, n] { return n * now(); };
    row.time(run, bench_.repeat, now);
    on_row_(row);
  }

  const ModelBench& bench_;
  ModelConfig config_;
  Engine& engine_;
  Roof& roof_;
  const std::function<void(const BenchRow&)>& on_row_;
};

}  // namespace

void bench_model(const ModelBench& bench, const std::function<void(const EngineInfo&)>& on_engine,
                 const std::function<void(const BenchRow&)>& on_row, Roof& roof) {
  for (const int threads : bench.threads) {
    EngineOptions options = bench.engine;
    options.num_threads = threads;
    const std::shared_ptr<Engine> engine = Engine::load(bench.dir, options);
    on_engine(engine->info());
    EngineBench(bench, *engine, roof, on_row).run();
  }
}

}  // namespace baltoro
