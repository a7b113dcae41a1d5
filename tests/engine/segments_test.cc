// A model whose first layers the host computes, because a device has room for the last ones alone:
// with f32 on the same kernels it gives the bits of the whole, wherever the cut is. A CPU backend
// stands for the device and checks that ops see its memory alone; on a GPU the tests of tests/cuda
// repeat it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "cpu/backend.h"
#include "engine/engine_impl.h"
#include "engine/scheduled.h"
#include "engine/sessions.h"
#include "io/memory.h"
#include "io/test_files.h"
#include "model/synth.h"
#include "ops/embed.h"
#include "ops/forwarding_backend.h"
#include "ops/glu_mlp.h"
#include "ops/head.h"
#include "ops/kda.h"
#include "ops/linear.h"
#include "ops/mix_norm.h"
#include "ops/mla.h"
#include "ops/route.h"

namespace baltoro {
namespace {

// Has memory of its own, of which ops find activations, weights and states.
class StandIn final : public ForwardingBackend {
 public:
  explicit StandIn(std::unique_ptr<Backend> backend)
      : ForwardingBackend(*backend), backend_(std::move(backend)) {}

  bool uses_host_memory() const override { return false; }
  std::optional<std::uint64_t> free_memory() const override { return std::uint64_t{1} << 40; }
  Buffer allocate(std::size_t bytes, const char* purpose) override {
    return owned(inner().allocate(bytes, purpose));
  }
  Buffer allocate_shared(std::size_t bytes, const char* purpose) override {
    return owned(inner().allocate_shared(bytes, purpose));
  }

  void embed(const EmbedArgs& args) override {
    check({args.table.data, args.out.data});
    inner().embed(args);
  }
  void linear(const LinearArgs& args) override {
    check({args.x.data});
    for (int i = 0; i < args.num_outputs; ++i) {
      const LinearOutput& output = args.outputs[static_cast<std::size_t>(i)];
      check({output.weight.data, output.out.data});
    }
    inner().linear(args);
  }
  void mix_norm(const MixNormArgs& args) override {
    check({args.prefix.data, args.delta.data, args.res_norm, args.res_proj, args.norm,
           args.out.data, args.first_bad});
    for (const ConstTensorView& source : args.bank) check({source.data});
    inner().mix_norm(args);
  }
  void kda_mix(const KdaMixArgs& args) override {
    check({args.q.data, args.out.data, args.q_conv, args.a_log, args.dt_bias, args.o_norm,
           args.pool.state, args.pool.conv});
    inner().kda_mix(args);
  }
  void mla_prefill(const MlaArgs& args) override {
    check_mla(args);
    inner().mla_prefill(args);
  }
  void mla_decode(const MlaArgs& args) override {
    check_mla(args);
    inner().mla_decode(args);
  }
  void glu_mlp(const GluMlpArgs& args) override {
    check(
        {args.x.data, args.gate.data, args.up.data, args.down.data, args.add.data, args.out.data});
    inner().glu_mlp(args);
  }
  void route(const RouteArgs& args) override {
    check({args.x.data, args.weight.data, args.bias, args.ids, args.weights});
    inner().route(args);
  }
  void head(const HeadArgs& args) override {
    check({args.x.data, args.weight.data});
    inner().head(args);
  }

 private:
  void check_mla(const MlaArgs& args) {
    check({args.q.data, args.kv.data, args.v.data, args.kv_norm, args.kv_b.data, args.gate.data,
           args.cache.data, args.out.data});
  }
  void check(std::initializer_list<const void*> addresses) {
    for (const void* address : addresses) {
      if (address == nullptr) continue;
      const auto at = std::ranges::find_if(owned_, [&](const auto& range) {
        return range.first <= address && address < range.second;
      });
      EXPECT_NE(at, owned_.end()) << "an op of the device reads memory of the host";
    }
  }
  // Freed ranges stay: what is checked is that nothing of the host is read.
  Buffer owned(Buffer buffer) {
    const auto* begin = static_cast<const std::byte*>(buffer.data());
    owned_.emplace(begin, begin + buffer.bytes());
    return buffer;
  }

  std::unique_ptr<Backend> backend_;
  std::set<std::pair<const void*, const void*>> owned_;
};

constexpr int kThreads = 1;

EngineOptions options_of(Activations activations) {
  EngineOptions options;
  options.activations = activations;
  options.num_threads = kThreads;
  options.max_batch_rows = 128;
  return options;
}

std::unique_ptr<Backend> stand_in(Activations activations) {
  return std::make_unique<StandIn>(
      make_cpu_backend({.activations = activations, .num_threads = kThreads, .isa = std::nullopt}));
}

// Bytes of the device that leave exactly the first `host_layers` to the host.
std::uint64_t room_for(const std::filesystem::path& dir, const EngineOptions& options,
                       std::size_t host_layers) {
  const ModelConfig config = load_config(dir);
  const auto device = stand_in(options.activations);
  return device_demand(dir, config, working_memory(options, config, *device))
      .trunk_from(host_layers);
}

std::shared_ptr<Engine> load_split(const std::filesystem::path& dir, EngineOptions options,
                                   std::int64_t host_layers) {
  options.device = "reference";  // as far as the options' checks go
  options.device_memory = room_for(dir, options, static_cast<std::size_t>(host_layers));
  options.experts = ExpertPlace::kHost;
  auto engine =
      Engine::Impl::load(load_parts(dir, options, stand_in(options.activations)), options);
  EXPECT_EQ(engine->info().memory.host_layers, host_layers);
  return engine;
}

void note(const Session& session, std::vector<float>& logits) {
  logits.insert(logits.end(), session.logits().begin(), session.logits().end());
}

// A prompt in two pieces, generated tokens, a prompt within an open block, a fork that goes its way.
std::vector<float> transcript(Engine& engine) {
  std::vector<float> logits;
  Session session = engine.new_session();
  session.prefill(prompt(150));
  note(session, logits);
  session.prefill(prompt(20, 1));
  note(session, logits);
  Session fork = session.fork();
  for (TokenId token = 3; token < 8; ++token) session.decode(token);
  note(session, logits);
  fork.prefill(prompt(30, 2));
  fork.decode(9);
  note(fork, logits);
  session.decode(9);
  note(session, logits);
  return logits;
}

class Segments : public testing::TestWithParam<std::tuple<const char*, Activations>> {
 protected:
  std::filesystem::path dir_ = fixture(std::get<0>(GetParam()));
  EngineOptions options_ = options_of(std::get<1>(GetParam()));
  std::int64_t layers_ = load_config(dir_).num_layers;
};

TEST_P(Segments, GiveTheBitsOfTheWholeWhereverTheCutIs) {
  const std::vector<float> whole = transcript(*Engine::load(dir_, options_));
  for (std::int64_t cut = 0; cut < layers_; ++cut) {
    EXPECT_TRUE(same_bits(transcript(*load_split(dir_, options_, cut)), whole)) << cut;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Segments,
                         testing::Combine(testing::Values("k3", "kimi_linear", "attnres_full",
                                                          "dense_only", "kda_only", "mla_only",
                                                          "gqa", "softplus_k3"),
                                          testing::Values(Activations::kF32, Activations::kBf16)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param)) +
                                  (std::get<1>(test.param) == Activations::kF32 ? "_f32" : "_bf16");
                         });

class SplitK3 : public testing::Test {
 protected:
  std::filesystem::path dir_ = fixture("k3");
  EngineOptions options_ = options_of(Activations::kF32);
  TempDir files_;
};

TEST_F(SplitK3, ABatchHasTheBitsOfItsRowsAlone) {
  const auto engine = load_split(dir_, options_, 2);
  const auto whole = Engine::load(dir_, options_);
  std::vector<Session> sessions;
  std::vector<std::vector<TokenId>> ids;
  std::vector<BatchItem> items;
  for (std::size_t i = 0; i < 4; ++i) {
    sessions.push_back(engine->new_session());
    ids.push_back(prompt(30 + 50 * i, static_cast<int>(i)));
  }
  for (std::size_t i = 0; i < 4; ++i) items.push_back({.session = &sessions[i], .tokens = ids[i]});
  engine->forward(items);
  const TokenId next = 4;
  items.clear();
  for (Session& session : sessions) {
    items.push_back({.session = &session, .tokens = {&next, 1}, .origin = Origin::kGenerated});
  }
  engine->forward(items);
  for (std::size_t i = 0; i < 4; ++i) {
    Session alone = whole->new_session();
    alone.prefill(ids[i]);
    alone.decode(next);
    EXPECT_TRUE(same_bits(sessions[i].logits(), alone.logits())) << i;
  }
}

TEST_F(SplitK3, ASavedSessionGoesOnBehindAnyCut) {
  const std::filesystem::path file = files_.path() / "session";
  const auto engine = load_split(dir_, options_, 3);
  Session session = engine->new_session();
  session.prefill(prompt(100));
  session.save(file);
  session.prefill(prompt(20, 1));
  session.decode(5);
  for (const std::int64_t cut : {std::int64_t{3}, std::int64_t{1}, std::int64_t{0}}) {
    const auto other = load_split(dir_, options_, cut);
    Session restored = Session::restore(*other, file);
    restored.prefill(prompt(20, 1));
    restored.decode(5);
    EXPECT_TRUE(same_bits(restored.logits(), session.logits())) << cut;
  }
}

TEST_F(SplitK3, TheSchedulerGivesTheTokensOfTheWholeAndReusesPrefixes) {
  const auto tokens = [&](const std::shared_ptr<Engine>& engine) {
    Scheduler scheduler(engine, {.state_bytes = std::uint64_t{64} << 20});
    std::vector<std::vector<TokenId>> all;
    std::deque<Answer> answers;
    for (int round = 0; round < 2; ++round) {
      const std::size_t first = answers.size();
      for (int i = 0; i < 3; ++i) {
        answers.emplace_back();
        scheduler.submit(answers.back().request(prompt(140) + prompt(10 + 9 * i, i), 8, 2));
      }
      for (std::size_t i = first; i < answers.size(); ++i) {
        all.push_back(answers[i].ids(0));
        all.push_back(answers[i].ids(1));
      }
    }
    EXPECT_GT(scheduler.stats().prefix_hits, 0u);
    return all;
  };
  EXPECT_EQ(tokens(load_split(dir_, options_, 2)), tokens(Engine::load(dir_, options_)));
}

TEST_F(SplitK3, ARowThatIsNotFiniteInTheHostsLayersFailsAlone) {
  copy_with_nan_row("k3", files_.path() / "nan");
  const auto message = [](Engine& engine) {
    Session good = engine.new_session(), bad = engine.new_session();
    const std::vector<TokenId> ids = prompt(20), with_nan = prompt(5) + std::vector{kNanToken};
    std::vector<BatchItem> items = {{.session = &bad, .tokens = with_nan},
                                    {.session = &good, .tokens = ids}};
    engine.forward(items);
    EXPECT_FALSE(items[1].error);
    EXPECT_TRUE(items[0].error);
    return items[0].error ? std::string(items[0].error->what()) : "";
  };
  const std::string whole = message(*Engine::load(files_.path() / "nan", options_));
  EXPECT_EQ(message(*load_split(files_.path() / "nan", options_, 2)), whole);
  EXPECT_NE(whole.find("the embedding"), std::string::npos) << whole;
}

TEST_F(SplitK3, StatesAreCountedWhereTheyAre) {
  const EngineInfo whole = Engine::load(dir_, options_)->info();
  for (std::int64_t cut = 1; cut < whole.num_layers; ++cut) {
    const EngineInfo info = load_split(dir_, options_, cut)->info();
    EXPECT_EQ(info.state_bytes, whole.state_bytes);
    EXPECT_EQ(info.cache_bytes_per_token, whole.cache_bytes_per_token);
    // Layers 0 to 2 are KDA, the others MLA.
    EXPECT_EQ(info.host_state_bytes, whole.state_bytes / 3 * std::min<std::int64_t>(cut, 3));
    EXPECT_EQ(info.host_cache_bytes_per_token,
              whole.cache_bytes_per_token / 2 * std::max<std::int64_t>(0, cut - 3));
    EXPECT_EQ(info.memory.device_layers, whole.num_layers - cut);
    EXPECT_LT(info.memory.device_working, info.memory.device_limit);
  }
}

TEST_F(SplitK3, WhatTheHostHasNoRoomForStaysInTheFiles) {
  // Experts that outweigh what a process grows by.
  nlohmann::json config = nlohmann::json::parse(std::ifstream(dir_ / "config.json"));
  config["text_config"]["num_experts"] = 32;
  config["text_config"]["moe_intermediate_size"] = 2048;
  std::ofstream(files_.path() / "config.json") << config;
  const std::filesystem::path dir = files_.path() / "model";
  synthesize(files_.path() / "config.json", dir);

  EngineOptions options = options_;
  options.memory_limit = std::uint64_t{1} << 40;
  const std::uint64_t before = resident_memory_bytes();
  MemoryPlan all;
  std::vector<float> whole;
  {
    const auto engine = load_split(dir, options, 3);
    all = engine->info().memory;
    whole = transcript(*engine);
  }
  EXPECT_TRUE(all.all_resident());
  // A plan counts what the process has; a sanitizer keeps what the first engine gave back.
  const std::uint64_t kept = std::max(resident_memory_bytes(), before) - before;
  options.memory_limit = all.minimum + kept + all.resident / 2;
  const auto engine = load_split(dir, options, 3);
  EXPECT_GT(engine->info().memory.experts, 0u);
  EXPECT_TRUE(same_bits(transcript(*engine), whole));
  EXPECT_GT(engine->paged_bytes(), 0u);
}

std::string refusal(const std::filesystem::path& dir, const EngineOptions& options,
                    ErrorCode code) {
  try {
    load_parts(dir, options, stand_in(options.activations));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "loaded";
  return "";
}

TEST_F(SplitK3, RefusalsSayWhatIsMissingAndWhatHelps) {
  using testing::HasSubstr;
  EngineOptions options = options_;
  options.device_memory = room_for(dir_, options_, 4) - 1;
  EXPECT_THAT(refusal(dir_, options, ErrorCode::kDoesNotFit), HasSubstr("--device cpu"));
  options.device_memory = room_for(dir_, options_, 2);
  options.experts = ExpertPlace::kDevice;
  EXPECT_THAT(refusal(dir_, options, ErrorCode::kDoesNotFit), HasSubstr("--experts auto"));
  options.experts = ExpertPlace::kAuto;
  options.kda_state = KdaState::kBf16;
  EXPECT_THAT(refusal(dir_, options, ErrorCode::kUnsupported), HasSubstr("--kda-state f32"));
}

}  // namespace
}  // namespace baltoro
