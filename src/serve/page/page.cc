#include "serve/page/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "serve/http_error.h"
#include "serve/page/page_data.h"

namespace baltoro::serve {
namespace {

// 'none' by default, so that what is not named is forbidden: frames, workers, media, forms, other origins.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src "
    "'self'; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kContentTypes = {{
    {".html", "text/html; charset=utf-8"},
    {".js", "text/javascript; charset=utf-8"},
    {".css", "text/css; charset=utf-8"},
    {".svg", "image/svg+xml"},
    {".woff2", "font/woff2"},
    {".txt", "text/plain; charset=utf-8"},
}};

std::string_view content_type(std::string_view name) {
  const auto* const found = std::ranges::find_if(
      kContentTypes, [name](const auto& type) { return name.ends_with(type.first); });
  return found == kContentTypes.end() ? "application/octet-stream" : found->second;
}

// FNV-1a: a name for the version, not a protection.
std::string etag(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return fmt::format("\"{:016x}\"", hash);
}

const std::vector<std::string>& etags() {
  static const std::vector<std::string> list = [] {
    std::vector<std::string> made;
    for (const EmbeddedFile& file : embedded_files()) made.push_back(etag(file.bytes));
    return made;
  }();
  return list;
}

// Whether If-None-Match holds the tag, or any: "*".
bool holds(std::string_view condition, std::string_view tag) {
  return condition == "*" || condition.find(tag) != std::string_view::npos;
}

}  // namespace

std::optional<PageFile> page_file(std::string_view path) {
  constexpr std::string_view kFolder = "/page/";
  if (path != "/" && !path.starts_with(kFolder)) return {};
  const std::string_view name = path == "/" ? "index.html" : path.substr(kFolder.size());
  const auto files = embedded_files();
  const auto found = std::ranges::find(files, name, &EmbeddedFile::name);
  if (found == files.end()) return {};
  const auto index = static_cast<std::size_t>(found - files.begin());
  return PageFile{content_type(name), found->bytes, etags()[index]};
}

void send_page(const HttpRequest& request, HttpReply& reply) {
  const std::optional<PageFile> file = page_file(request.path);
  if (!file) {
    return send_error(reply,
                      {.status = 404, .message = fmt::format("there is no {}", request.path)},
                      ErrorShape::kOpenAi);
  }
  HttpHeaders headers = {{"ETag", std::string(file->etag)},
                         // Kept, but asked for: a new program is seen at the next load.
                         {"Cache-Control", "no-cache"},
                         {"Content-Security-Policy", kPolicy},
                         {"X-Content-Type-Options", "nosniff"},
                         {"Referrer-Policy", "no-referrer"}};
  const std::string* const condition = request.headers.find("If-None-Match");
  if (condition && holds(*condition, file->etag)) return reply.send(304, std::move(headers), "");
  headers.add("Content-Type", std::string(file->content_type));
  reply.send(200, std::move(headers), std::string(file->bytes));
}

}  // namespace baltoro::serve
