// Numbers in the text format of Prometheus (version 0.0.4).
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace baltoro::serve {

inline constexpr const char* kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

// How often values fell below each of some bounds. Any thread.
class Histogram {
 public:
  // `bounds` rise; a last one of infinity stands behind them.
  explicit Histogram(std::vector<double> bounds);

  void observe(double value);

  const std::vector<double>& bounds() const { return bounds_; }
  // Of each bound, infinity included, without those below.
  std::vector<std::uint64_t> counts() const;
  double sum() const { return sum_.load(std::memory_order_relaxed); }

 private:
  std::vector<double> bounds_;
  std::vector<std::atomic<std::uint64_t>> counts_;
  std::atomic<double> sum_ = 0;
};

struct MetricLabel {
  std::string_view name;
  std::string_view value;
};

// Writes families one after the other: head(), then its samples.
class MetricsText {
 public:
  // `type` is "counter", "gauge" or "histogram".
  void head(std::string_view name, std::string_view type, std::string_view help);
  void sample(double value, std::initializer_list<MetricLabel> labels = {});
  void samples(const Histogram& histogram);

  // A family of one sample without labels.
  void counter(std::string_view name, double value, std::string_view help);
  void gauge(std::string_view name, double value, std::string_view help);

  const std::string& text() const { return text_; }

 private:
  void put(std::string_view suffix, std::span<const MetricLabel> labels, double value);

  std::string name_;
  std::string text_;
};

}  // namespace baltoro::serve
