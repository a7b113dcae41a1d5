#include "measure/bench_model.h"

#include <fmt/format.h>

#include <chrono>

#include "baltoro/session.h"
#include "measure/model_work.h"
#include "measure/random_tokens.h"
#include "model/config.h"

namespace baltoro {
namespace {

// Sequences at one depth, and the forward passes that the rows time.
class Batch {
 public:
  Batch(Engine& engine, std::int64_t size, std::int64_t depth) : engine_(engine) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(size); ++i) {
      sessions_.push_back(engine.new_session());
      if (depth > 0) sessions_.back().prefill(random_tokens(vocab_size(), depth, past_of(i)));
    }
  }

  // Seconds of one pass in which every sequence reads `count` tokens.
  double prefill(std::int64_t count) { return run(count, count, Origin::kPrompt); }
  // Seconds of `count` passes with one generated token of every sequence.
  double decode(std::int64_t count) { return run(count, 1, Origin::kGenerated); }

 private:
  std::int64_t vocab_size() const { return engine_.info().vocab_size; }
  // Streams of random tokens.
  static std::uint64_t past_of(std::size_t sequence) { return 2 * sequence; }
  static std::uint64_t next_of(std::size_t sequence) { return 2 * sequence + 1; }

  double run(std::int64_t count, std::int64_t tokens_a_pass, Origin origin) {
    std::vector<Session> sessions;
    std::vector<std::vector<TokenId>> ids;
    for (std::size_t i = 0; i < sessions_.size(); ++i) {
      sessions.push_back(sessions_[i].fork());
      ids.push_back(random_tokens(vocab_size(), count, next_of(i)));
    }
    std::vector<BatchItem> items(sessions.size());
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t done = 0; done < count; done += tokens_a_pass) {
      for (std::size_t i = 0; i < items.size(); ++i) {
        items[i] = {.session = &sessions[i],
                    .tokens = std::span(ids[i]).subspan(static_cast<std::size_t>(done),
                                                        static_cast<std::size_t>(tokens_a_pass)),
                    .origin = origin};
      }
      engine_.forward(items);
      for (const BatchItem& item : items) {
        if (item.error) throw *item.error;
      }
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    return seconds.count();
  }

  Engine& engine_;
  std::vector<Session> sessions_;
};

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
        Batch batch(engine_, size, depth);
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
    row.floor =
        roof_.floor(row.threads, {work.flops / n, work.bytes / n}, bench_.engine.activations);
    row.floor.seconds *= n;
    row.samples = repeat(run, bench_.repeat);
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
