#include "cli/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/format.h"

namespace baltoro::cli {
namespace {

const Cell& cell_of(const std::vector<Cell>& row, std::size_t column) {
  static const Cell kEmpty("");
  return column < row.size() ? row[column] : kEmpty;
}

// Numbers, or nothing but empty texts beside them.
bool is_numeric(const Table& table, std::size_t column) {
  return std::any_of(table.rows.begin(), table.rows.end(),
                     [&](const std::vector<Cell>& row) { return cell_of(row, column).is_number; });
}

std::size_t width_of(const Table& table, std::size_t column) {
  const Column& c = table.columns[column];
  std::size_t width = std::max(c.head.size(), c.shown_unit.size());
  for (const std::vector<Cell>& row : table.rows) {
    // A text that runs through to the end of its row needs no column.
    if (column + 1 == row.size() && row.size() < table.columns.size()) continue;
    width = std::max(width, shown(c, cell_of(row, column)).size());
  }
  return width;
}

constexpr std::size_t kGap = 2;
constexpr std::size_t kLongestLine = 36;  // of a cell on a page; longer ones are broken

// One block of text: the first column and those of [begin, end).
std::string block(const Table& table, std::size_t begin, std::size_t end) {
  std::vector<std::size_t> order = {0};
  for (std::size_t i = std::max<std::size_t>(begin, 1); i < end; ++i) order.push_back(i);
  std::string out;
  const auto add_line = [&](const auto& text_of) {
    std::string line;
    for (const std::size_t i : order) {
      const std::string text = text_of(i);
      const std::string gap(line.empty() ? 0 : kGap, ' ');
      line += is_numeric(table, i) ? fmt::format("{}{:>{}}", gap, text, width_of(table, i))
                                   : fmt::format("{}{:<{}}", gap, text, width_of(table, i));
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  };
  add_line([&](std::size_t i) { return table.columns[i].head; });
  const bool has_units = std::any_of(order.begin(), order.end(), [&](std::size_t i) {
    return !table.columns[i].shown_unit.empty();
  });
  if (has_units) add_line([&](std::size_t i) { return table.columns[i].shown_unit; });
  for (const std::vector<Cell>& row : table.rows) {
    add_line([&](std::size_t i) {
      return i < row.size() ? shown(table.columns[i], row[i]) : std::string();
    });
  }
  return out;
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

}  // namespace

std::string short_number(double value) {
  if (std::isnan(value)) return "-";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  const double size = std::abs(value);
  if (size > 0 && size < 1e-3) return fmt::format("{:.2g}", value);
  if (size < 999.95) return fmt::format("{:.4g}", value);
  return (value < 0 ? "-" : "") + with_commas(static_cast<std::uint64_t>(std::llround(size)));
}

std::string shown(const Column& column, const Cell& cell) {
  return cell.is_number ? short_number(cell.value * column.scale) : cell.text;
}

std::string table_text(const Table& table, std::size_t width) {
  std::string out;
  std::size_t begin = 1;
  while (begin < table.columns.size() || out.empty()) {
    std::size_t used = width_of(table, 0);
    std::size_t end = begin;
    while (end < table.columns.size()) {
      const std::size_t more = kGap + width_of(table, end);
      if (end > begin && used + more > width) break;
      used += more;
      ++end;
    }
    if (!out.empty()) out += "\n";
    out += block(table, begin, end);
    begin = std::max(end, begin + 1);
  }
  return out;
}

std::string table_csv(const Table& table) {
  std::string out;
  for (const Column& column : table.columns) {
    const std::string head =
        column.unit.empty() ? column.key : fmt::format("{} [{}]", column.key, column.unit);
    out += (&column == &table.columns.front() ? "" : ",") + csv_field(head);
  }
  out += "\n";
  for (const std::vector<Cell>& row : table.rows) {
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      const Cell& cell = cell_of(row, i);
      const bool finite = cell.is_number && std::isfinite(cell.value);
      out += (i == 0 ? "" : ",") + csv_field(finite           ? fmt::format("{:.9g}", cell.value)
                                             : cell.is_number ? std::string()
                                                              : cell.text);
    }
    out += "\n";
  }
  return out;
}

nlohmann::ordered_json table_json(const Table& table) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const std::vector<Cell>& row : table.rows) {
    nlohmann::ordered_json entry = nlohmann::ordered_json::object();
    for (std::size_t i = 0; i < row.size(); ++i) {
      const Column& column = table.columns[i];
      if (!row[i].is_number) {
        entry[column.key] = row[i].text;
        continue;
      }
      const bool finite = std::isfinite(row[i].value);
      entry[column.key] = {
          {"value", finite ? nlohmann::ordered_json(row[i].value) : nlohmann::ordered_json()},
          {"unit", column.unit},
          {"provenance", column.provenance}};
    }
    rows.push_back(std::move(entry));
  }
  return rows;
}

std::string wrapped(const std::string& name, const std::string& text, std::size_t width) {
  constexpr std::size_t kIndent = 11;
  std::string out = fmt::format("{:<{}}", name, kIndent);
  std::size_t column = kIndent;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::size_t length = end - begin;
    if (column > kIndent && column + 1 + length > width) {
      out += "\n" + std::string(kIndent, ' ');
      column = kIndent;
    } else if (column > kIndent) {
      out += ' ';
      ++column;
    }
    out += text.substr(begin, length);
    column += length;
    begin = end + 1;
  }
  return out + "\n";
}

std::string escape_markup(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string table_html(const Table& table) {
  std::string out = "<div class=\"scroll\"><table>\n<thead><tr>";
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const Column& column = table.columns[i];
    out += fmt::format("<th{}>{}{}</th>", is_numeric(table, i) ? " class=\"n\"" : "",
                       escape_markup(column.head),
                       column.shown_unit.empty()
                           ? ""
                           : fmt::format("<small>{}</small>", escape_markup(column.shown_unit)));
  }
  out += "</tr></thead>\n<tbody>\n";
  for (const std::vector<Cell>& row : table.rows) {
    out += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool last = i + 1 == row.size() && row.size() < table.columns.size();
      const std::string text = shown(table.columns[i], row[i]);
      const bool is_right = is_numeric(table, i) && !last;
      out += fmt::format(
          "<td{}{}>{}</td>",
          is_right                     ? " class=\"n\""
          : text.size() > kLongestLine ? " class=\"w\""
                                       : "",
          last ? fmt::format(" colspan=\"{}\"", table.columns.size() - i) : std::string(),
          escape_markup(text));
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

}  // namespace baltoro::cli
