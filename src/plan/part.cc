#include "plan/part.h"

#include "plan/key_value.h"

namespace baltoro::plan {
namespace {

constexpr std::array<const char*, kNumParts> kNames = {
    "embed",  "kda-proj", "kda-state", "attn-proj", "attn-core", "mix",      "router",
    "latent", "routed",   "shared",    "dense",     "head",      "pipeline", "launch"};

}  // namespace

const char* part_name(Part part) { return kNames[index_of(part)]; }

Part parse_part(std::string_view name) {
  for (const Part part : kAllParts) {
    if (name == part_name(part)) return part;
  }
  fail_unknown("--explain ", name, "component", {kNames.begin(), kNames.end()});
}

Format part_format(const Formats& formats, Part part) {
  switch (part) {
    case Part::kEmbed:
      return formats.embed;
    case Part::kRouter:
      return formats.router;
    case Part::kLatent:
      return formats.latent;
    case Part::kRouted:
      return formats.routed;
    case Part::kShared:
      return formats.shared;
    case Part::kDense:
      return formats.dense;
    case Part::kHead:
      return formats.head;
    default:
      return formats.attn;
  }
}

}  // namespace baltoro::plan
