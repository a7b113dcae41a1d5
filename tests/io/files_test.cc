// The small parts: interrupted reads, JSON positions, checksums, memory units.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

#include "core/buffer.h"
#include "io/crc32.h"
#include "io/file_reader.h"
#include "io/json_file.h"
#include "io/memory.h"
#include "io/test_files.h"

namespace baltoro {
namespace {

using testing::HasSubstr;

TEST(PositionedReads, ShortReadsAndSignalsAreRepeated) {
  const std::string source = "the quick brown fox";
  int calls = 0;
  const PositionedRead flaky = [&](void* into, std::size_t bytes, std::uint64_t offset) -> ssize_t {
    if (++calls % 2 == 1) {
      errno = EINTR;
      return -1;
    }
    const std::size_t count = std::min<std::size_t>(bytes, 3);
    std::memcpy(into, source.data() + offset, count);
    return static_cast<ssize_t>(count);
  };
  std::string into(15, ' ');
  read_fully(flaky, 4, std::as_writable_bytes(std::span(into)), "file");
  EXPECT_EQ(into, "quick brown fox");
  EXPECT_EQ(calls, 10);
}

TEST(PositionedReads, FailureNamesFileOffsetAndReason) {
  std::string into(10, ' ');
  const auto bytes = std::as_writable_bytes(std::span(into));
  const Error broken = catch_error([&] {
    read_fully(
        [](void*, std::size_t, std::uint64_t) -> ssize_t {
          errno = EIO;
          return -1;
        },
        77, bytes, "disk/file");
  });
  EXPECT_EQ(broken.code(), ErrorCode::kIo);
  EXPECT_THAT(broken.what(), testing::AllOf(HasSubstr("disk/file"), HasSubstr("offset 77"),
                                            HasSubstr("Input/output error")));
  const Error ended = catch_error([&] {
    read_fully(
        [](void*, std::size_t, std::uint64_t offset) -> ssize_t { return offset < 81 ? 4 : 0; }, 77,
        bytes, "file");
  });
  EXPECT_THAT(ended.what(), HasSubstr("ends at offset 81, 6 bytes before"));
}

TEST(FileReading, WhatIsNoFileIsAnIoError) {
  const TempDir dir;
  EXPECT_EQ(catch_error([&] { FileReader(dir / "absent"); }).code(), ErrorCode::kIo);
  EXPECT_EQ(catch_error([&] { FileReader reader(dir.path()); }).code(), ErrorCode::kIo);
  write_file(dir / "f", "hello");
  FileReader file(dir / "f");
  EXPECT_EQ(file.size(), 5u);
  EXPECT_EQ(static_cast<char>(file.map()[4]), 'o');
  std::string into(2, ' ');
  EXPECT_EQ(catch_error([&] { file.read(4, std::as_writable_bytes(std::span(into))); }).code(),
            ErrorCode::kIo);
  EXPECT_EQ(catch_error([&] { read_text_file(dir / "f", 4); }).code(), ErrorCode::kBadModel);
  EXPECT_EQ(read_text_file(dir / "f", 5), "hello");
}

TEST(JsonText, ErrorsCarryLineAndColumn) {
  const auto message = [](const std::string& text) {
    return std::string(catch_error([&] { parse_json(text, "c.json"); }).what());
  };
  EXPECT_THAT(message("{\n \"a\": tru }"), HasSubstr("c.json: line 2, column"));
  // One position, one reason, none of the parser's names.
  EXPECT_EQ(message("{"),
            "c.json: line 1, column 2: not valid JSON: unexpected end of input; expected string "
            "literal");
  EXPECT_LT(message("[\"" + std::string(5000, 'x')).size(), 250u);
  EXPECT_THAT(message(R"({"a":{"b":1,"b":2}})"), HasSubstr("\"b\" stands twice"));
  EXPECT_THAT(message(std::string(1000, '[')), HasSubstr("deeper than 64"));
  EXPECT_THAT(message("\"\xff\""), HasSubstr("not valid JSON"));
  EXPECT_THAT(message("[1, 1e999]"), HasSubstr("line 1, column"));
  EXPECT_EQ((*parse_json(R"([{"a":1},{"a":2}])", "c.json"))[1]["a"], 2);
  EXPECT_EQ(text_position("ab\ncd", 4), "line 2, column 2");
  EXPECT_EQ(text_position("", 9), "line 1, column 1");
}

TEST(Crc32, EqualsZlib) {
  const auto of = [](std::string_view text) { return crc32(std::as_bytes(std::span(text))); };
  EXPECT_EQ(of(""), 0u);
  EXPECT_EQ(of("123456789"), 0xCBF43926u);  // the check value of the CRC catalogue
  EXPECT_EQ(of("The quick brown fox jumps over the lazy dog"), 0x414FA339u);
}

TEST(Crc32, PiecesEqualTheWhole) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>(i * 37);
  const auto bytes = std::as_bytes(std::span(text));
  for (std::size_t cut = 0; cut <= bytes.size(); cut += 13) {
    EXPECT_EQ(crc32(bytes.subspan(cut), crc32(bytes.first(cut))), crc32(bytes));
  }
}

// Kibibytes taken for bytes, or the other way round, are off by 1024.
TEST(MemoryUnits, ResidentBytesFollowAnAllocation) {
  constexpr std::size_t kBytes = std::size_t{1} << 28;
  const std::uint64_t before = resident_memory_bytes();
  Buffer buffer(kBytes, "test");
  std::memset(buffer.data(), 1, kBytes);
  const double delta = static_cast<double>(resident_memory_bytes()) - static_cast<double>(before);
  EXPECT_GT(delta, 0.9 * kBytes);
  EXPECT_LT(delta, 1.2 * kBytes);
  EXPECT_GT(available_memory_bytes(), std::uint64_t{1} << 20);
}

// Directories as the system shows them: 8 GiB free in all, a group limited to 4 GiB of which 3 GiB
// are used, 2 GiB of them files that can be dropped.
class MemoryLimit : public testing::Test {
 protected:
  static constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

  void SetUp() override {
    write("proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable:   8388608 kB\n");
  }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    write_file(root_ / path, text);
  }

  TempDir root_;
};

TEST_F(MemoryLimit, WithoutAGroupTheSystemDecides) {
  EXPECT_EQ(available_memory_bytes(root_.path()), 8 * kGiB);
  write("sys/fs/cgroup/memory.max", "max\n");
  write("sys/fs/cgroup/memory.current", "3221225472\n");
  EXPECT_EQ(available_memory_bytes(root_.path()), 8 * kGiB);
}

TEST_F(MemoryLimit, ThePageCacheOfTheGroupIsFree) {
  write("sys/fs/cgroup/memory.max", "4294967296\n");
  write("sys/fs/cgroup/memory.current", "3221225472\n");
  EXPECT_EQ(available_memory_bytes(root_.path()), kGiB);
  write("sys/fs/cgroup/memory.stat",
        "anon 1073741824\nfile 2147483648\ninactive_file 1610612736\nactive_file 536870912\n");
  EXPECT_EQ(available_memory_bytes(root_.path()), 3 * kGiB);
}

TEST_F(MemoryLimit, OfTheFirstVersionToo) {
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "4294967296\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "3221225472\n");
  write("sys/fs/cgroup/memory/memory.stat",
        "inactive_file 7\ntotal_inactive_file 1610612736\ntotal_active_file 536870912\n");
  EXPECT_EQ(available_memory_bytes(root_.path()), 3 * kGiB);
}

// The limit may stand at the process's own group or at one above it.
TEST_F(MemoryLimit, OfTheGroupsOfTheProcess) {
  write("proc/self/cgroup", "4:memory:/a/b\n9:name=systemd:/\n0::/c/d\n");
  write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "4294967296\n");
  write("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "1073741824\n");
  EXPECT_EQ(available_memory_bytes(root_.path()), 3 * kGiB);
  write("sys/fs/cgroup/c/d/memory.max", "2147483648\n");
  write("sys/fs/cgroup/c/d/memory.current", "1073741824\n");
  EXPECT_EQ(available_memory_bytes(root_.path()), kGiB);
  // Those of others do not count.
  write("proc/self/cgroup", "4:memory:/e\n0::/\n");
  EXPECT_EQ(available_memory_bytes(root_.path()), 8 * kGiB);
}

}  // namespace
}  // namespace baltoro
