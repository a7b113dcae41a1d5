// The determinism contract (docs/numerics.md) as a matrix: one transcript gives the same bits on
// every instruction set of this machine for any number of threads, size of a pass, way of loading,
// limit of memory, cut of the input, batch neighbours, and content of memory that nobody has written to.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>

#include "cpu/backend.h"
#include "engine/sessions.h"
#include "fault/syscalls.h"
#include "io/test_files.h"
#include "model/synth.h"

namespace baltoro {
namespace {

// What may not change a bit.
struct Setting {
  int threads = 1;
  std::int64_t max_rows = 512;
  LoadMode load = LoadMode::kCopy;
  // Limit of memory between the least that will do, 0, and all weights in memory, 1.
  std::optional<double> budget = std::nullopt;
  // New memory is NaN, and slots, pages, activations and scratch were used by sequences of NaN.
  bool poisoned = false;
  // The following hold for one run on such an engine.
  std::vector<std::size_t> chunks = {1000};  // prompts are cut into these lengths, over and over
  std::size_t neighbours = 0;                // other sequences in the same passes
};

std::ostream& operator<<(std::ostream& out, const Setting& s) {
  out << s.threads << " threads, " << s.max_rows << " rows, "
      << (s.load == LoadMode::kMap ? "mapped" : "copied") << (s.poisoned ? ", poisoned" : "")
      << (s.budget ? ", budget " + std::to_string(*s.budget) : "") << ", " << s.neighbours
      << " neighbours, chunks of";
  for (std::size_t chunk : s.chunks) out << " " << chunk;
  return out;
}

const std::vector<std::vector<std::size_t>> kCuts = {
    {1}, {2}, {3}, {5}, {27}, {63}, {64}, {65}, {1, 64, 5, 63, 2, 27, 65, 3}};

struct Subject {
  const char* model;
  Activations activations;
  std::string isa;
};

std::string name_of(const Subject& subject) {
  const bool bf16 = subject.activations == Activations::kBf16;
  return std::string(subject.model) + (bf16 ? "_bf16_" : "_f32_") + subject.isa;
}

std::string name_of_param(const ::testing::TestParamInfo<Subject>& info) {
  return name_of(info.param);
}

std::vector<Subject> subjects(const std::vector<std::string>& isas) {
  std::vector<Subject> all;
  for (const std::string& isa : isas) {
    all.push_back({"k3", Activations::kBf16, isa});
    all.push_back({"k3", Activations::kF32, isa});
    all.push_back({"kimi_linear", Activations::kBf16, isa});
    all.push_back({"gqa", Activations::kF32, isa});
    all.push_back({"kda_only", Activations::kBf16, isa});
  }
  return all;
}

// Models whose experts a budget can leave in the files, one in each arithmetic.
std::vector<Subject> with_experts(const std::vector<std::string>& isas) {
  std::vector<Subject> all;
  for (const std::string& isa : isas) {
    all.push_back({"k3", Activations::kBf16, isa});
    all.push_back({"kimi_linear", Activations::kF32, isa});
  }
  return all;
}

// One session that is given the transcript, among its neighbours.
class Reading {
 public:
  Reading(Engine& engine, const Setting& setting) : engine_(engine), setting_(setting) {
    // Slots before and behind.
    for (std::size_t i = 0; i < setting.neighbours / 2; ++i) add_neighbour();
    session_.emplace(engine.new_session());
    while (neighbours_.size() < setting.neighbours) add_neighbour();
  }

  // The logits of every token: two prompts, the second within an open block, each followed by what
  // the model says to it.
  std::vector<float> transcript() {
    read(prompt(140));
    generate(4);
    read(prompt(70, 4));
    generate(2);
    return std::move(logits_);
  }

 private:
  void add_neighbour() { neighbours_.push_back(engine_.new_session()); }

  void read(const std::vector<TokenId>& ids) {
    std::size_t count = 0;
    for (std::size_t begin = 0; begin < ids.size(); begin += count) {
      const std::size_t chunk = setting_.chunks[chunk_++ % setting_.chunks.size()];
      count = std::min(chunk, ids.size() - begin);
      feed(std::span(ids).subspan(begin, count), Origin::kPrompt);
    }
  }

  void generate(int count) {
    for (int i = 0; i < count; ++i) {
      const auto known = session_->logits().first(kNanToken);
      const auto next = static_cast<TokenId>(std::ranges::max_element(known) - known.begin());
      feed({&next, 1}, Origin::kGenerated);
    }
  }

  // Neighbours read prompts of many lengths and generate, in turns. Beside short pieces, of which there
  // are many, their prompts are short as well.
  void feed(std::span<const TokenId> ids, Origin origin) {
    const std::size_t lengths = std::clamp<std::size_t>(2 * ids.size(), 7, 66);
    std::vector<std::vector<TokenId>> others;
    for (std::size_t i = 0; i < neighbours_.size(); ++i) {
      const bool generates = (passes_ + i) % 3 == 1;
      others.push_back(
          prompt(generates ? 1 : 1 + (passes_ * 13 + i * 29) % lengths, static_cast<int>(i)));
    }
    std::vector<BatchItem> items;
    std::vector<float> logits;
    const auto own = [&] {
      items.push_back(
          {.session = &*session_, .tokens = ids, .origin = origin, .all_logits = &logits});
    };
    for (std::size_t i = 0; i < neighbours_.size(); ++i) {
      if (i == passes_ % neighbours_.size()) own();
      const bool generates = (passes_ + i) % 3 == 1;
      items.push_back({.session = &neighbours_[i],
                       .tokens = others[i],
                       .origin = generates ? Origin::kGenerated : Origin::kPrompt});
    }
    if (items.empty()) own();
    engine_.forward(items);
    logits_.insert(logits_.end(), logits.begin(), logits.end());
    ++passes_;
  }

  Engine& engine_;
  const Setting& setting_;
  std::optional<Session> session_;
  std::vector<Session> neighbours_;
  std::vector<float> logits_;
  std::size_t passes_ = 0;
  std::size_t chunk_ = 0;
};

// Runs sequences of NaN in both arithmetics and drops them: what they held is free, and NaN.
void poison(Engine& engine) {
  std::vector<Session> sessions;
  for (int i = 0; i < 5; ++i) {
    sessions.push_back(engine.new_session());
    if (i % 2 == 0) {
      EXPECT_THROW(sessions.back().prefill(std::vector<TokenId>(130, kNanToken)), Error);
    } else {
      sessions.back().prefill(prompt(65));
      EXPECT_THROW(sessions.back().decode(kNanToken), Error);
    }
  }
}

template <typename Param>
class MatrixOf : public ::testing::TestWithParam<Param> {
 protected:
  virtual const Subject& subject() const = 0;

  EngineOptions options_of(const Setting& setting) {
    return {.activations = subject().activations,
            .num_threads = setting.threads,
            .isa = subject().isa,
            .load = setting.load,
            .max_batch_rows = setting.max_rows};
  }

  std::shared_ptr<Engine> load(const Setting& setting) {
    const EngineOptions options = options_of(setting);
    if (!setting.poisoned) return Engine::load(fixture(subject().model), options);
    if (!damaged_) {
      damaged_.emplace();
      copy_with_nan_row(subject().model, damaged_->path());
    }
    auto engine = Engine::load(damaged_->path(), options);
    poison(*engine);
    return engine;
  }

  std::vector<float> run(Engine& engine, const Setting& setting) {
    return Reading(engine, setting).transcript();
  }

  void expect_plain_bits(const std::vector<Setting>& settings) {
    const std::vector<float> plain = run(*load({}), {});
    for (const Setting& setting : settings) {
      std::optional<testing::PoisonedMemory> poisoned;
      if (setting.poisoned) poisoned.emplace();
      EXPECT_TRUE(same_bits(plain, run(*load(setting), setting))) << setting;
    }
  }

 private:
  std::optional<TempDir> damaged_;
};

class Matrix : public MatrixOf<Subject> {
 protected:
  const Subject& subject() const override { return GetParam(); }
};

class Determinism : public Matrix {};
INSTANTIATE_TEST_SUITE_P(Best, Determinism,
                         ::testing::ValuesIn(subjects({supported_isas().back()})), name_of_param);

TEST_P(Determinism, OneThingChanged) {
  std::vector<Setting> settings = {{.threads = 2},           {.threads = 3},    {.threads = 5},
                                   {.max_rows = 64},         {.max_rows = 128}, {.poisoned = true},
                                   {.load = LoadMode::kMap}, {.neighbours = 1}, {.neighbours = 7}};
  for (const auto& cut : kCuts) settings.push_back({.chunks = cut});
  expect_plain_bits(settings);
}

class DeterminismOfIsas : public Matrix {};
INSTANTIATE_TEST_SUITE_P(All, DeterminismOfIsas, ::testing::ValuesIn(subjects(supported_isas())),
                         name_of_param);

TEST_P(DeterminismOfIsas, ManyThingsChanged) {
  expect_plain_bits({{.threads = 3,
                      .max_rows = 128,
                      .load = LoadMode::kMap,
                      .poisoned = true,
                      .chunks = {27, 64, 1, 65, 2},
                      .neighbours = 3}});
}

// With about 25 MB of experts, which a budget leaves in the files: what else the process holds varies
// by less.
class SlowDeterminismOfBudgets : public Matrix {
 protected:
  void SetUp() override {
    nlohmann::json config =
        nlohmann::json::parse(std::ifstream(fixture(GetParam().model) / "config.json"));
    auto& text = config.contains("text_config") ? config["text_config"] : config;
    text["num_experts"] = 64;
    text["moe_intermediate_size"] = text.contains("routed_expert_hidden_size") ? 2048 : 256;
    std::ofstream(files_.path() / "config.json") << config;
    synthesize(files_.path() / "config.json", files_.path() / "model");
  }

  std::shared_ptr<Engine> load_within(const Setting& setting) {
    EngineOptions options = options_of(setting);
    options.memory_limit = std::uint64_t{1} << 40;
    const MemoryPlan all = Engine::plan(files_.path() / "model", options);
    const std::uint64_t most = all.working + all.resident;
    const auto beyond = static_cast<double>(most - all.minimum);
    if (setting.budget) {
      options.memory_limit = all.minimum + static_cast<std::uint64_t>(*setting.budget * beyond);
    }
    auto engine = Engine::load(files_.path() / "model", options);
    EXPECT_EQ(engine->info().memory.all_resident(), !setting.budget) << setting;
    return engine;
  }

 private:
  TempDir files_;
};
INSTANTIATE_TEST_SUITE_P(Slow, SlowDeterminismOfBudgets,
                         ::testing::ValuesIn(with_experts(supported_isas())), name_of_param);

TEST_P(SlowDeterminismOfBudgets, WeightsStayInTheFiles) {
  const std::vector<float> plain = run(*load_within({}), {});
  for (const double budget : {0.3, 0.6}) {
    for (const LoadMode mode : {LoadMode::kAuto, LoadMode::kMap}) {
      const Setting setting{.threads = 3,
                            .max_rows = 128,
                            .load = mode,
                            .budget = budget,
                            .chunks = {27, 64, 1},
                            .neighbours = 3};
      EXPECT_TRUE(same_bits(plain, run(*load_within(setting), setting))) << setting;
    }
  }
}

// The whole matrix, in parts that one process runs in a minute or less.
struct Part {
  Subject subject;
  int threads;
  bool poisoned;
};

std::vector<Part> parts() {
  std::set<int> threads = {1, 2, 3, 5};
  threads.insert(static_cast<int>(std::thread::hardware_concurrency()));
  threads.erase(0);  // a machine that does not tell
  std::vector<Part> all;
  for (const Subject& subject : subjects(supported_isas())) {
    for (const int count : threads) {
      for (const bool poisoned : {false, true}) all.push_back({subject, count, poisoned});
    }
  }
  return all;
}

class SlowDeterminism : public MatrixOf<Part> {
 protected:
  const Subject& subject() const override { return GetParam().subject; }
};
INSTANTIATE_TEST_SUITE_P(Slow, SlowDeterminism, ::testing::ValuesIn(parts()),
                         [](const ::testing::TestParamInfo<Part>& part) {
                           return name_of(part.param.subject) + "_" +
                                  std::to_string(part.param.threads) +
                                  (part.param.poisoned ? "_poisoned" : "");
                         });

TEST_P(SlowDeterminism, EverythingChanged) {
  const std::vector<float> plain = run(*load({}), {});
  std::vector<std::vector<std::size_t>> cuts = kCuts;
  cuts.push_back(Setting{}.chunks);
  std::optional<testing::PoisonedMemory> memory;
  if (GetParam().poisoned) memory.emplace();
  for (const std::int64_t max_rows : {64, 512}) {
    for (const LoadMode mode : {LoadMode::kCopy, LoadMode::kMap}) {
      Setting setting{.threads = GetParam().threads,
                      .max_rows = max_rows,
                      .load = mode,
                      .poisoned = GetParam().poisoned};
      const auto engine = load(setting);
      for (const auto& cut : cuts) {
        for (const std::size_t neighbours : {0u, 1u, 7u}) {
          setting.chunks = cut;
          setting.neighbours = neighbours;
          EXPECT_TRUE(same_bits(plain, run(*engine, setting))) << setting;
        }
      }
    }
  }
}

}  // namespace
}  // namespace baltoro
