#include "serve/api/generation_fields.h"

#include <algorithm>
#include <charconv>
#include <random>
#include <string_view>

#include "baltoro/generate.h"
#include "core/error.h"

namespace baltoro::serve {
namespace {

using Kind = JsonValue::Kind;

constexpr std::size_t kMostStops = 16;
constexpr std::int64_t kMostTokens = std::int64_t{1} << 40;

float to_float(const JsonField& field, double least, double most, float fallback) {
  const auto value = number_in(field, least, most);
  return value ? static_cast<float>(*value) : fallback;
}

TokenId bias_token(const JsonField& field, std::string_view key, std::int64_t vocab_size) {
  TokenId id = -1;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
  if (error != std::errc() || end != key.data() + key.size() || id < 0 || id >= vocab_size) {
    fail(ErrorCode::kUsage, "{}: \"{}\" is no token id; they are 0 to {}", field.path, key,
         vocab_size - 1);
  }
  return id;
}

std::vector<TokenBias> read_bias(const JsonField& field, std::int64_t vocab_size) {
  std::vector<TokenBias> biases;
  if (!field.present()) return biases;
  field.expect(Kind::kObject, "an object of token ids and numbers");
  for (const JsonMember& member : field.value->members) {
    const TokenId token = bias_token(field, member.key, vocab_size);
    const JsonField value{&member.value, fmt::format("{}.{}", field.path, member.key)};
    value.expect(Kind::kNumber, "a number");
    biases.push_back({token, to_float(value, -100, 100, 0)});
  }
  return biases;
}

void read_sampling(const JsonField& request, const Model& model, SamplingParams& sampling) {
  sampling = default_sampling(model.generation);
  const auto temperature = number_in(request["temperature"], 0, 100);
  if (temperature) sampling.temperature = static_cast<float>(*temperature);
  // Some clients write -1 for off.
  const auto top_k = integer_in(request["top_k"], -1, 1 << 24);
  if (top_k) sampling.top_k = std::max<std::int64_t>(*top_k, 0);
  sampling.top_p = to_float(request["top_p"], 0, 1, sampling.top_p);
  if (sampling.top_p == 0) {
    fail(ErrorCode::kUsage, "top_p: 0 leaves no token; it must be above 0, and 1 is off");
  }
  sampling.min_p = to_float(request["min_p"], 0, 1, sampling.min_p);
  sampling.repetition_penalty = to_float(request["repetition_penalty"], 0.01, 100, 1);
  sampling.presence_penalty = to_float(request["presence_penalty"], -2, 2, 0);
  sampling.frequency_penalty = to_float(request["frequency_penalty"], -2, 2, 0);
  sampling.logit_bias = read_bias(request["logit_bias"], model.vocab_size);
  const auto seed = request["seed"].optional_integer();
  sampling.seed = seed ? static_cast<std::uint64_t>(*seed) : random_seed();
}

void read_streaming(const JsonField& request, GenerationFields& fields) {
  fields.stream = request["stream"].optional_bool().value_or(false);
  const JsonField options = request["stream_options"];
  if (!options.present()) return;
  options.expect(Kind::kObject, "an object {\"include_usage\"}");
  if (!fields.stream) {
    fail(ErrorCode::kUsage, "stream_options: only a request with \"stream\": true may have them");
  }
  fields.include_usage = options["include_usage"].optional_bool().value_or(false);
}

}  // namespace

std::optional<double> number_in(const JsonField& field, double least, double most) {
  const auto value = field.optional_number();
  if (value && !(*value >= least && *value <= most)) {
    fail(ErrorCode::kUsage, "{}: {} is out of range; it must be in [{}, {}]", field.path,
         field.value->text, least, most);
  }
  return value;
}

std::optional<std::int64_t> integer_in(const JsonField& field, std::int64_t least,
                                       std::int64_t most) {
  const auto value = field.optional_integer();
  if (value && (*value < least || *value > most)) {
    fail(ErrorCode::kUsage, "{}: {} is out of range; it must be in [{}, {}]", field.path, *value,
         least, most);
  }
  return value;
}

std::vector<std::string> read_stops(const JsonField& field) {
  std::vector<std::string> stops;
  if (!field.present()) return stops;
  const auto add = [&](const JsonField& stop) {
    std::string text = stop.required_string();
    if (text.empty()) {
      fail(ErrorCode::kUsage, "{}: a stop string needs at least one character", stop.path);
    }
    stops.push_back(std::move(text));
  };
  if (field.is(Kind::kString)) {
    add(field);
    return stops;
  }
  field.expect(Kind::kArray, "a string or an array of strings");
  for (const JsonField& stop : field.items()) add(stop);
  if (stops.size() > kMostStops) {
    fail(ErrorCode::kUsage, "{}: {} stop strings; there may be at most {}", field.path,
         stops.size(), kMostStops);
  }
  return stops;
}

std::uint64_t random_seed() {
  thread_local std::mt19937_64 random{std::random_device{}()};
  return random();
}

GenerationFields read_generation_fields(const JsonField& request, const Model& model) {
  GenerationFields fields;
  if (const auto name = request["model"].optional_string()) model.require_name(*name);
  read_sampling(request, model, fields.sampling);
  const JsonField newer = request["max_completion_tokens"];
  const JsonField limit = newer.present() ? newer : request["max_tokens"];
  fields.max_tokens = integer_in(limit, 1, kMostTokens);
  fields.num_choices = static_cast<int>(integer_in(request["n"], 1, 128).value_or(1));
  fields.stops = read_stops(request["stop"]);
  fields.ignore_eos = request["ignore_eos"].optional_bool().value_or(false);
  read_streaming(request, fields);
  return fields;
}

}  // namespace baltoro::serve
