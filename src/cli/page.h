// A page of results: one HTML file that needs nothing else, in the colours of a light or a dark
// reader, for narrow and wide windows.
#pragma once

#include <string>
#include <vector>

#include "cli/table.h"

namespace baltoro::cli {

struct PageSection {
  std::string heading;
  std::string text;  // a paragraph; may be empty
  std::vector<Table> tables;
  std::vector<std::string> charts;  // SVG elements
};
struct Page {
  std::string title;
  std::string subtitle;
  // Name and value, side by side at the head.
  std::vector<std::pair<std::string, std::string>> facts;
  std::vector<PageSection> sections;
};
std::string page_html(const Page& page);

}  // namespace baltoro::cli
