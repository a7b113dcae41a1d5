// A model of twice the memory that its process may take: the same tokens, the limit obeyed, nothing
// killed. Needs to make a memory cgroup (v1 or v2), which takes root; takes a minute.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/binary.h"
#include "e2e/checkpoint.h"

namespace baltoro {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::Outcome;

// A memory cgroup below the root, removed at the end.
class MemoryGroup {
 public:
  // Nothing where the system does not allow it.
  static std::optional<MemoryGroup> make(std::uint64_t limit) {
    const std::string name = "baltoro-test-" + std::to_string(getpid());
    const fs::path root = "/sys/fs/cgroup";
    for (bool v1 : {true, false}) {
      const fs::path parent = v1 ? root / "memory" : root;
      std::error_code error;
      fs::create_directory(parent / name, error);
      if (error) continue;
      MemoryGroup group(parent / name, v1);
      std::ofstream file(group.path_ / (v1 ? "memory.limit_in_bytes" : "memory.max"));
      file << limit << std::flush;
      if (file) return group;
    }
    return std::nullopt;
  }
  ~MemoryGroup() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove(path_, ignored);
  }
  MemoryGroup(MemoryGroup&& other) noexcept : path_(std::move(other.path_)), v1_(other.v1_) {
    other.path_.clear();
  }

  fs::path procs() const { return path_ / "cgroup.procs"; }
  // Anonymous memory and page cache together, at their highest.
  std::uint64_t peak() const {
    return number(path_ / (v1_ ? "memory.max_usage_in_bytes" : "memory.peak"));
  }
  // How often the group stood at its limit and the system had to take pages from it.
  std::uint64_t times_at_limit() const {
    if (v1_) return number(path_ / "memory.failcnt");
    return event("max ");
  }
  std::uint64_t kills() const {
    if (!v1_) return event("oom_kill ");
    return number_behind(path_ / "memory.oom_control", "oom_kill ");
  }

 private:
  MemoryGroup(fs::path path, bool v1) : path_(std::move(path)), v1_(v1) {}
  std::uint64_t event(const char* key) const { return number_behind(path_ / "memory.events", key); }
  static std::uint64_t number(const fs::path& path) {
    return std::stoull(testing::read_file(path));
  }
  static std::uint64_t number_behind(const fs::path& path, const std::string& key) {
    const std::string text = "\n" + testing::read_file(path);
    const std::size_t at = text.find("\n" + key);
    return at == std::string::npos ? 0 : std::stoull(text.substr(at + 1 + key.size()));
  }

  fs::path path_;
  bool v1_;
};

// 5 layers of 48 experts of 1.7 MB, behind a trunk that is small beside them.
class LargeModel : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    parent_ = std::make_unique<testing::TempDir>();
    nlohmann::json config = testing::read_json(testing::fixture("k3") / "config.json");
    nlohmann::json& text = config["text_config"];
    text["num_experts"] = 48;
    text["num_experts_per_token"] = 4;
    text["moe_intermediate_size"] = 1024;
    text["routed_expert_hidden_size"] = 1024;
    testing::write_file(parent_->path() / "config.json", config.dump());
    const Outcome made = testing::run_baltoro(
        {"synth", (parent_->path() / "config.json").string(), model().string(), "--shards", "3"});
    ASSERT_EQ(made.status, 0) << made.err;
    for (const auto& entry : fs::directory_iterator(model())) bytes_ += entry.file_size();
  }
  static void TearDownTestSuite() { parent_.reset(); }

  static fs::path model() { return parent_->path() / "model"; }
  static std::vector<std::string> command(const std::string& memory) {
    std::string ids;
    for (int i = 0; i < 200; ++i) ids += (i > 0 ? "," : "") + std::to_string((i * 37 + 5) % 90);
    return {"run", model().string(), "--ids",   ids,        "-n",  "64", "--temperature",
            "0",   "--json",         "--stats", "--memory", memory};
  }

  static std::unique_ptr<testing::TempDir> parent_;
  static std::uint64_t bytes_;
};
std::unique_ptr<testing::TempDir> LargeModel::parent_;
std::uint64_t LargeModel::bytes_ = 0;

TEST_F(LargeModel, RunsInHalfOfItsBytes) {
  const Outcome resident = testing::run_baltoro(command("auto"));
  ASSERT_EQ(resident.status, 0) << resident.err;
  const nlohmann::json expected = nlohmann::json::parse(resident.out);
  if (expected["stats"]["memory"]["experts_in_files"] != 0) {
    GTEST_SKIP() << "this machine has not the memory for the unlimited run";
  }

  const std::uint64_t limit = bytes_ / 2;
  // The limit is found by the program itself, and given to it.
  for (const std::string& memory : {std::string("auto"), std::to_string(limit)}) {
    // A new group: the page cache of the run before would be charged to an old one.
    const auto group = MemoryGroup::make(limit);
    if (!group) GTEST_SKIP() << "no memory cgroup can be made here; it takes root";
    const Outcome limited = testing::run_baltoro_in(group->procs(), command(memory));
    ASSERT_EQ(limited.status, 0) << limited.err;
    const nlohmann::json got = nlohmann::json::parse(limited.out);
    EXPECT_EQ(got["ids"], expected["ids"]);
    EXPECT_GT(got["stats"]["memory"]["experts_in_files"], 0);
    EXPECT_LE(got["stats"]["memory"]["limit"], limit);
    EXPECT_LE(group->peak(), limit);
    EXPECT_EQ(group->times_at_limit(), 0u) << "the plan, not the system, keeps the limit";
    EXPECT_EQ(group->kills(), 0u);
  }
}

TEST_F(LargeModel, TheRefusalNamesWhatIsEnough) {
  const Outcome refused = testing::run_baltoro(command("64MiB"));
  EXPECT_EQ(refused.status, 6);
  const std::string key = "use --memory ";
  const std::size_t at = refused.err.find(key);
  ASSERT_NE(at, std::string::npos) << refused.err;
  const std::string enough =
      refused.err.substr(at + key.size(), refused.err.find(' ', at + key.size()) - at - key.size());
  const Outcome runs = testing::run_baltoro(command(enough));
  EXPECT_EQ(runs.status, 0) << enough << ": " << runs.err;
}

}  // namespace
}  // namespace baltoro
