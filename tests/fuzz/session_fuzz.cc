// A saved session of any bytes: a timeline that holds together, or a typed error, and no slot or
// page is lost. The first byte chooses: the bytes are the file, or they change a valid one, pairs of
// place and value, after which the checksum is made right so that they are looked at.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "baltoro/error.h"
#include "engine/session_impl.h"
#include "io/crc32.h"
#include "io/file_reader.h"
#include "ops/reference/reference_backend.h"

namespace {

using namespace baltoro;

constexpr std::int64_t kVocab = 5;

ModelConfig two_layers() {
  ModelConfig config;
  config.hidden_size = 4;
  config.num_layers = 2;
  config.layers = {{MixerKind::kKda, FfnKind::kDense}, {MixerKind::kMla, FfnKind::kDense}};
  config.kda.num_heads = 1;
  config.kda.head_dim_k = 2;
  config.kda.head_dim_v = 2;
  config.kda.conv_width = 2;
  config.mla.num_heads = 1;
  config.mla.kv_lora_rank = 1;
  return config;
}

// A file in memory and the pools that its sessions are read into.
class Reader {
 public:
  Reader() { info_.vocab_size = kVocab; }

  // A session of `prompt` tokens read and `generated` tokens made.
  std::string saved(std::int64_t prompt, std::int64_t generated) {
    Timeline timeline(pool_);
    const auto take = [&](std::int64_t count, Origin origin) {
      if (count == 0) return;
      const Feed feed =
          timeline.append(std::vector<TokenId>(static_cast<std::size_t>(count), 1), origin);
      timeline.own_pages(feed.begin, feed.end);
      if (origin == Origin::kPrompt) timeline.note_prompt_rows(feed.begin, feed.end);
      std::ranges::fill(timeline.logits.fill(pool_.state().backend(), kVocab), 0.5f);
    };
    take(prompt, Origin::kPrompt);
    take(generated, Origin::kGenerated);
    const std::string path =
        (std::filesystem::temp_directory_path() / "baltoro-session-fuzz-XXXXXX").string();
    std::string name = path;
    close(mkstemp(name.data()));
    save_timeline(timeline, info_, name);
    std::string bytes = read_text_file(name, 1 << 20);
    std::filesystem::remove(name);
    return bytes;
  }

  void read(const std::string& bytes) {
    if (ftruncate(fd_, 0) != 0 || pwrite(fd_, bytes.data(), bytes.size(), 0) < 0) std::abort();
    try {
      const auto timeline = restore_timeline(pool_, info_, "/proc/self/fd/" + std::to_string(fd_));
      for (TokenId token : timeline->tokens) {
        if (token < 0 || token >= kVocab) std::abort();
      }
      const Feed feed = timeline->append(std::vector<TokenId>(1, 1), Origin::kPrompt);
      if (feed.begin < 0 || feed.begin >= feed.end) std::abort();
      timeline->own_pages(feed.begin, feed.end);
      if (static_cast<std::int64_t>(timeline->pages.size()) * kBlockTokens < feed.end) std::abort();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kBadModel && error.code() != ErrorCode::kIo) std::abort();
    }
    if (pool_.slots_in_use() != 0 || pool_.pages_in_use() != 0) std::abort();
  }

 private:
  int fd_ = memfd_create("session", 0);
  std::unique_ptr<Backend> backend_ = make_reference_backend(Activations::kF32);
  ModelConfig config_ = two_layers();
  SequenceState state_{*backend_, config_};
  StatePool pool_{state_};
  EngineInfo info_;
};

// Two bytes say by how much the file grows or shrinks; pairs follow.
std::string changed(std::string file, const std::uint8_t* data, std::size_t size) {
  if (size < 2) return file;
  std::int16_t growth = 0;
  std::memcpy(&growth, data, 2);
  file.resize(static_cast<std::size_t>(
      std::max<std::int64_t>(4, static_cast<std::int64_t>(file.size()) + growth)));
  for (std::size_t i = 2; i + 1 < size; i += 2) {
    file[data[i] % file.size()] = static_cast<char>(data[i + 1]);
  }
  const std::string_view body = std::string_view(file).substr(0, file.size() - 4);
  const std::uint32_t crc = crc32(std::as_bytes(std::span(body)));
  std::memcpy(file.data() + body.size(), &crc, 4);
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Reader reader;
  static const std::vector<std::string> kValid = {reader.saved(0, 0), reader.saved(70, 0),
                                                  reader.saved(64, 0), reader.saved(3, 1)};
  if (size == 0) return 0;
  const std::size_t choice = data[0] % (kValid.size() + 1);
  if (choice == kValid.size()) {
    reader.read({reinterpret_cast<const char*>(data + 1), size - 1});
  } else {
    reader.read(changed(kValid[choice], data + 1, size - 1));
  }
  return 0;
}
