// Whole models on the GPU: with f32 activations the tokens of the CPU, on every small architecture;
// recorded passes against passes that run op by op; neighbours; cuts of the prompt; sessions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "baltoro/engine.h"
#include "baltoro/session.h"
#include "cuda/gpu.h"
#include "paths.h"

namespace baltoro {
namespace {

namespace fs = std::filesystem;

fs::path model_dir(const std::string& name) {
  return name == "story" ? source_dir() / "models/story" : test_data_dir() / "fixtures" / name;
}

std::shared_ptr<Engine> load(const std::string& model, const std::string& device,
                             Activations activations, bool deterministic = false) {
  return Engine::load(model_dir(model), {.device = device,
                                         .activations = activations,
                                         .deterministic = deterministic,
                                         .max_batch_rows = 128});
}

std::vector<TokenId> prompt(std::int64_t vocab, std::size_t count, int seed = 0) {
  std::vector<TokenId> ids(count);
  for (std::size_t i = 0; i < count; ++i) {
    ids[i] = static_cast<TokenId>((i * 29 + i * i * 7 + static_cast<std::size_t>(seed) * 11) %
                                  static_cast<std::size_t>(std::min<std::int64_t>(vocab, 90)));
  }
  return ids;
}

TokenId best(std::span<const float> logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// Prompt, a few tokens, another prompt within an open block, more tokens: all logits, and tokens.
struct Transcript {
  std::vector<TokenId> tokens;
  std::vector<float> logits;
};

Transcript transcript(Engine& engine, int generated = 12) {
  Transcript t;
  Session session = engine.new_session();
  const std::int64_t vocab = engine.info().vocab_size;
  const auto note = [&] {
    t.logits.insert(t.logits.end(), session.logits().begin(), session.logits().end());
  };
  for (const std::size_t length : {std::size_t{140}, std::size_t{70}}) {
    session.prefill(prompt(vocab, length, static_cast<int>(length)));
    note();
    for (int i = 0; i < generated; ++i) {
      t.tokens.push_back(best(session.logits()));
      session.decode(t.tokens.back());
      note();
    }
  }
  return t;
}

double relative_error(const std::vector<float>& reference, const std::vector<float>& values) {
  double error = 0, power = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const double d = static_cast<double>(reference[i]) - static_cast<double>(values[i]);
    error += d * d;
    power += static_cast<double>(reference[i]) * static_cast<double>(reference[i]);
  }
  return std::sqrt(error / power);
}

class CudaModel : public testing::TestWithParam<const char*> {};

TEST_P(CudaModel, F32GivesTheTokensOfTheCpu) {
  BALTORO_NEEDS_GPU();
  const Transcript cpu = transcript(*load(GetParam(), "cpu", Activations::kF32));
  const Transcript gpu = transcript(*load(GetParam(), "cuda", Activations::kF32));
  EXPECT_EQ(cpu.tokens, gpu.tokens);
  EXPECT_LT(relative_error(cpu.logits, gpu.logits), 2e-5);
}

// The error that nine of ten tokens stay below. In a tenth or less of the tokens rounding may have
// flipped the choice of an expert, which moves logits by up to half of themselves: between the CPU
// and the reference, of 12 prompts of `kda_only` three have 2.6 to 3.4 times the error over all
// tokens, and at most 1.25 times this one.
double error_of_most_tokens(const std::vector<float>& reference, const std::vector<float>& values,
                            std::size_t vocab) {
  std::vector<double> errors;
  for (std::size_t at = 0; at < reference.size(); at += vocab) {
    const auto token = [&](const std::vector<float>& of) {
      const auto first = of.begin() + static_cast<std::ptrdiff_t>(at);
      return std::vector<float>(first, first + static_cast<std::ptrdiff_t>(vocab));
    };
    errors.push_back(relative_error(token(reference), token(values)));
  }
  std::sort(errors.begin(), errors.end());
  return errors[errors.size() * 9 / 10];
}

TEST_P(CudaModel, Bf16StaysNearF32) {
  BALTORO_NEEDS_GPU();
  // The same tokens are fed to both, so that one other choice does not end the comparison.
  const auto exact = load(GetParam(), "cpu", Activations::kF32);
  const auto cpu = load(GetParam(), "cpu", Activations::kBf16);
  const auto gpu = load(GetParam(), "cuda", Activations::kBf16);
  const std::int64_t vocab = exact->info().vocab_size;
  const std::vector<TokenId> ids = prompt(vocab, 200);
  const auto logits = [&](Engine& engine) {
    Session session = engine.new_session();
    return session.prefill_all_logits(ids);
  };
  const std::vector<float> truth = logits(*exact);
  const auto error = [&](Engine& engine) {
    return error_of_most_tokens(truth, logits(engine), static_cast<std::size_t>(vocab));
  };
  const double cpu_error = error(*cpu), gpu_error = error(*gpu);
  EXPECT_LT(gpu_error, 1.5 * cpu_error + 1e-3) << "CPU: " << cpu_error;
}

INSTANTIATE_TEST_SUITE_P(Models, CudaModel,
                         testing::Values("k3", "kimi_linear", "story", "gdn", "gqa", "mqa", "rope",
                                         "kda_only", "mla_only", "kv_unequal", "unified",
                                         "router_latent", "swiglu", "no_shared", "extra0",
                                         "dense_only", "gate_none", "attnres_full", "softplus_k3"),
                         [](const auto& model) { return std::string(model.param); });

TEST(CudaModelSplit, ExpertsOfTheHostGiveTheTokensOfTheCpu) {
  BALTORO_NEEDS_GPU();
  for (const char* model : {"k3", "kimi_linear", "story"}) {
    const Transcript cpu = transcript(*load(model, "cpu", Activations::kF32));
    const auto split = Engine::load(model_dir(model), {.device = "cuda",
                                                       .activations = Activations::kF32,
                                                       .experts = ExpertPlace::kHost,
                                                       .max_batch_rows = 128});
    const Transcript both = transcript(*split);
    EXPECT_EQ(cpu.tokens, both.tokens) << model;
    EXPECT_LT(relative_error(cpu.logits, both.logits), 2e-5) << model;
  }
}

TEST(CudaModelSplit, TooLittleMemoryIsRefusedWithNumbersAndRemedy) {
  BALTORO_NEEDS_GPU();
  try {
    Engine::load(model_dir("k3"), {.device = "cuda", .device_memory = 1 << 20});
    FAIL() << "loaded into 1 MiB";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDoesNotFit);
    EXPECT_NE(std::string(error.what()).find("--device cpu"), std::string::npos) << error.what();
  }
}

TEST(CudaPasses, RecordedOnesGiveTheBitsOfTheFirst) {
  BALTORO_NEEDS_GPU();
  // The first decoding pass of a form runs op by op, the second records, later ones repeat.
  const auto engine = load("k3", "cuda", Activations::kBf16);
  Session session = engine->new_session();
  session.prefill(prompt(engine->info().vocab_size, 100));
  const Snapshot start = session.snapshot();
  std::vector<std::vector<float>> runs;
  for (int run = 0; run < 4; ++run) {
    session.rewind(start);
    session.decode(3);
    runs.emplace_back(session.logits().begin(), session.logits().end());
  }
  for (const std::vector<float>& logits : runs) EXPECT_EQ(logits, runs.front());
}

TEST(CudaPasses, NeighboursAndSlotsDoNotChangeARow) {
  BALTORO_NEEDS_GPU();
  const auto engine = load("k3", "cuda", Activations::kBf16, true);
  const std::int64_t vocab = engine->info().vocab_size;
  Session alone = engine->new_session();
  alone.prefill(prompt(vocab, 90));
  alone.decode(5);
  const std::vector<float> expected(alone.logits().begin(), alone.logits().end());

  std::vector<Session> sessions;
  for (int i = 0; i < 7; ++i) sessions.push_back(engine->new_session());
  std::vector<std::vector<TokenId>> ids;
  std::vector<BatchItem> items;
  for (int i = 0; i < 7; ++i)
    ids.push_back(
        prompt(vocab, i == 4 ? 90 : 20 + 31 * static_cast<std::size_t>(i), i == 4 ? 0 : i));
  for (std::size_t i = 0; i < 7; ++i) items.push_back({.session = &sessions[i], .tokens = ids[i]});
  engine->forward(items);
  const TokenId next = 5;
  for (int step = 0; step < 3; ++step) {
    items.clear();
    if (step == 2) sessions[4].rewind(sessions[4].snapshot());
    for (std::size_t i = 0; i < 7; ++i) {
      if (i == 4 && step != 1) continue;
      items.push_back(
          {.session = &sessions[i], .tokens = {&next, 1}, .origin = Origin::kGenerated});
    }
    engine->forward(items);
  }
  EXPECT_EQ(expected, std::vector<float>(sessions[4].logits().begin(), sessions[4].logits().end()));
}

TEST(CudaPasses, CutsOfThePromptDoNotChangeABit) {
  BALTORO_NEEDS_GPU();
  for (const char* model : {"k3", "kimi_linear"}) {
    const auto engine = load(model, "cuda", Activations::kBf16, true);
    const std::vector<TokenId> ids = prompt(engine->info().vocab_size, 200);
    const auto read = [&](std::size_t chunk) {
      Session session = engine->new_session();
      for (std::size_t begin = 0; begin < ids.size(); begin += chunk) {
        session.prefill(std::span(ids).subspan(begin, std::min(chunk, ids.size() - begin)));
      }
      session.decode(7);
      return std::vector<float>(session.logits().begin(), session.logits().end());
    };
    const std::vector<float> whole = read(1000);
    for (const std::size_t chunk : {std::size_t{1}, std::size_t{3}, std::size_t{27},
                                    std::size_t{63}, std::size_t{64}, std::size_t{65}}) {
      EXPECT_EQ(whole, read(chunk)) << model << ", chunks of " << chunk;
    }
  }
}

TEST(CudaSession, SavedAndRestoredGoesOnWithTheSameBits) {
  BALTORO_NEEDS_GPU();
  const auto engine = load("k3", "cuda", Activations::kBf16);
  Session session = engine->new_session();
  session.prefill(prompt(engine->info().vocab_size, 100));
  const fs::path file = fs::temp_directory_path() / "baltoro_cuda_session_test";
  session.save(file);
  Session restored = Session::restore(*engine, file);
  fs::remove(file);
  session.decode(5);
  restored.decode(5);
  EXPECT_EQ(std::vector<float>(session.logits().begin(), session.logits().end()),
            std::vector<float>(restored.logits().begin(), restored.logits().end()));
}

}  // namespace
}  // namespace baltoro
