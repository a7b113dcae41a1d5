#include "serve/metrics_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

namespace baltoro::serve {
namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else {
      if (c == '\\' || c == '"') out += '\\';
      out += c;
    }
  }
  return out;
}

std::string number(double value) { return std::isinf(value) ? "+Inf" : fmt::format("{}", value); }

}  // namespace

Histogram::Histogram(std::vector<double> bounds)
    : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}

void Histogram::observe(double value) {
  const auto bound = std::lower_bound(bounds_.begin(), bounds_.end(), value);
  const auto index = static_cast<std::size_t>(bound - bounds_.begin());
  counts_[index].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

std::vector<std::uint64_t> Histogram::counts() const {
  std::vector<std::uint64_t> counts;
  for (const auto& count : counts_) counts.push_back(count.load(std::memory_order_relaxed));
  return counts;
}

void MetricsText::head(std::string_view name, std::string_view type, std::string_view help) {
  name_ = name;
  fmt::format_to(std::back_inserter(text_), "# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

void MetricsText::sample(double value, std::initializer_list<MetricLabel> labels) {
  put("", labels, value);
}

void MetricsText::samples(const Histogram& histogram) {
  const std::vector<std::uint64_t> counts = histogram.counts();
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    total += counts[i];
    const bool last = i == histogram.bounds().size();
    const std::string bound = number(last ? INFINITY : histogram.bounds()[i]);
    put("_bucket", std::array{MetricLabel{"le", bound}}, static_cast<double>(total));
  }
  put("_sum", {}, histogram.sum());
  put("_count", {}, static_cast<double>(total));
}

void MetricsText::counter(std::string_view name, double value, std::string_view help) {
  head(name, "counter", help);
  sample(value);
}

void MetricsText::gauge(std::string_view name, double value, std::string_view help) {
  head(name, "gauge", help);
  sample(value);
}

void MetricsText::put(std::string_view suffix, std::span<const MetricLabel> labels, double value) {
  text_.append(name_).append(suffix);
  char separator = '{';
  for (const MetricLabel& label : labels) {
    fmt::format_to(std::back_inserter(text_), "{}{}=\"{}\"", separator, label.name,
                   escaped(label.value));
    separator = ',';
  }
  if (!labels.empty()) text_ += '}';
  fmt::format_to(std::back_inserter(text_), " {}\n", number(value));
}

}  // namespace baltoro::serve
