#include "plan/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "plan/key_value.h"

namespace baltoro::plan {
namespace {

// Axes of whole numbers that are no sizes of the model.
struct CountAxis {
  const char* name;
  bool is_length;  // labelled 8k
  void (*set)(Trial& trial, std::int64_t value);
};
constexpr std::array<CountAxis, 13> kCounts = {{
    {"batch", false, [](Trial& t, std::int64_t v) { t.scenario.workload.batch = v; }},
    {"ctx", true, [](Trial& t, std::int64_t v) { t.scenario.workload.context = v; }},
    {"isl", true, [](Trial& t, std::int64_t v) { t.scenario.workload.input = v; }},
    {"prompts", false, [](Trial& t, std::int64_t v) { t.scenario.workload.prompts = v; }},
    {"chunk", true, [](Trial& t, std::int64_t v) { t.scenario.workload.chunk = v; }},
    {"cached", true, [](Trial& t, std::int64_t v) { t.scenario.workload.cached = v; }},
    {"draft", false, [](Trial& t, std::int64_t v) { t.scenario.workload.draft = v; }},
    {"tp", false, [](Trial& t, std::int64_t v) { t.scenario.layout.tp = v; }},
    {"ep", false, [](Trial& t, std::int64_t v) { t.scenario.layout.ep = v; }},
    {"dp", false, [](Trial& t, std::int64_t v) { t.scenario.layout.dp = v; }},
    {"pp", false, [](Trial& t, std::int64_t v) { t.scenario.layout.pp = v; }},
    {"dcp", false, [](Trial& t, std::int64_t v) { t.scenario.layout.dcp = v; }},
    {"redundant", false, [](Trial& t, std::int64_t v) { t.scenario.layout.redundant_experts = v; }},
}};

// Axes of words.
struct WordAxis {
  const char* name;
  AxisTopic topic;
  bool has_commas;  // inside of a value: only | separates
  void (*set)(Trial& trial, const std::string& value);
};
constexpr std::array<WordAxis, 9> kWords = {{
    {"split", AxisTopic::kAttention, false,
     [](Trial& t, const std::string& v) { apply_split(t.scenario.model, v); }},
    {"kv", AxisTopic::kAttention, false,
     [](Trial& t, const std::string& v) { apply_kv(t.scenario.model, v); }},
    {"mode", AxisTopic::kExperts, false,
     [](Trial& t, const std::string& v) { t.mode = parse_latent_mode(v); }},
    {"dtype", AxisTopic::kDeployment, true,
     [](Trial& t, const std::string& v) { apply_formats(t.scenario.model.formats, v); }},
    {"layout", AxisTopic::kDeployment, true,
     [](Trial& t, const std::string& v) { t.scenario.layout = parse_layout(v); }},
    {"phase", AxisTopic::kDeployment, false,
     [](Trial& t, const std::string& v) { t.scenario.workload.phase = parse_phase(v); }},
    {"a2a", AxisTopic::kDeployment, false,
     [](Trial& t, const std::string& v) { t.scenario.workload.dedup = parse_dedup(v); }},
    {"overlap", AxisTopic::kDeployment, false,
     [](Trial& t, const std::string& v) { t.scenario.workload.overlap = parse_overlap(v); }},
    {"routing", AxisTopic::kDeployment, false,
     [](Trial& t, const std::string& v) { t.scenario.workload.routing = parse_routing(v); }},
}};

void check_count(std::string_view name, double points) {
  if (points <= static_cast<double>(kMostPoints)) return;
  fail(ErrorCode::kUsage, "axis {} has {:.0f} points; at most {}: FIRST..LAST:log doubles", name,
       points, kMostPoints);
}

// FIRST..LAST, FIRST..LAST:STEP or FIRST..LAST:log as numbers.
std::vector<std::int64_t> range_of(std::string_view name, std::string_view text) {
  const std::string where = fmt::format("axis {}", name);
  const std::size_t dots = text.find("..");
  const std::size_t colon = std::min(text.find(':', dots), text.size());
  if (dots == 0 || colon == dots + 2) {
    fail(ErrorCode::kUsage, "axis {}={}: {} is missing; the form is FIRST..LAST, 1..64", name, text,
         dots == 0 ? "FIRST" : "LAST");
  }
  const std::int64_t first = parse_length(where, text.substr(0, dots));
  const std::int64_t last = parse_length(where, text.substr(dots + 2, colon - dots - 2));
  if (first > last) {
    fail(ErrorCode::kUsage, "axis {}={}: the range is empty; the rule is FIRST <= LAST, {}..{}",
         name, text, last, first);
  }
  const std::string_view by = colon < text.size() ? text.substr(colon + 1) : "1";
  std::vector<std::int64_t> values;
  if (by == "log") {
    if (first == 0) {
      fail(ErrorCode::kUsage, "axis {}={}: 0 does not double; the nearest start is 1", name, text);
    }
    for (std::int64_t value = first; value < last; value *= 2) values.push_back(value);
    values.push_back(last);
    return values;
  }
  if (by.find_first_not_of("-0123456789") != std::string_view::npos || by.empty()) {
    fail(ErrorCode::kUsage,
         "axis {}={}: \"{}\" is no step; the form is FIRST..LAST:N, or :log, which doubles", name,
         text, by);
  }
  const std::int64_t step = parse_count(where + " step", by, 1);
  check_count(name, static_cast<double>((last - first) / step + 1));
  for (std::int64_t value = first; value <= last; value += step) values.push_back(value);
  return values;
}

std::vector<std::int64_t> numbers_of(std::string_view name, std::string_view text) {
  std::vector<std::int64_t> numbers;
  for (const std::string& value : split_axis_values(name, text, false)) {
    if (value.find("..") == std::string::npos) {
      numbers.push_back(parse_length(fmt::format("axis {}", name), value));
      continue;
    }
    const std::vector<std::int64_t> range = range_of(name, value);
    numbers.insert(numbers.end(), range.begin(), range.end());
  }
  check_count(name, static_cast<double>(numbers.size()));
  return numbers;
}

std::string length_label(std::int64_t value) {
  constexpr std::int64_t kKilo = 1024;
  if (value >= kKilo * kKilo && value % (kKilo * kKilo) == 0) {
    return fmt::format("{}M", value / kKilo / kKilo);
  }
  if (value >= kKilo && value % kKilo == 0) return fmt::format("{}k", value / kKilo);
  return std::to_string(value);
}

// alpha may be 1.75.
Axis alpha_axis(std::string_view text) {
  Axis axis{"alpha", AxisTopic::kExperts, {}};
  const auto add = [&](double value) {
    axis.points.push_back({fmt::format("{:g}", value), [value](Trial& t) { t.alpha = value; }});
  };
  for (const std::string& value : split_axis_values("alpha", text, false)) {
    if (value.find("..") == std::string::npos) {
      add(parse_number("axis alpha", value, 1));
      continue;
    }
    for (const std::int64_t number : range_of("alpha", value)) {
      add(parse_number("axis alpha", std::to_string(number), 1));
    }
  }
  return axis;
}

bool is_attention_size(std::string_view name) {
  constexpr std::array<std::string_view, 6> kNames = {"c", "s", "d_n", "d_v", "r_q", "G"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

bool is_expert_size(std::string_view name) {
  constexpr std::array<std::string_view, 5> kNames = {"N", "K", "m", "l", "n_s"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

Axis size_axis(const std::string& name, std::string_view text) {
  Axis axis{name,
            is_attention_size(name) ? AxisTopic::kAttention
            : is_expert_size(name)  ? AxisTopic::kExperts
                                    : AxisTopic::kDeployment,
            {}};
  for (const std::int64_t value : numbers_of(name, text)) {
    const std::string label = std::to_string(value);
    axis.points.push_back({label, [entry = name + "=" + label](Trial& t) {
                             apply_overrides(t.scenario.model, entry);
                           }});
  }
  return axis;
}

}  // namespace

std::vector<std::string> split_axis_values(std::string_view name, std::string_view text,
                                           bool commas_inside) {
  const char separator = commas_inside || text.find('|') != std::string_view::npos ? '|' : ',';
  std::vector<std::string> values;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    if (end == begin) {
      fail(ErrorCode::kUsage, "axis {}={}: a value is empty; the form is {}=A,B,C", name, text,
           name);
    }
    values.emplace_back(text.substr(begin, end - begin));
    if (std::count(values.begin(), values.end(), values.back()) > 1) {
      fail(ErrorCode::kUsage, "axis {}: {} stands twice", name, values.back());
    }
    begin = end + 1;
  }
  return values;
}

void settle(Trial& trial) {
  Scenario& scenario = trial.scenario;
  if (trial.alpha > 0) apply_alpha(scenario.model, trial.alpha, trial.mode);
  Layout& layout = scenario.layout;
  if (trial.devices > 0 && layout.devices() != trial.devices) {
    const std::int64_t others = layout.devices() / layout.*trial.rest;
    if (trial.devices % others != 0) {
      std::int64_t near = 1;
      for (std::int64_t i = 1; i <= trial.devices; ++i) {
        if (trial.devices % i == 0 && std::abs(i - others) < std::abs(near - others)) near = i;
      }
      fail(ErrorCode::kUsage,
           "{} of {} devices: {} {} does not divide them; the nearest that does is {}",
           describe(layout), trial.devices,
           trial.rest == &Layout::dp ? "tp x pp =" : "dp x pp =", others, near);
    }
    layout.*trial.rest = trial.devices / others;
  }
  check_scenario(scenario);
}

Axis parse_axis(std::string_view text, const std::vector<std::string>& others) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0 || equals + 1 == text.size()) {
    fail(ErrorCode::kUsage, "axis \"{}\": the form is NAME=VALUES, batch=1..64:log", text);
  }
  const std::string name(text.substr(0, equals));
  const std::string_view values = text.substr(equals + 1);
  if (name == "alpha") return alpha_axis(values);
  for (const CountAxis& count : kCounts) {
    if (name != count.name) continue;
    Axis axis{name, AxisTopic::kDeployment, {}};
    for (const std::int64_t value : numbers_of(name, values)) {
      axis.points.push_back({count.is_length ? length_label(value) : std::to_string(value),
                             [value, set = count.set](Trial& t) { set(t, value); }});
    }
    return axis;
  }
  for (const WordAxis& word : kWords) {
    if (name != word.name) continue;
    Axis axis{name, word.topic, {}};
    for (const std::string& value : split_axis_values(name, values, word.has_commas)) {
      axis.points.push_back({value, [value, set = word.set](Trial& t) { set(t, value); }});
    }
    return axis;
  }
  const std::vector<std::string> sizes = override_keys();
  if (std::find(sizes.begin(), sizes.end(), name) != sizes.end()) return size_axis(name, values);
  std::vector<std::string> known = others;
  for (const std::string& axis : axis_names()) known.push_back(axis);
  known.insert(known.end(), sizes.begin(), sizes.end());
  fail_unknown("", name, "axis", known);
}

std::vector<std::string> axis_names() {
  std::vector<std::string> names = {"alpha"};
  for (const WordAxis& word : kWords) names.emplace_back(word.name);
  for (const CountAxis& count : kCounts) names.emplace_back(count.name);
  return names;
}

}  // namespace baltoro::plan
