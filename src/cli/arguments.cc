#include "cli/arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <system_error>

#include "core/error.h"

namespace baltoro::cli {
namespace {

struct Parsed {
  double value = 0;
  bool is_number = false;
  bool fits = false;  // into a double
};

Parsed parse_double(const std::string& text) {
  Parsed parsed;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, parsed.value);
  parsed.is_number = stop == end && error != std::errc::invalid_argument;
  parsed.fits = error == std::errc();
  return parsed;
}

Parsed require_number(const std::string& name, const std::string& text) {
  const Parsed parsed = parse_double(text);
  if (!parsed.is_number) {
    fail(ErrorCode::kUsage, "{} is \"{}\"; it must be a number", name, text);
  }
  return parsed;
}

// "auto, copy or map"
std::string list(const std::vector<std::string>& words) {
  return fmt::format("{} or {}", fmt::join(words.begin(), words.end() - 1, ", "), words.back());
}

}  // namespace

template <typename T>
T parse_whole(const std::string& name, const std::string& text, Range<T> range) {
  T value = range.min;
  bool too_small = false, too_large = false;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (stop != end || error != std::errc()) {
    // Not a T. What it is instead decides the message.
    require_number(name, text);
    if (text.find_first_not_of("-0123456789") != std::string::npos) {
      fail(ErrorCode::kUsage, "{} is {}; it must be a whole number", name, text);
    }
    too_small = text.front() == '-';
    too_large = !too_small;
  }
  if (too_small || value < range.min) {
    fail(ErrorCode::kUsage, "{} is {}; it must be at least {}", name, text, range.min);
  }
  if (too_large || value > range.max) {
    fail(ErrorCode::kUsage, "{} is {}; it must be at most {}", name, text, range.max);
  }
  return value;
}

template int parse_whole(const std::string&, const std::string&, Range<int>);
template std::int64_t parse_whole(const std::string&, const std::string&, Range<std::int64_t>);
template std::uint64_t parse_whole(const std::string&, const std::string&, Range<std::uint64_t>);

float parse_real(const std::string& name, const std::string& text) {
  const Parsed parsed = require_number(name, text);
  const auto value = static_cast<float>(parsed.value);
  const bool lost =
      (value == 0) != (parsed.value == 0) || (std::isinf(value) && !std::isinf(parsed.value));
  if (!parsed.fits || lost) {
    fail(ErrorCode::kUsage, "{} is {}; a 32-bit float does not reach so far", name, text);
  }
  return value;
}

std::uint64_t parse_bytes(const std::string& name, const std::string& text, const char* other) {
  struct Unit {
    std::string_view name;
    std::uint64_t bytes;
  };
  constexpr std::array<Unit, 8> kUnits = {{{"", 1},
                                           {"B", 1},
                                           {"MB", 1'000'000},
                                           {"GB", 1'000'000'000},
                                           {"TB", 1'000'000'000'000},
                                           {"MiB", std::uint64_t{1} << 20},
                                           {"GiB", std::uint64_t{1} << 30},
                                           {"TiB", std::uint64_t{1} << 40}}};
  std::uint64_t count = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, count);
  const auto unit = std::ranges::find(kUnits, std::string_view(stop, end), &Unit::name);
  if (error != std::errc() || unit == kUnits.end() ||
      count > std::numeric_limits<std::uint64_t>::max() / unit->bytes) {
    fail(ErrorCode::kUsage,
         "{} is \"{}\"; it must be a whole number of bytes, MB, GB, TB, MiB, GiB or TiB, such as "
         "24GB{}",
         name, text, other);
  }
  return count * unit->bytes;
}

std::string long_name(const std::string& flags) { return flags.substr(flags.rfind(',') + 1); }

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

void check_item(const std::string& name, const std::string& list, const std::string& word,
                std::size_t i) {
  if (!word.empty()) return;
  fail(ErrorCode::kUsage, "{} is \"{}\", whose item {} is empty; the form is A,B,C", name, list,
       i + 1);
}

CLI::Option* add_text(CLI::App& app, const std::string& flags, std::optional<std::string>& target,
                      const std::string& description) {
  return app
      .add_option_function<std::string>(
          flags, [&target](const std::string& text) { target = text; }, description)
      ->type_name("TEXT");
}

std::string not_empty(const std::string& text) {
  return text.empty() ? "is empty; leave it out for its default" : "";
}

CLI::Option* add_choice(CLI::App& app, const std::string& flags, std::string& target,
                        const std::vector<std::string>& choices, const std::string& description) {
  const auto store = [&target, choices, name = long_name(flags)](const std::string& text) {
    if (std::ranges::find(choices, text) == choices.end()) {
      fail(ErrorCode::kUsage, "{} is \"{}\"; it must be {}", name, text, list(choices));
    }
    target = text;
  };
  return app.add_option_function<std::string>(flags, store, description)
      ->type_name(fmt::format("TEXT:{{{}}}", fmt::join(choices, ",")))
      ->default_str(target);
}

void add_isa(CLI::App& app, std::string& target) {
  add_choice(app, "--isa", target, {"scalar", "neon", "avx2", "avx512", "avx512bf16", "amx"},
             "Default: the best that runs here");
}

void add_activations(CLI::App& app, std::string& target) {
  add_choice(app, "--activations", target, {"bf16", "f32"},
             "bf16 rounds where the released model does, f32 nowhere");
}

void add_latent_norm_eps(CLI::App& app, std::optional<float>& target) {
  const char* const name = "--latent-norm-eps";
  const auto store = [&target, name](const std::string& text) {
    const Parsed parsed = require_number(name, text);
    const auto eps = static_cast<float>(parsed.value);
    if (!parsed.fits || !(eps > 0.0f && eps <= 0.1f)) {
      fail(ErrorCode::kUsage, "{} is {}; it must be a 32-bit float in (0, 0.1]", name, text);
    }
    target = eps;
  };
  app.add_option_function<std::string>(
         name, store, "Epsilon of the MLA latent norms, instead of the configuration's")
      ->type_name("FLOAT");
}

CLI::Option* add_device_memory(CLI::App& app, std::optional<std::uint64_t>& target) {
  const auto store = [&target](const std::string& text) {
    target.reset();
    if (text != "auto") target = parse_bytes("--device-memory", text, ", or auto");
  };
  return app
      .add_option_function<std::string>("--device-memory", store,
                                        "Most of a GPU's memory to take; auto is what is free")
      ->type_name("BYTES")
      ->default_str("auto");
}

CLI::Option* add_memory(CLI::App& app, std::optional<std::uint64_t>& target) {
  const auto store = [&target](const std::string& text) {
    target.reset();
    if (text != "auto") target = parse_bytes("--memory", text, ", or auto");
  };
  return app
      .add_option_function<std::string>(
          "--memory", store,
          "What the process may take, cached weights included, such as 24GB or 16GiB; what does "
          "not "
          "fit stays in the files. auto is what is free less a tenth, at most 4 GiB")
      ->type_name("BYTES")
      ->default_str("auto");
}

void refuse_together(bool first_given, const char* first, bool second_given, const char* second) {
  if (!first_given || !second_given) return;
  fail(ErrorCode::kUsage, "{} has no effect with {}; leave one out", first, second);
}

}  // namespace baltoro::cli
