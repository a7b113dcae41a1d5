// Saved sessions. The file is little-endian: header, tokens, logits, the live state, the state at
// the block boundary where an open prompt needs it, the cache pages, and the CRC-32 of all before
// it.
#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <system_error>
#include <type_traits>

#include "core/error.h"
#include "engine/session_impl.h"
#include "io/crc32.h"
#include "ops/batch.h"

namespace baltoro {
namespace {

constexpr std::array<char, 16> kMagic = {'b', 'a', 'l', 't', 'o', 'r', 'o', ' ',
                                         's', 'e', 's', 's', 'i', 'o', 'n', '\n'};
constexpr std::uint32_t kVersion = 1;

// What stands before the arrays; the sizes of all that follows can be computed from it.
struct Header {
  std::array<char, 16> magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint16_t prompt_is_open = 0;
  std::uint16_t num_slots = 1;  // 2: with the boundary state
  std::uint64_t fingerprint = 0;
  std::uint64_t slot_bytes = 0;
  std::uint64_t page_bytes = 0;
  std::int64_t restart_pos = 0;
  std::uint64_t num_tokens = 0;
  std::uint64_t num_pages = 0;
  std::uint64_t num_logits = 0;

  std::uint64_t file_bytes() const {
    return sizeof(Header) + num_tokens * sizeof(TokenId) + num_logits * sizeof(float) +
           num_slots * slot_bytes + num_pages * page_bytes + sizeof(std::uint32_t);
  }
};
static_assert(std::is_trivially_copyable_v<Header> && sizeof(Header) == 80);

class Writer {
 public:
  explicit Writer(const std::filesystem::path& path) : path_(path), out_(path, std::ios::binary) {
    if (!out_) fail(ErrorCode::kIo, "{}: cannot create the session file", path.string());
  }
  void write(std::span<const std::byte> bytes) {
    out_.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    crc_ = crc32(bytes, crc_);
  }
  void finish() {
    const std::uint32_t crc = crc_;
    write(std::as_bytes(std::span(&crc, 1)));
    out_.close();
    if (!out_)
      fail(ErrorCode::kIo, "{}: writing the session failed; is the disk full?", path_.string());
  }

 private:
  std::filesystem::path path_;
  std::ofstream out_;
  std::uint32_t crc_ = 0;
};

// FILE.partial, which becomes FILE by keep() and is removed otherwise.
class PartialFile {
 public:
  explicit PartialFile(const std::filesystem::path& file)
      : file_(file), path_(file.string() + ".partial") {}
  ~PartialFile() {
    std::error_code ignored;
    if (!kept_) std::filesystem::remove(path_, ignored);
  }
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void keep() {
    std::error_code error;
    std::filesystem::rename(path_, file_, error);
    if (error) fail(ErrorCode::kIo, "{}: {}", file_.string(), error.message());
    kept_ = true;
  }

 private:
  std::filesystem::path file_;
  std::filesystem::path path_;
  bool kept_ = false;
};

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : path_(path), in_(path, std::ios::binary) {
    if (!in_) fail(ErrorCode::kIo, "{}: cannot open the session file", path.string());
  }
  void read(std::span<std::byte> bytes) {
    in_.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (!in_) fail(ErrorCode::kIo, "{}: the session file ends early", path_.string());
    crc_ = crc32(bytes, crc_);
  }
  std::uint32_t crc() const { return crc_; }

 private:
  std::filesystem::path path_;
  std::ifstream in_;
  std::uint32_t crc_ = 0;
};

template <typename T>
std::span<std::byte> writable_bytes(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

void check_header(const Header& header, StatePool& pool, const EngineInfo& info,
                  const std::filesystem::path& file) {
  const auto reject = [&](const std::string& why) {
    fail(ErrorCode::kBadModel, "{}: {}", file.string(), why);
  };
  if (header.magic != kMagic) reject("not a baltoro session file");
  if (header.version != kVersion) {
    reject(fmt::format("session format version {}, this build reads version {}", header.version,
                       kVersion));
  }
  const SequenceState& state = pool.state();
  if (header.fingerprint != info.fingerprint || header.slot_bytes != state.slot_bytes() ||
      header.page_bytes != state.page_bytes()) {
    reject(
        "the session was saved with another model, activation type or backend; load it with the "
        "one that wrote it");
  }
  const auto block = static_cast<std::uint64_t>(kBlockTokens);
  const auto vocab = static_cast<std::uint64_t>(info.vocab_size);
  const bool wants_boundary = header.prompt_is_open == 1 &&
                              static_cast<std::uint64_t>(header.restart_pos) != header.num_tokens;
  const std::uint64_t logits_of_last = header.num_tokens > 0 ? vocab : 0;
  const bool consistent =
      header.prompt_is_open <= 1 && header.num_slots == (wants_boundary ? 2 : 1) &&
      header.num_tokens < (std::uint64_t{1} << 40) &&
      header.num_pages == (header.num_tokens + block - 1) / block && header.restart_pos >= 0 &&
      static_cast<std::uint64_t>(header.restart_pos) <= header.num_tokens &&
      header.num_logits == logits_of_last;
  if (!consistent) reject("the counts in the header contradict each other; the file is damaged");
  std::error_code error;
  const std::uint64_t size = std::filesystem::file_size(file, error);
  if (error) fail(ErrorCode::kIo, "{}: {}", file.string(), error.message());
  if (size != header.file_bytes()) {
    reject(fmt::format("{} bytes long where the header promises {}; the file is damaged", size,
                       header.file_bytes()));
  }
}

// Rows of a page beyond the last token may hold another session's text: zeros stand for them.
void write_pages(Writer& writer, const Timeline& timeline) {
  SequenceState& state = timeline.pool().state();
  std::vector<std::byte> zeros;
  std::int64_t rows_left = timeline.position();
  for (std::int32_t page : timeline.pages) {
    const auto rows = static_cast<std::size_t>(std::min(rows_left, kBlockTokens));
    for (std::span<std::byte> part : state.page_parts(page)) {
      const std::size_t used = part.size() / static_cast<std::size_t>(kBlockTokens) * rows;
      zeros.resize(part.size() - used);
      writer.write(part.first(used));
      writer.write(zeros);
    }
    rows_left -= kBlockTokens;
  }
}

}  // namespace

void save_timeline(const Timeline& timeline, const EngineInfo& info,
                   const std::filesystem::path& file) {
  if (!timeline.failure.empty()) {
    fail(ErrorCode::kUsage, "the session failed and is not saved: {}", timeline.failure);
  }
  SequenceState& state = timeline.pool().state();
  Header header;
  header.prompt_is_open = timeline.prompt_is_open ? 1 : 0;
  header.num_slots = timeline.needs_boundary() ? 2 : 1;
  header.fingerprint = info.fingerprint;
  header.slot_bytes = state.slot_bytes();
  header.page_bytes = state.page_bytes();
  header.restart_pos = timeline.restart_pos;
  header.num_tokens = timeline.tokens.size();
  header.num_pages = timeline.pages.size();
  header.num_logits = timeline.logits.size();

  // Under another name first, so that a full disk never leaves half a session behind the old name.
  PartialFile partial(file);
  Writer writer(partial.path());
  writer.write(std::as_bytes(std::span(&header, 1)));
  writer.write(std::as_bytes(std::span(timeline.tokens)));
  writer.write(std::as_bytes(std::span(timeline.logits)));
  for (std::span<std::byte> part : state.slot_parts(timeline.live_slot)) writer.write(part);
  if (timeline.needs_boundary()) {
    for (std::span<std::byte> part : state.slot_parts(timeline.boundary_slot)) writer.write(part);
  }
  write_pages(writer, timeline);
  writer.finish();
  partial.keep();
}

std::unique_ptr<Timeline> restore_timeline(StatePool& pool, const EngineInfo& info,
                                           const std::filesystem::path& file) {
  Reader reader(file);
  Header header;
  reader.read(std::as_writable_bytes(std::span(&header, 1)));
  check_header(header, pool, info, file);

  auto timeline = std::make_unique<Timeline>(pool);
  timeline->prompt_is_open = header.prompt_is_open != 0;
  timeline->restart_pos = header.restart_pos;
  timeline->tokens.resize(header.num_tokens);
  timeline->logits.resize(header.num_logits);
  reader.read(writable_bytes(timeline->tokens));
  reader.read(writable_bytes(timeline->logits));
  timeline->own_pages(0, timeline->position());
  SequenceState& state = pool.state();
  for (std::span<std::byte> part : state.slot_parts(timeline->live_slot)) reader.read(part);
  if (timeline->needs_boundary()) {
    timeline->make_boundary_slot();
    for (std::span<std::byte> part : state.slot_parts(timeline->boundary_slot)) reader.read(part);
  }
  for (std::int32_t page : timeline->pages) {
    for (std::span<std::byte> part : state.page_parts(page)) reader.read(part);
  }
  const std::uint32_t computed = reader.crc();
  std::uint32_t stored = 0;
  reader.read(std::as_writable_bytes(std::span(&stored, 1)));
  if (stored != computed) {
    fail(ErrorCode::kBadModel, "{}: checksum {:08x} where {:08x} was computed; the file is damaged",
         file.string(), stored, computed);
  }
  return timeline;
}

}  // namespace baltoro
