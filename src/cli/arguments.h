// Options of the command line whose errors name the option, the value and the rule.
#pragma once

#include <CLI/App.hpp>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace baltoro::cli {

// Least and largest value of an option with whole numbers.
template <typename T>
struct Range {
  T min = 0;
  T max = std::numeric_limits<T>::max();
};

// The number that `text` is, of int, std::int64_t or std::uint64_t. Throws Error{kUsage} that
// begins with `name`: "--threads is 5000; it must be at most 1024".
template <typename T>
T parse_whole(const std::string& name, const std::string& text, Range<T> range);
// Finite or not; a value that a float cannot tell from 0 is an error.
float parse_real(const std::string& name, const std::string& text);

// Bytes of "24GB" (powers of 1000), "16GiB" (powers of 1024) or a plain number. Throws Error{kUsage}
// that begins with `name`.
std::uint64_t parse_bytes(const std::string& name, const std::string& text, const char* other = "");

// "--max-tokens" of "-n,--max-tokens".
std::string long_name(const std::string& flags);

// The words between the commas: "1,2" gives two, "" one that is empty.
std::vector<std::string> split_list(const std::string& text);

// An option with a number, of float or a type of parse_whole; `target` may be an optional of it.
template <typename T>
CLI::Option* add_number(CLI::App& app, const std::string& flags, std::optional<T>& target,
                        const std::string& description, Range<T> range = {}) {
  const auto store = [&target, range, name = long_name(flags)](const std::string& text) {
    if constexpr (std::is_floating_point_v<T>) {
      target = parse_real(name, text);
    } else {
      target = parse_whole<T>(name, text, range);
    }
  };
  const char* const type = std::is_floating_point_v<T> ? "FLOAT"
                           : std::is_signed_v<T>       ? "INT"
                                                       : "UINT";
  return app.add_option_function<std::string>(flags, store, description)->type_name(type);
}
// The help shows what `target` holds as the default.
template <std::integral T>
CLI::Option* add_number(CLI::App& app, const std::string& flags, T& target,
                        const std::string& description, Range<T> range = {}) {
  const auto store = [&target, range, name = long_name(flags)](const std::string& text) {
    target = parse_whole<T>(name, text, range);
  };
  return app.add_option_function<std::string>(flags, store, description)
      ->type_name(std::is_signed_v<T> ? "INT" : "UINT")
      ->default_str(std::to_string(target));
}

// Throws Error{kUsage} where a word of a list, the i-th from 0 on, is empty.
void check_item(const std::string& name, const std::string& list, const std::string& word,
                std::size_t i);

// An option with numbers, "1,2,4"; the help shows what `target` holds as the default.
template <std::integral T>
CLI::Option* add_numbers(CLI::App& app, const std::string& flags, std::vector<T>& target,
                         const std::string& description, Range<T> range = {}) {
  const auto store = [&target, range, name = long_name(flags)](const std::string& text) {
    target.clear();
    const std::vector<std::string> words = split_list(text);
    for (std::size_t i = 0; i < words.size(); ++i) {
      check_item(name, text, words[i], i);
      target.push_back(parse_whole<T>(name, words[i], range));
    }
  };
  std::string initial;
  for (const T value : target) initial += (initial.empty() ? "" : ",") + std::to_string(value);
  return app.add_option_function<std::string>(flags, store, description)
      ->type_name("INT,...")
      ->default_str(initial);
}

// An option with text, which may be empty.
CLI::Option* add_text(CLI::App& app, const std::string& flags, std::optional<std::string>& target,
                      const std::string& description);

// For CLI::Option::check: what is wrong with an empty text.
std::string not_empty(const std::string& text);

// An option with one of a few words; the help shows what `target` holds as the default.
CLI::Option* add_choice(CLI::App& app, const std::string& flags, std::string& target,
                        const std::vector<std::string>& choices, const std::string& description);

// Options that several commands have: --isa, --activations, --latent-norm-eps.
void add_isa(CLI::App& app, std::string& target);
void add_activations(CLI::App& app, std::string& target);
void add_latent_norm_eps(CLI::App& app, std::optional<float>& target);

// --memory, which several commands have; absent for auto.
CLI::Option* add_memory(CLI::App& app, std::optional<std::uint64_t>& target);
// --device-memory, the same of a GPU.
CLI::Option* add_device_memory(CLI::App& app, std::optional<std::uint64_t>& target);

// Throws Error{kUsage} "`first` has no effect with `second`; leave one out" where both are given.
void refuse_together(bool first_given, const char* first, bool second_given, const char* second);

}  // namespace baltoro::cli
