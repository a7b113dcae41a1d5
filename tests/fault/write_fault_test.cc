// Writing on a full disk: an error that names the file and the remedy; the old file stays, nothing
// half-written does. The limit on the size of files stands for the disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "fault/run.h"
#include "io/test_files.h"
#include "model/synth.h"

namespace baltoro {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

// While it lives, no file grows beyond `bytes`.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit = {bytes, old_.rlim_max};
    old_handler_ = std::signal(SIGXFSZ, SIG_IGN);  // then the write itself fails
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit old_ = {};
  void (*old_handler_)(int) = nullptr;
};

template <typename Body>
Error error_on_full_disk(rlim_t bytes, const Body& body) {
  return catch_error([&] {
    const FileSizeLimit limit(bytes);
    body();
  });
}

bool holds_partial_file(const fs::path& dir) {
  for (const auto& entry : fs::recursive_directory_iterator(dir)) {
    if (entry.path().extension() == ".partial") return true;
  }
  return false;
}

TEST(FullDisk, KeepsTheOldSession) {
  const TempDir dir;
  const fs::path file = dir / "session";
  const auto engine = Engine::load(testing::fixture("dense_only"), testing::small_engine());
  Session session = engine->new_session();
  session.prefill(std::vector<TokenId>(70, 5));
  session.save(file);
  const std::string old = read_file(file);
  session.prefill(std::vector<TokenId>(1, 6));
  for (const rlim_t limit :
       {std::size_t{0}, std::size_t{1}, std::size_t{100}, old.size() / 2, old.size() - 1}) {
    const Error error = error_on_full_disk(limit, [&] { session.save(file); });
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    EXPECT_THAT(error.what(), AllOf(HasSubstr(file.string()), HasSubstr("File too large"),
                                    HasSubstr("make room or choose another place")));
    EXPECT_TRUE(read_file(file) == old) << limit;
    EXPECT_FALSE(holds_partial_file(dir.path())) << limit;
  }
  session.save(file);
  EXPECT_EQ(Session::restore(*engine, file).position(), 71);
}

TEST(FullDisk, LeavesNoModel) {
  const TempDir dir;
  for (const rlim_t limit : {0, 1000, 20'000, 60'000}) {
    const fs::path out = dir / std::to_string(limit);
    const Error error = error_on_full_disk(
        limit, [&] { synthesize(testing::fixture("dense_only"), out, {.num_shards = 2}); });
    EXPECT_EQ(error.code(), ErrorCode::kIo) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(out.string()));
    EXPECT_FALSE(holds_partial_file(out)) << limit;
    EXPECT_FALSE(fs::exists(out / "config.json")) << limit;
  }
}

TEST(AMissingDirectory, IsNamed) {
  const TempDir dir;
  const auto engine = Engine::load(testing::fixture("dense_only"), testing::small_engine());
  const Error error = catch_error([&] { engine->new_session().save(dir / "absent" / "session"); });
  EXPECT_EQ(error.code(), ErrorCode::kIo);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("absent/session: cannot be written"),
                                  HasSubstr("No such file or directory")));
}

}  // namespace
}  // namespace baltoro
