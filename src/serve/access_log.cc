#include "serve/access_log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

namespace baltoro::serve {
namespace {

using Json = nlohmann::ordered_json;

// A path is the client's text of any length.
constexpr std::size_t kMaxPathBytes = 200;
constexpr std::size_t kMaxBodyBytes = 100'000;

// "2026-08-01T12:00:00.123Z"
std::string timestamp() {
  const auto now = std::chrono::system_clock::now();
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(now)), ms % 1000);
}

// One write: lines of several threads do not mix.
void write_to_stderr(std::string_view line) {
  while (!line.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
    if (written <= 0) return;
    line.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::string one_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Text of the outside as part of a line: control characters and what is no UTF-8 are escaped.
std::string plain(std::string_view text) {
  const std::string quoted = one_line(Json(std::string(text.substr(0, kMaxPathBytes))));
  return quoted.substr(1, quoted.size() - 2);
}

double milliseconds(double seconds) {
  return static_cast<double>(static_cast<std::int64_t>(seconds * 1e6)) / 1e3;
}

Json as_json(const RequestRecord& r) {
  Json line = {{"time", timestamp()}, {"event", "request"},
               {"id", r.id},          {"client", r.client_address},
               {"method", r.method},  {"path", r.path.substr(0, kMaxPathBytes)},
               {"status", r.status},  {"ms", milliseconds(r.seconds)}};
  if (!r.key_name.empty()) line["key"] = r.key_name;
  if (r.first_token_seconds >= 0) line["first_token_ms"] = milliseconds(r.first_token_seconds);
  const std::pair<const char*, std::int64_t> counts[] = {
      {"prompt_tokens", r.usage.prompt_tokens},
      {"reused_tokens", r.usage.reused_tokens},
      {"completion_tokens", r.usage.completion_tokens}};
  for (const auto& [name, count] : counts) {
    if (count >= 0) line[name] = count;
  }
  if (!r.body.empty()) line["body"] = r.body.substr(0, kMaxBodyBytes);
  return line;
}

std::string as_text(const RequestRecord& r) {
  std::string line = fmt::format("{} {} {} {}{}{} {} {} {:.3f} s", timestamp(), r.id,
                                 r.client_address, r.key_name, r.key_name.empty() ? "" : " ",
                                 plain(r.method), plain(r.path), r.status, r.seconds);
  const auto out = std::back_inserter(line);
  if (r.first_token_seconds >= 0) {
    fmt::format_to(out, ", first token {:.3f} s", r.first_token_seconds);
  }
  if (r.usage.prompt_tokens >= 0) fmt::format_to(out, ", prompt {}", r.usage.prompt_tokens);
  if (r.usage.reused_tokens > 0) fmt::format_to(out, " ({} reused)", r.usage.reused_tokens);
  if (r.usage.completion_tokens >= 0) {
    fmt::format_to(out, ", completion {}", r.usage.completion_tokens);
  }
  if (!r.body.empty()) {
    fmt::format_to(out, ", body {}", one_line(Json(r.body.substr(0, kMaxBodyBytes))));
  }
  return line;
}

}  // namespace

AccessLog::AccessLog(LogFormat format, Sink sink)
    : format_(format), sink_(sink ? std::move(sink) : Sink(write_to_stderr)) {}

void AccessLog::request(const RequestRecord& record) const {
  sink_((format_ == LogFormat::kJson ? one_line(as_json(record)) : as_text(record)) + "\n");
}

void AccessLog::event(std::string_view name, const Json& fields) const {
  std::string line;
  if (format_ == LogFormat::kJson) {
    Json json = {{"time", timestamp()}, {"event", name}};
    json.update(fields);
    line = one_line(json);
  } else {
    line = fmt::format("{} {}", timestamp(), name);
    for (const auto& [key, value] : fields.items()) {
      const std::string text = value.is_string() ? value.get<std::string>() : one_line(value);
      fmt::format_to(std::back_inserter(line), " {} {}", key, text);
    }
  }
  sink_(line + "\n");
}

}  // namespace baltoro::serve
