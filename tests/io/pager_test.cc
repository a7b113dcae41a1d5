// Pages of mapped files: what was asked for is in memory, what was dropped is not, and a file that
// was cut short is an error that names it, not a signal.
#include "io/pager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "io/test_files.h"

namespace baltoro {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kFileBytes = std::uint64_t{4} << 20;

class PagedFile : public testing::Test {
 protected:
  PagedFile() {
    std::string bytes(kFileBytes, ' ');
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i / 4096);
    write_file(path_, bytes);
    file_ = std::make_unique<FileReader>(path_);
    file_->map();
    // Dirty pages cannot be dropped.
    fsync(file_->fd());
    read_exactly(*file_);
  }

  // An emulator of user programs answers every advice with success and passes none on; the kernel
  // refuses what it does not know.
  bool advice_is_heeded() const {
    constexpr int kUnknown = 9999;
    return madvise(const_cast<std::byte*>(file_->mapped()), 4096, kUnknown) != 0;
  }

  // Bytes of the page cache of the file.
  std::uint64_t cached() {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    std::vector<unsigned char> pages(kFileBytes / page);
    mincore(const_cast<std::byte*>(file_->mapped()), kFileBytes, pages.data());
    std::uint64_t count = 0;
    for (unsigned char in_memory : pages) count += in_memory & 1u;
    return count * page;
  }

  TempDir dir_;
  std::filesystem::path path_ = dir_ / "weights";
  std::unique_ptr<FileReader> file_;
  Pager pager_;
};

TEST_F(PagedFile, MovesInAndOut) {
  if (!advice_is_heeded()) GTEST_SKIP() << "madvise does nothing here";
  pager_.wait(pager_.move({{file_.get(), 0, kFileBytes}}, {}));
  if (cached() != 0) GTEST_SKIP() << "this file system keeps pages that are to be dropped";
  pager_.wait(pager_.move({}, {{file_.get(), 1'000'001, 500'000}}));
  EXPECT_GE(cached(), 500'000u);
  EXPECT_LE(cached(), 500'000u + 2 * 65536u);
  EXPECT_EQ(file_->mapped()[1'200'000], static_cast<std::byte>(1'200'000 / 4096 % 256));
  EXPECT_EQ(pager_.bytes_read(), 500'000u);
  pager_.wait(pager_.move({{file_.get(), 1'000'001, 500'000}}, {{file_.get(), 0, 4096}}));
  EXPECT_LE(cached(), 65536u);
}

TEST_F(PagedFile, MovesAreDoneInOrder) {
  Pager::Ticket last = 0;
  for (std::uint64_t at = 0; at < kFileBytes; at += 65536) {
    const Pager::Ticket ticket = pager_.move({}, {{file_.get(), at, 65536}});
    EXPECT_GT(ticket, last);
    last = ticket;
  }
  pager_.wait(last);
  EXPECT_EQ(pager_.bytes_read(), kFileBytes);
  EXPECT_EQ(cached(), kFileBytes);
}

TEST_F(PagedFile, CutShortIsAnErrorThatStays) {
  if (!advice_is_heeded()) GTEST_SKIP() << "madvise does nothing here";
  pager_.wait(pager_.move({}, {{file_.get(), 0, 4096}}));
  std::filesystem::resize_file(path_, 1 << 20);
  const Pager::Ticket ticket = pager_.move({}, {{file_.get(), 2 << 20, 4096}});
  const Error error = catch_error([&] { pager_.wait(ticket); });
  EXPECT_EQ(error.code(), ErrorCode::kIo);
  EXPECT_THAT(error.what(), HasSubstr("weights: the file was cut from 4194304 to 1048576 bytes"));
  EXPECT_EQ(catch_error([&] { pager_.wait(1); }).code(), ErrorCode::kIo);
}

TEST_F(PagedFile, EndsWithMovesUndone) {
  for (int i = 0; i < 100; ++i) pager_.move({}, {{file_.get(), 0, kFileBytes}});
}

}  // namespace
}  // namespace baltoro
