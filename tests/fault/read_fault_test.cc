// Reading under faults: each way to load or restore ends in the same result or in an error that
// names the file, and gives back what it opened.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>

#include "baltoro/chat.h"
#include "fault/run.h"
#include "fault/syscalls.h"
#include "io/checkpoint_files.h"
#include "io/mapping_fault.h"
#include "io/test_files.h"
#include "io/verify.h"
#include "paths.h"

namespace baltoro {
namespace {

namespace fs = std::filesystem;
using testing::Call;
using testing::DisturbedReads;
using testing::FailingCall;
using ::testing::HasSubstr;
using testing::open_files;

const fs::path kModel = testing::fixture("dense_only");

std::shared_ptr<Engine> load(LoadMode mode) {
  return Engine::load(kModel, testing::small_engine(mode));
}

struct Path {
  const char* name;
  std::function<void()> read;
};

void restore_session() {
  static const std::shared_ptr<Engine> engine = load(LoadMode::kCopy);
  static const TempDir dir;
  static const bool saved = [] {
    Session session = engine->new_session();
    session.prefill(std::vector<TokenId>(70, 5));
    session.save(dir / "session");
    return true;
  }();
  ASSERT_TRUE(saved);
  Session::restore(*engine, dir / "session");
}

void load_chat() {
  const fs::path dir = test_data_dir() / "tokenizer";
  ChatFormat::load(Tokenizer::load(dir), dir);
}

const Path kPaths[] = {
    {"Copied", [] { load(LoadMode::kCopy); }},
    {"Mapped", [] { load(LoadMode::kMap); }},
    {"Chat", load_chat},
    {"Session", restore_session},
    {"Verified", [] { verify_tensors(CheckpointFiles(kModel), {.num_threads = 2}); }},
};

class ReadFaults : public ::testing::TestWithParam<Path> {
 protected:
  void SetUp() override { GetParam().read(); }

  // Fails one call after the other, all of the first ones and some of the many behind, until there
  // are no more; returns how many were tried.
  int fail_each(Call call, int error, ErrorCode code, const std::string& reason) {
    int tried = 0;
    for (std::int64_t nth = 0;; nth += nth < 12 ? 1 : 41) {
      const std::ptrdiff_t before = open_files();
      const FailingCall fault(call, nth, error);
      try {
        GetParam().read();
        EXPECT_FALSE(fault.met()) << "call " << nth << " failed and nobody noticed";
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), code) << e.what();
        EXPECT_THAT(e.what(), HasSubstr(reason));
      }
      EXPECT_EQ(open_files(), before) << "call " << nth;
      if (!fault.met()) return tried;
      ++tried;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Of, ReadFaults, ::testing::ValuesIn(kPaths),
                         [](const auto& path) { return std::string(path.param.name); });

TEST_P(ReadFaults, AFileThatCannotBeOpened) {
  EXPECT_GT(fail_each(Call::kOpen, EMFILE, ErrorCode::kIo, "cannot be opened: Too many open files"),
            0);
  EXPECT_GT(fail_each(Call::kStat, EIO, ErrorCode::kIo, "cannot be read: Input/output error"), 0);
}

TEST_P(ReadFaults, ADiskThatFails) {
  EXPECT_GT(fail_each(Call::kRead, EIO, ErrorCode::kIo, "Input/output error; check the disk"), 0);
}

TEST_P(ReadFaults, AFileThatShrinksMeanwhile) {
  EXPECT_GT(fail_each(Call::kRead, 0, ErrorCode::kIo, "cut short meanwhile"), 0);
}

TEST_P(ReadFaults, SignalsAndShortReadsAreNoFaults) {
  const DisturbedReads disturbed;
  EXPECT_NO_THROW(GetParam().read());
}

TEST(ReadsUnderSignals, GiveTheSameWeights) {
  const std::vector<float> expected = testing::run(*load(LoadMode::kCopy));
  const DisturbedReads disturbed;
  EXPECT_EQ(testing::run(*load(LoadMode::kCopy)), expected);
  EXPECT_EQ(testing::run(*load(LoadMode::kMap)), expected);
}

TEST(AMapThatFails, IsAnErrorOfTheFile) {
  int files = 0;
  for (std::int64_t nth = 0;; ++nth) {
    const FailingCall fault(Call::kMap, nth, ENOMEM);
    try {
      load(LoadMode::kMap);
      ASSERT_FALSE(fault.met());
      break;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kOutOfMemory) continue;  // memory, not a file
      EXPECT_EQ(error.code(), ErrorCode::kIo);
      EXPECT_THAT(error.what(), HasSubstr("model.safetensors: cannot map"));
      ++files;
    }
  }
  EXPECT_EQ(files, 1);
}

// A copy of the model to damage.
class LiveModel : public ::testing::Test {
 protected:
  void SetUp() override { fs::copy(kModel, dir_.path(), fs::copy_options::recursive); }
  void cut() { fs::resize_file(dir_ / "model.safetensors", 4096); }

  TempDir dir_;
};

TEST_F(LiveModel, CutWhileItIsRead) {
  EngineOptions options = testing::small_engine();
  options.progress = [this](std::size_t, std::size_t) { cut(); };
  const Error error = catch_error([&] { Engine::load(dir_.path(), options); });
  EXPECT_EQ(error.code(), ErrorCode::kIo);
  EXPECT_THAT(error.what(), ::testing::AllOf(HasSubstr((dir_ / "model.safetensors").string()),
                                             HasSubstr("cut short meanwhile")));
}

TEST_F(LiveModel, CutWhileItRunsFromTheMapEndsTheProgramWithAWord) {
  const auto run_cut = [this] {
    report_mapping_faults();
    const auto engine = Engine::load(dir_.path(), testing::small_engine(LoadMode::kMap));
    cut();
    testing::run(*engine);
  };
  EXPECT_EXIT(run_cut(), ::testing::ExitedWithCode(1),
              "baltoro: error: /.*/model.safetensors: a mapped part cannot be read");
}

}  // namespace
}  // namespace baltoro
