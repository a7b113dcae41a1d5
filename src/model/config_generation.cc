#include "core/error.h"
#include "io/file_reader.h"
#include "io/json_file.h"
#include "model/config.h"
#include "model/config_reader.h"

namespace baltoro {
namespace {

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 20;
constexpr IntegerRange kTokenId = {0, 1 << 24};

// eos_token_id is one id or a list of them.
std::vector<std::int64_t> read_stop_ids(ConfigReader& reader) {
  const ConfigKey key = {"eos_token_id"};
  const nlohmann::json* value = reader.find(key);
  if (value == nullptr) return {};
  if (!value->is_array()) {
    const auto id = reader.optional_integer(key, kTokenId);
    return id ? std::vector<std::int64_t>{*id} : std::vector<std::int64_t>{};
  }
  const auto ids = reader.integers(key);
  if (!ids) return {};
  for (std::int64_t id : *ids) {
    if (id < kTokenId.least || id > kTokenId.most) {
      reader.problem(key, fmt::format("{} is out of range; the rule is {} to {}", id,
                                      kTokenId.least, kTokenId.most));
    }
  }
  return *ids;
}

std::optional<float> to_float(std::optional<double> value) {
  if (!value) return std::nullopt;
  return static_cast<float>(*value);
}

}  // namespace

GenerationConfig parse_generation_config(std::string_view text, const std::string& where) {
  const JsonDocument root = parse_json(text, where);
  ConfigReader reader(*root, where);
  GenerationConfig config;
  config.do_sample = reader.optional_boolean({"do_sample"});
  config.temperature = to_float(reader.optional_number({"temperature"}, {0.0, 100.0, true}));
  config.top_p = to_float(reader.optional_number({"top_p"}, {0.0, 1.0}));
  config.min_p = to_float(reader.optional_number({"min_p"}, {0.0, 1.0, true}));
  config.top_k = reader.optional_integer({"top_k"}, {0, 1 << 24});
  config.max_new_tokens = reader.optional_integer({"max_new_tokens"}, {1, std::int64_t{1} << 40});
  config.stop_ids = read_stop_ids(reader);
  reader.throw_if_bad();
  return config;
}

GenerationConfig load_generation_config(const std::filesystem::path& dir) {
  const std::filesystem::path file = dir / "generation_config.json";
  if (!std::filesystem::exists(file)) return {};
  return parse_generation_config(read_text_file(file, kMaxFileBytes), file.string());
}

}  // namespace baltoro
