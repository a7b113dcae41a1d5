// Which preset of plan/hardware.h a device is.
#pragma once

#include <optional>
#include <string_view>

#include "plan/hardware.h"

namespace baltoro::plan {

// That of a device that calls itself so: "NVIDIA H200", "NVIDIA A100-SXM4-80GB". Nothing for others,
// and for variants with other memory ("NVIDIA H100 PCIe").
std::optional<Hardware> preset_of_device(std::string_view name);

}  // namespace baltoro::plan
