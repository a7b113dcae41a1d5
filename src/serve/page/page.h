// The chat page: files that are part of the program, and how they are served. Its policy allows scripts, styles and
// fonts of this server alone, and forbids scripts to make HTML of text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "serve/http.h"

namespace baltoro::serve {

// Views live as long as the program.
struct PageFile {
  std::string_view content_type;
  std::string_view bytes;
  std::string_view etag;  // in quotes; changes with the bytes
};

// The file of a path of the server: "/", or "/page/..." with the name of a file in src/serve/page or of a library
// below lib/. Nothing for any other path. No part of the path reaches the file system.
std::optional<PageFile> page_file(std::string_view path);

// Answers a request for such a path: the file, 304 where the client has it, or 404. `method` is GET or HEAD.
void send_page(const HttpRequest& request, HttpReply& reply);

}  // namespace baltoro::serve
