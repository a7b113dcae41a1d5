// The files of the page, in the program's read-only data. embed.cmake writes the list.
#pragma once

#include <span>
#include <string_view>

namespace baltoro::serve {

struct EmbeddedFile {
  std::string_view name;  // "index.html", "lib/fonts/KaTeX_Main-Regular.woff2"
  std::string_view bytes;
};

std::span<const EmbeddedFile> embedded_files();

}  // namespace baltoro::serve
