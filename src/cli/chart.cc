#include "cli/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace baltoro::cli {
namespace {

constexpr double kWidth = 760;
constexpr double kHeight = 400;

// Fourteen colours that can be told apart on white and on black.
constexpr std::array kColours = {"#9aa5b1", "#3b82d0", "#f08a24", "#58b0d9", "#d9554e",
                                 "#8f63c7", "#7d5a3c", "#e2b93b", "#3fa35c", "#86c06c",
                                 "#c77ea8", "#4d6b8a", "#20a39e", "#b8574a"};

constexpr const char* kChartStyle =
    "<style>svg.chart{--ink:#1f2328;--soft:#59636e;--grid:#d8dee4;--paper:#ffffff;"
    "font:12px system-ui,-apple-system,'Segoe UI',sans-serif}"
    "@media(prefers-color-scheme:dark){svg.chart{--ink:#e6edf3;--soft:#9aa4af;--grid:#30363d;"
    "--paper:#0d1117}}"
    ".chart text{fill:var(--ink)}.chart .soft{fill:var(--soft)}"
    ".chart .title{font-size:14px;font-weight:600}.chart .small{font-size:10px}"
    ".chart .grid{stroke:var(--grid)}.chart .axis{stroke:var(--soft);fill:none}"
    ".chart .paper{fill:var(--paper)}</style>";

struct Box {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

// One drawing: pixels from the upper left corner.
class Canvas {
 public:
  explicit Canvas(const ChartText& text, double height = kHeight) : height_(height) {
    body_ =
        fmt::format("<rect class=\"paper\" width=\"{}\" height=\"{}\" rx=\"6\"/>", kWidth, height_);
    label(16, 24, text.title, "title");
    title_ = text.title;
  }

  void add(const std::string& element) { body_ += element + "\n"; }
  void label(double x, double y, const std::string& text, const char* name = "",
             const char* anchor = "start") {
    add(fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\" text-anchor=\"{}\">{}</text>", x,
                    y, name, anchor, escape_markup(text)));
  }
  void line(double x1, double y1, double x2, double y2, const std::string& attributes) {
    add(fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>", x1, y1,
                    x2, y2, attributes));
  }
  void rectangle(const Box& box, const std::string& fill, const std::string& hint) {
    add(
        fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
                    "fill=\"{}\"><title>{}</title></rect>",
                    box.x, box.y, box.width, box.height, fill, escape_markup(hint)));
  }
  void circle(double x, double y, double radius, const std::string& fill, const std::string& hint) {
    add(
        fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" fill=\"{}\" "
                    "fill-opacity=\"0.85\"><title>{}</title></circle>",
                    x, y, radius, fill, escape_markup(hint)));
  }
  std::string text() const {
    return fmt::format(
        "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" "
        "role=\"img\" aria-label=\"{}\">{}\n{}</svg>\n",
        kWidth, height_, escape_markup(title_), kChartStyle, body_);
  }

 private:
  double height_;
  std::string title_;
  std::string body_;
};

// From numbers to pixels along one axis.
struct Scale {
  double low = 0;
  double high = 1;
  double begin = 0;  // pixels
  double end = 1;
  bool is_log = false;

  double at(double value) const {
    const double part =
        is_log ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
    return begin + part * (end - begin);
  }
};

// 1, 2 or 5 times a power of ten, so that about `count` steps reach `high`.
double tick_step(double high, int count) {
  const double rough = high / count;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double step : {1.0, 2.0, 5.0}) {
    if (step * power >= rough) return step * power;
  }
  return 10 * power;
}

std::string axis_number(double value) {
  constexpr std::array<std::pair<double, const char*>, 5> kPrefixes = {
      {{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}};
  for (const auto& [size, prefix] : kPrefixes) {
    if (value >= size) return fmt::format("{:g} {}", value / size, prefix);
  }
  return fmt::format("{:g}", value);
}

constexpr double kLeft = 64;
constexpr double kTop = 44;
constexpr double kBottom = 48;  // below the plot

// Powers of ten, or 1, 2 and 5 where there are few.
std::vector<double> log_ticks(const Scale& scale) {
  std::vector<double> ticks;
  const bool few = scale.high / scale.low < 300;
  for (double power = std::pow(10, std::floor(std::log10(scale.low))); power <= scale.high;
       power *= 10) {
    for (const double step : {1.0, 2.0, 5.0}) {
      const double tick = step * power;
      if ((few || step == 1) && tick >= scale.low * 0.999 && tick <= scale.high * 1.001) {
        ticks.push_back(tick);
      }
    }
  }
  return ticks;
}

void log_axes(Canvas& canvas, const ChartText& text, const Scale& x, const Scale& y) {
  for (const double tick : log_ticks(x)) {
    canvas.line(x.at(tick), y.begin, x.at(tick), y.end, "class=\"grid\"");
    canvas.label(x.at(tick), y.begin + 18, axis_number(tick), "soft", "middle");
  }
  for (const double tick : log_ticks(y)) {
    canvas.line(x.begin, y.at(tick), x.end, y.at(tick), "class=\"grid\"");
    canvas.label(x.begin - 8, y.at(tick) + 4, axis_number(tick), "soft", "end");
  }
  canvas.label((x.begin + x.end) / 2, y.begin + 38, text.x, "soft", "middle");
  canvas.label(x.begin - 48, y.end - 6, text.y, "soft");
}

// Ends of a logarithmic axis around the values, a little wider.
Scale log_scale(double low, double high, double begin, double end) {
  const double room = std::pow(high / low, 0.06) * 1.1;
  return {low / room, high * room, begin, end, true};
}

// Names beside their marks, moved apart where they would touch.
struct PlacedName {
  double x = 0;
  double y = 0;
  std::string text;
};
void place_names(Canvas& canvas, std::vector<PlacedName> names, double bottom) {
  constexpr double kLine = 15;
  std::sort(names.begin(), names.end(),
            [](const PlacedName& a, const PlacedName& b) { return a.y < b.y; });
  std::vector<double> at;
  for (const PlacedName& name : names) {
    at.push_back(at.empty() ? name.y : std::max(name.y, at.back() + kLine));
  }
  for (std::size_t i = at.size(); i-- > 0;) {
    const double most = i + 1 < at.size() ? at[i + 1] - kLine : bottom;
    at[i] = std::min(at[i], most);
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    const double x =
        std::min(names[i].x + 26, kWidth - 20 - 6.2 * static_cast<double>(names[i].text.size()));
    canvas.line(names[i].x, names[i].y, x - 3, at[i], "class=\"grid\"");
    canvas.label(x, at[i] + 4, names[i].text);
  }
}

// From dark blue over green to yellow.
std::string heat_colour(double part) {
  struct Stop {
    double red, green, blue;
  };
  constexpr std::array<Stop, 5> kStops = {
      {{68, 1, 84}, {59, 82, 139}, {33, 145, 140}, {94, 201, 98}, {253, 231, 37}}};
  const double at = std::clamp(part, 0.0, 1.0) * (kStops.size() - 1);
  const std::size_t i = std::min<std::size_t>(static_cast<std::size_t>(at), kStops.size() - 2);
  const double rest = at - static_cast<double>(i);
  const auto mix = [&](double Stop::*channel) {
    return kStops[i].*channel + rest * (kStops[i + 1].*channel - kStops[i].*channel);
  };
  return fmt::format("#{:02x}{:02x}{:02x}", static_cast<int>(mix(&Stop::red)),
                     static_cast<int>(mix(&Stop::green)), static_cast<int>(mix(&Stop::blue)));
}

const char* colour_of(std::size_t index) { return kColours[index % kColours.size()]; }

}  // namespace

std::string stacked_bars(const ChartText& text, const std::vector<std::string>& labels,
                         const std::vector<Series>& series) {
  Canvas canvas(text);
  std::vector<double> sums(labels.size(), 0);
  for (const Series& one : series) {
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += one.values[i];
  }
  const double most = std::max(1e-12, *std::max_element(sums.begin(), sums.end()));
  constexpr double kLegend = 140;
  const double right = kWidth - kLegend;
  const double step = tick_step(most, 5);
  const Scale y = {0, std::ceil(most * 1.06 / step) * step, kHeight - kBottom, kTop + 16, false};
  for (double tick = 0; tick <= y.high * 1.0001; tick += step) {
    canvas.line(kLeft, y.at(tick), right, y.at(tick), "class=\"grid\"");
    canvas.label(kLeft - 8, y.at(tick) + 4, axis_number(tick), "soft", "end");
  }
  const double pitch = (right - kLeft) / static_cast<double>(labels.size());
  const double wide = std::min(56.0, 0.72 * pitch);
  std::vector<double> base(labels.size(), 0);
  double legend = kHeight - kBottom - 4;
  for (const Series& one : series) {
    if (*std::max_element(one.values.begin(), one.values.end()) < 1e-3 * most) continue;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const double x = kLeft + pitch * (static_cast<double>(i) + 0.5) - wide / 2;
      const double top = y.at(base[i] + one.values[i]);
      canvas.rectangle({x, top, wide, y.at(base[i]) - top}, colour_of(one.colour),
                       fmt::format("{} {}: {}", labels[i], one.name, short_number(one.values[i])));
      base[i] += one.values[i];
    }
    canvas.rectangle({right + 14, legend - 10, 11, 11}, colour_of(one.colour), one.name);
    canvas.label(right + 31, legend, one.name);
    legend -= 19;
  }
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const double x = kLeft + pitch * (static_cast<double>(i) + 0.5);
    canvas.label(x, y.at(sums[i]) - 5, short_number(sums[i]), "soft", "middle");
    canvas.label(x, kHeight - kBottom + 18, labels[i], "soft", "middle");
  }
  canvas.label((kLeft + right) / 2, kHeight - 10, text.x, "soft", "middle");
  canvas.label(16, kTop, text.y, "soft");
  return canvas.text();
}

std::string roofline(const ChartText& text, double bandwidth, const std::vector<Roof>& roofs,
                     const std::vector<RooflinePoint>& points) {
  Canvas canvas(text);
  double peak = 0;
  for (const Roof& roof : roofs) peak = std::max(peak, roof.flops);
  double low_x = 1;
  double high_x = 2 * peak / bandwidth;
  double low_y = bandwidth * low_x;
  for (const RooflinePoint& point : points) {
    low_x = std::min(low_x, point.intensity);
    high_x = std::max(high_x, point.intensity);
    low_y = std::min(low_y, point.flops);
  }
  const Scale x = log_scale(low_x, high_x, kLeft, kWidth - 24);
  const Scale y = log_scale(low_y, peak, kHeight - kBottom, kTop + 8);
  log_axes(canvas, text, x, y);
  const double start = std::max(x.low, y.low / bandwidth);
  canvas.line(x.at(start), y.at(start * bandwidth), x.at(peak / bandwidth), y.at(peak),
              "class=\"axis\" stroke-width=\"1.6\"");
  for (const Roof& roof : roofs) {
    canvas.line(x.at(roof.flops / bandwidth), y.at(roof.flops), x.end, y.at(roof.flops),
                "class=\"axis\" stroke-width=\"1.6\"");
    canvas.label(x.end - 4, y.at(roof.flops) - 5, roof.name, "soft", "end");
  }
  std::vector<PlacedName> names;
  for (const RooflinePoint& point : points) {
    const double px = x.at(point.intensity);
    const double py = y.at(point.flops);
    canvas.circle(px, py, 3.5 + 14 * std::sqrt(point.share), colour_of(point.colour),
                  fmt::format("{}: {} FLOP/B, {} TFLOP/s, {:.1f} % of the time", point.name,
                              short_number(point.intensity), short_number(point.flops / 1e12),
                              100 * point.share));
    names.push_back({px, py, fmt::format("{} {:.0f} %", point.name, 100 * point.share)});
  }
  place_names(canvas, names, kHeight - kBottom - 6);
  return canvas.text();
}

std::string heat_chart(const ChartText& text, const HeatMap& map) {
  double low = std::numeric_limits<double>::infinity();
  double high = 0;
  for (const std::vector<double>& row : map.values) {
    for (const double value : row) {
      if (!(value > 0) || !std::isfinite(value)) continue;
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  const double right = kWidth - 16;
  const double left = kLeft + 24;
  const double wide = (right - left) / static_cast<double>(map.column_labels.size());
  const double tall = std::clamp(320.0 / static_cast<double>(map.values.size()), 14.0, 44.0);
  const double top = kTop + 22;
  const double bottom = top + tall * static_cast<double>(map.values.size());
  Canvas canvas(text, bottom + 44);
  canvas.add(
      "<defs><pattern id=\"misfit\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
      "patternTransform=\"rotate(45)\"><line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"6\" "
      "stroke=\"#ffffff\" stroke-opacity=\"0.55\" stroke-width=\"2\"/></pattern></defs>");
  for (std::size_t i = 0; i < map.values.size(); ++i) {
    const double y = top + tall * static_cast<double>(i);
    canvas.label(left - 8, y + tall / 2 + 4, map.row_labels[i], "soft", "end");
    for (std::size_t j = 0; j < map.values[i].size(); ++j) {
      const double value = map.values[i][j];
      if (!(value > 0) || !std::isfinite(value)) continue;
      const double x = left + wide * static_cast<double>(j);
      const double part = high > low ? std::log(value / low) / std::log(high / low) : 0.5;
      const std::string shown_value = short_number(value * map.measure->scale);
      const char* fit = map.fits[i][j] ? "" : ", does not fit into memory";
      const std::string hint =
          fmt::format("{} {}, {} {}: {} {}{}", map.row_axis, map.row_labels[i], map.column_axis,
                      map.column_labels[j], shown_value, map.measure->shown_unit, fit);
      canvas.rectangle({x, y, wide - 1, tall - 1}, heat_colour(part), hint);
      if (!map.fits[i][j]) canvas.rectangle({x, y, wide - 1, tall - 1}, "url(#misfit)", hint);
      const bool has_room = 6.6 * static_cast<double>(shown_value.size()) < wide - 4;
      if (!has_room) continue;
      canvas.add(fmt::format(
          "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" "
          "style=\"fill:{}\" pointer-events=\"none\">{}</text>",
          x + wide / 2, y + tall / 2 + 4, part > 0.6 ? "#111111" : "#ffffff", shown_value));
    }
  }
  for (std::size_t j = 0; j < map.column_labels.size(); ++j) {
    canvas.label(left + wide * (static_cast<double>(j) + 0.5), bottom + 16, map.column_labels[j],
                 "soft", "middle");
  }
  canvas.label((left + right) / 2, bottom + 36, text.x, "soft", "middle");
  canvas.label(16, top - 8, text.y + "   (hatched: does not fit into memory)", "soft");
  return canvas.text();
}

std::string scatter(const ChartText& text, const std::vector<ScatterPoint>& points) {
  Canvas canvas(text);
  double low_x = std::numeric_limits<double>::infinity();
  double low_y = low_x;
  double high_x = 0;
  double high_y = 0;
  for (const ScatterPoint& point : points) {
    low_x = std::min(low_x, point.x);
    high_x = std::max(high_x, point.x);
    low_y = std::min(low_y, point.y);
    high_y = std::max(high_y, point.y);
  }
  constexpr double kLegend = 270;
  const double right = kWidth - kLegend;
  const Scale x = log_scale(low_x, high_x, kLeft, right);
  const Scale y = log_scale(low_y, high_y, kHeight - kBottom, kTop + 8);
  log_axes(canvas, text, x, y);
  for (const ScatterPoint& point : points) {
    if (point.name.empty()) canvas.circle(x.at(point.x), y.at(point.y), 3, colour_of(0), "");
  }
  int number = 0;
  double legend = kTop + 12;
  for (const ScatterPoint& point : points) {
    if (point.name.empty()) continue;
    const std::string mark = std::to_string(++number);
    canvas.circle(x.at(point.x), y.at(point.y), 6, colour_of(2),
                  fmt::format("{}: {:.4g}, {:.4g}", point.name, point.x, point.y));
    canvas.label(x.at(point.x), y.at(point.y) - 8, mark, "", "middle");
    if (legend > kHeight - 8) continue;
    canvas.label(right + 26, legend, mark, "small", "end");
    canvas.label(right + 32, legend, point.name, "small");
    legend += 15;
  }
  return canvas.text();
}

}  // namespace baltoro::cli
