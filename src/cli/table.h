// A table of numbers that is printed as text, CSV, JSON or HTML.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace baltoro::cli {

struct Column {
  std::string key;   // of CSV and JSON
  std::string head;  // of text
  std::string shown_unit;
  std::string unit;        // of the value, "" where it has none
  std::string provenance;  // of JSON leaves: what the numbers follow from
  double scale = 1;        // shown = value * scale
};

// A number or a text; a number that is none is shown as "-" and is null in JSON.
struct Cell {
  Cell(double number) : value(number), is_number(true) {}
  Cell(std::string words) : text(std::move(words)) {}
  Cell(const char* words) : text(words) {}

  double value = 0;
  std::string text;
  bool is_number = false;
};

struct Table {
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;  // of at most columns.size() cells: the rest is empty
};

// Four digits, "1,234,567" from a thousand on, "-" for what is no number.
std::string short_number(double value);
std::string shown(const Column& column, const Cell& cell);

// At most `width` columns of ASCII: what does not fit follows in a further table under the first
// column again. Texts are on the left, numbers on the right.
std::string table_text(const Table& table, std::size_t width = 100);
// RFC 4180, values in the units of the heads: "step [s]".
std::string table_csv(const Table& table);
// A list of objects by key; each number is {"value", "unit", "provenance"}.
nlohmann::ordered_json table_json(const Table& table);
// A <table> whose cells are escaped.
std::string table_html(const Table& table);

// "name       text", broken at spaces to `width` columns.
std::string wrapped(const std::string& name, const std::string& text, std::size_t width = 100);

// Text inside of HTML and SVG.
std::string escape_markup(const std::string& text);

}  // namespace baltoro::cli
