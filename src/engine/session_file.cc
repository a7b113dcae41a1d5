// Saved sessions. The file is little-endian: header, tokens, logits, the live state, the state at
// the block boundary where an open prompt needs it, the cache pages, and the CRC-32 of all before
// it.
#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "core/error.h"
#include "engine/session_impl.h"
#include "io/crc32.h"
#include "io/file_reader.h"
#include "io/output_file.h"
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
  explicit Writer(const std::filesystem::path& path) : file_(path) {}
  void write(std::span<const std::byte> bytes) {
    file_.write(bytes);
    crc_ = crc32(bytes, crc_);
  }
  void finish() {
    const std::uint32_t crc = crc_;
    write(std::as_bytes(std::span(&crc, 1)));
    file_.finish();
  }

 private:
  OutputFile file_;
  std::uint32_t crc_ = 0;
};

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : file_(path) {}
  void read(std::span<std::byte> bytes) {
    file_.read(offset_, bytes);
    offset_ += bytes.size();
    crc_ = crc32(bytes, crc_);
  }
  std::uint64_t file_bytes() const { return file_.size(); }
  std::uint32_t crc() const { return crc_; }

 private:
  FileReader file_;
  std::uint64_t offset_ = 0;
  std::uint32_t crc_ = 0;
};

template <typename T>
std::span<std::byte> writable_bytes(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

void check_header(const Header& header, std::uint64_t file_bytes, StatePool& pool,
                  const EngineInfo& info, const std::filesystem::path& file) {
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
        "the session was saved with another model, backend, or type of activations, states or "
        "latents; load it with the one that wrote it");
  }
  const auto block = static_cast<std::uint64_t>(kBlockTokens);
  const auto vocab = static_cast<std::uint64_t>(info.vocab_size);
  const bool wants_boundary = header.prompt_is_open == 1 &&
                              static_cast<std::uint64_t>(header.restart_pos) != header.num_tokens;
  // A session may be without.
  const bool logits_of_last =
      header.num_logits == 0 || (header.num_tokens > 0 && header.num_logits == vocab);
  const bool consistent =
      header.prompt_is_open <= 1 && header.num_slots == (wants_boundary ? 2 : 1) &&
      header.num_tokens < (std::uint64_t{1} << 40) &&
      header.num_pages == (header.num_tokens + block - 1) / block && header.restart_pos >= 0 &&
      static_cast<std::uint64_t>(header.restart_pos) <= header.num_tokens && logits_of_last;
  if (!consistent) reject("the counts in the header contradict each other; the file is damaged");
  if (file_bytes != header.file_bytes()) {
    reject(fmt::format("{} bytes long where the header promises {}; the file is damaged",
                       file_bytes, header.file_bytes()));
  }
}

// A token outside the vocabulary would be read beyond the embedding when its block is fed again.
void check_tokens(std::span<const TokenId> tokens, std::int64_t vocab_size,
                  const std::filesystem::path& file) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < vocab_size) continue;
    fail(ErrorCode::kBadModel,
         "{}: token {} is {}, outside the vocabulary [0, {}); the file is damaged", file.string(),
         i, tokens[i], vocab_size);
  }
}

// Rows of a page beyond the last token may hold another session's text: zeros stand for them.
void write_pages(Writer& writer, const Timeline& timeline) {
  SequenceState& state = timeline.pool().state();
  std::vector<std::byte> image;
  std::int64_t rows_left = timeline.position();
  for (std::int32_t page : timeline.pages) {
    const auto rows = static_cast<std::size_t>(std::min(rows_left, kBlockTokens));
    for (const StatePart& part : state.page_parts(page)) {
      image.assign(part.bytes.size(), std::byte{0});
      part.fetch(
          std::span(image).first(image.size() / static_cast<std::size_t>(kBlockTokens) * rows));
      writer.write(image);
    }
    rows_left -= kBlockTokens;
  }
}

void write_slot(Writer& writer, SequenceState& state, std::int32_t slot) {
  std::vector<std::byte> image;
  for (const StatePart& part : state.slot_parts(slot)) {
    image.resize(part.bytes.size());
    part.fetch(image);
    writer.write(image);
  }
}

void read_parts(Reader& reader, const std::vector<StatePart>& parts) {
  std::vector<std::byte> image;
  for (const StatePart& part : parts) {
    image.resize(part.bytes.size());
    reader.read(image);
    part.store(image);
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
  header.num_logits = timeline.logits.values().size();

  Writer writer(file);
  writer.write(std::as_bytes(std::span(&header, 1)));
  writer.write(std::as_bytes(std::span(timeline.tokens)));
  writer.write(std::as_bytes(timeline.logits.values()));
  write_slot(writer, state, timeline.live_slot);
  if (timeline.needs_boundary()) write_slot(writer, state, timeline.boundary_slot);
  write_pages(writer, timeline);
  writer.finish();
}

std::unique_ptr<Timeline> restore_timeline(StatePool& pool, const EngineInfo& info,
                                           const std::filesystem::path& file) {
  Reader reader(file);
  if (reader.file_bytes() < sizeof(Header)) {
    fail(ErrorCode::kBadModel, "{}: not a baltoro session file", file.string());
  }
  Header header;
  reader.read(std::as_writable_bytes(std::span(&header, 1)));
  check_header(header, reader.file_bytes(), pool, info, file);

  auto timeline = std::make_unique<Timeline>(pool);
  timeline->prompt_is_open = header.prompt_is_open != 0;
  timeline->restart_pos = header.restart_pos;
  timeline->tokens.resize(header.num_tokens);
  const std::span<float> logits = timeline->logits.fill(pool.state().backend(), header.num_logits);
  reader.read(writable_bytes(timeline->tokens));
  reader.read(std::as_writable_bytes(logits));
  check_tokens(timeline->tokens, info.vocab_size, file);
  timeline->own_pages(0, timeline->position());
  SequenceState& state = pool.state();
  read_parts(reader, state.slot_parts(timeline->live_slot));
  if (timeline->needs_boundary()) {
    timeline->make_boundary_slot();
    read_parts(reader, state.slot_parts(timeline->boundary_slot));
  }
  for (std::int32_t page : timeline->pages) {
    read_parts(reader, state.page_parts(page));
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
