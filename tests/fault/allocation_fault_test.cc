// Memory that runs out at any moment of loading and running: a clean error or the same result, and
// an engine that goes on.
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <new>
#include <nlohmann/json.hpp>
#include <string>

#include "baltoro/error.h"
#include "fault/allocations.h"
#include "fault/run.h"
#include "fault/syscalls.h"
#include "io/test_files.h"
#include "model/synth.h"

namespace baltoro {
namespace {

using testing::Call;
using testing::FailingAllocation;
using testing::FailingCall;

using Body = std::function<std::vector<float>()>;

struct Outcome {
  bool met = false;   // whether the fault came about
  std::string error;  // that reached the caller; empty: none
  bool clean = true;  // out of memory, and nothing else
  std::vector<float> logits;
};

// `make_fault` gives an object that holds the fault for as long as it lives.
template <typename MakeFault>
Outcome run_under(const MakeFault& make_fault, const Body& body) {
  Outcome outcome;
  outcome.error.reserve(1000);
  const auto fault = make_fault();
  try {
    outcome.logits = body();
  } catch (const Error& error) {
    outcome.clean = error.code() == ErrorCode::kOutOfMemory;
    outcome.error.assign(error.what(), 0, 999);
  } catch (const std::bad_alloc&) {
    outcome.error = "bad_alloc";
  }
  outcome.met = fault.met();
  return outcome;
}

// Lets request after request fail until there are no more: each of the first `dense`, then ever
// fewer. Returns how many failures reached the caller.
template <typename MakeFault>
int fail_each(const MakeFault& make_fault, const Body& body, std::int64_t dense) {
  const std::vector<float> expected = body();
  const std::ptrdiff_t open_files = testing::open_files();
  int failed = 0;
  for (std::int64_t nth = 0;; nth += 1 + nth / dense) {
    const Outcome outcome = run_under([&] { return make_fault(nth); }, body);
    EXPECT_TRUE(outcome.clean) << "request " << nth << ": " << outcome.error;
    if (outcome.error.empty()) {
      EXPECT_EQ(outcome.logits, expected) << "request " << nth << " failed, and no one noticed";
    } else {
      ++failed;
    }
    EXPECT_EQ(testing::open_files(), open_files) << "request " << nth;
    if (!outcome.met) return failed;
  }
}

// The fixture's kinds of layers with one layer of each and as few experts as they can do with: most
// of a load are the names of tensors, and one more expert teaches nothing.
const std::filesystem::path& model() {
  static const TempDir dir;
  static const std::filesystem::path path = [] {
    std::ifstream file(testing::fixture("k3") / "config.json");
    nlohmann::json config = nlohmann::json::parse(file);
    nlohmann::json& text = config["text_config"];
    text["num_hidden_layers"] = 3;
    text["num_experts"] = 2;
    text["linear_attn_config"]["kda_layers"] = {1, 2};
    text["linear_attn_config"]["full_attn_layers"] = {3};
    std::ofstream(dir / "config.json") << config;
    synthesize(dir / "config.json", dir / "model");
    return dir / "model";
  }();
  return path;
}

std::shared_ptr<Engine> load() {
  return Engine::load(model(), testing::small_engine(LoadMode::kCopy, 3));
}

const Body kLoad = [] {
  load();
  return std::vector<float>();
};
const Body kLoadAndRun = [] { return testing::run(*load()); };

constexpr std::int64_t kEach = 1 << 20;  // more than a load asks for

const auto kOne = [](std::int64_t nth) { return FailingAllocation(nth); };
const auto kAllLater = [](std::int64_t nth) { return FailingAllocation(nth, true); };
const auto kMap = [](std::int64_t nth) { return FailingCall(Call::kMap, nth, ENOMEM); };

TEST(AllocationFaults, OfLoading) {
  EXPECT_GT(fail_each(kOne, kLoad, kEach), 500);
  EXPECT_GT(fail_each(kAllLater, kLoad, kEach), 500);
}

// libstdc++ 12 frees a part of such a path twice where memory runs out while a name is appended.
TEST(AllocationFaults, OfLoadingAPathThatEndsInASlash) {
  const std::filesystem::path dir = model() / "";
  const Body body = [&] {
    Engine::load(dir, testing::small_engine(LoadMode::kCopy, 3));
    return std::vector<float>();
  };
  EXPECT_GT(fail_each(kOne, body, 500), 500);
}

TEST(AllocationFaults, OfLargeMemory) { EXPECT_GT(fail_each(kMap, kLoadAndRun, 1000), 10); }

TEST(AllocationFaults, OfARunningEngine) {
  const auto engine = load();
  const Body run = [&] { return testing::run(*engine); };
  EXPECT_GT(fail_each(kOne, run, 1000), 10);
  EXPECT_GT(fail_each(kAllLater, run, 1000), 10);
}

TEST(AllocationFaults, NameTheModel) {
  const std::string name = model().string();
  const Outcome outcome = run_under([] { return FailingAllocation(200); }, kLoadAndRun);
  EXPECT_NE(outcome.error.find(name + ": out of memory while loading"), std::string::npos)
      << outcome.error;
}

}  // namespace
}  // namespace baltoro
