#include "plan/formats.h"

#include <array>
#include <utility>
#include <vector>

#include "plan/key_value.h"

namespace baltoro::plan {
namespace {

constexpr std::array kNames = {"f32", "bf16", "fp8", "int8", "mxint8", "mxfp4", "nvfp4", "int4"};
constexpr std::array kBytes = {
    4.0, 2.0, 1.0, 1.0, 1 + 1.0 / 32, 0.5 + 1.0 / 32, 0.5 + 1.0 / 16, 0.5 + 2.0 / 32};

using Field = Format Formats::*;
constexpr std::array<std::pair<const char*, Field>, 14> kFields = {{
    {"routed", &Formats::routed},
    {"attn", &Formats::attn},
    {"shared", &Formats::shared},
    {"dense", &Formats::dense},
    {"latent", &Formats::latent},
    {"router", &Formats::router},
    {"embed", &Formats::embed},
    {"head", &Formats::head},
    {"kv", &Formats::kv},
    {"state", &Formats::state},
    {"conv", &Formats::conv},
    {"activation", &Formats::activation},
    {"dispatch", &Formats::dispatch},
    {"combine", &Formats::combine},
}};
constexpr std::array<Field, 7> kMatrices = {&Formats::attn,   &Formats::shared, &Formats::dense,
                                            &Formats::latent, &Formats::router, &Formats::embed,
                                            &Formats::head};
constexpr const char* kAllMatrices = "weights";

}  // namespace

double format_bytes(Format format) { return kBytes[static_cast<std::size_t>(format)]; }

const char* format_name(Format format) { return kNames[static_cast<std::size_t>(format)]; }

Format parse_format(std::string_view key, std::string_view text) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (text == kNames[i]) return static_cast<Format>(i);
  }
  fail_unknown(fmt::format("--dtype {}=", key), text, "format", {kNames.begin(), kNames.end()});
}

void apply_formats(Formats& formats, std::string_view text) {
  std::vector<std::string> known;
  for (const auto& [name, field] : kFields) known.emplace_back(name);
  known.emplace_back(kAllMatrices);
  for (const auto& [key, value] : split_key_values("--dtype", text)) {
    const Format format = parse_format(key, value);
    bool found = key == kAllMatrices;
    if (found) {
      for (const Field field : kMatrices) formats.*field = format;
    }
    for (const auto& [name, field] : kFields) {
      if (key != name) continue;
      formats.*field = format;
      found = true;
    }
    if (!found) fail_unknown("--dtype ", key, "part", known);
  }
}

}  // namespace baltoro::plan
