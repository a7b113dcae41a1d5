#include "cli/page.h"

#include <fmt/format.h>

#include "baltoro/version.h"

namespace baltoro::cli {
namespace {

constexpr const char* kPageStyle = R"(
:root{color-scheme:light dark;--ink:#1f2328;--soft:#59636e;--line:#d8dee4;--paper:#f6f8fa;--card:#ffffff}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9aa4af;--line:#30363d;--paper:#010409;--card:#0d1117}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:1180px;margin:0 auto;padding:24px 16px 48px}
h1{font-size:22px;line-height:1.3;margin:0 0 4px;overflow-wrap:anywhere}
h2{font-size:17px;margin:32px 0 8px}
p{margin:4px 0 12px;color:var(--soft)}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(45%,200px),1fr));gap:8px;margin:16px 0}
.facts div{background:var(--card);border:1px solid var(--line);border-radius:6px;padding:8px 12px}
.facts b{display:block;font-size:18px;font-weight:600;overflow-wrap:anywhere}
.facts span{color:var(--soft);font-size:13px}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,520px),1fr));gap:12px;margin:0 0 12px}
.charts>div{overflow-x:auto}
.charts>div:only-child{max-width:860px}
.charts svg{width:100%;min-width:520px;height:auto;border:1px solid var(--line);border-radius:6px;display:block}
.scroll{overflow-x:auto;background:var(--card);border:1px solid var(--line);border-radius:6px;margin:0 0 12px}
table{border-collapse:collapse;width:100%;font-size:13px;font-variant-numeric:tabular-nums}
th,td{padding:5px 10px;text-align:left;border-bottom:1px solid var(--line);vertical-align:top}
th{color:var(--soft);font-weight:600;white-space:nowrap}
th small{display:block;font-weight:400}
tbody tr:last-child td{border-bottom:0}
td{white-space:nowrap}
.w{white-space:normal;min-width:20em}
.n{text-align:right}
footer{margin-top:32px;color:var(--soft);font-size:13px}
)";

}  // namespace

std::string page_html(const Page& page) {
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<title>{0}</title>\n<style>{1}</style></head>\n<body><main>\n<h1>{0}</h1>\n"
      "<p>{2}</p>\n",
      escape_markup(page.title), kPageStyle, escape_markup(page.subtitle));
  if (!page.facts.empty()) out += "<div class=\"facts\">";
  for (const auto& [name, value] : page.facts) {
    out += fmt::format("<div><span>{}</span><b>{}</b></div>", escape_markup(name),
                       escape_markup(value));
  }
  if (!page.facts.empty()) out += "</div>\n";
  for (const PageSection& section : page.sections) {
    out += fmt::format("<h2>{}</h2>\n", escape_markup(section.heading));
    if (!section.text.empty()) out += fmt::format("<p>{}</p>\n", escape_markup(section.text));
    if (!section.charts.empty()) out += "<div class=\"charts\">";
    for (const std::string& chart : section.charts) out += "<div>" + chart + "</div>";
    if (!section.charts.empty()) out += "</div>\n";
    for (const Table& table : section.tables) out += table_html(table);
  }
  return out + fmt::format(
                   "<footer>baltoro {}. Formulas: docs/cost-model.md.</footer>\n"
                   "</main></body></html>\n",
                   version());
}

}  // namespace baltoro::cli
