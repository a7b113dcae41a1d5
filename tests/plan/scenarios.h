// Scenarios that several tests start from.
#pragma once

#include <string_view>

#include "plan/step.h"

namespace baltoro::plan {

inline Scenario scenario_of(std::string_view model, std::string_view hardware,
                            std::string_view layout) {
  Scenario scenario;
  scenario.model = preset_model(model);
  scenario.hardware = preset_hardware(hardware).hardware;
  scenario.layout = parse_layout(layout);
  return scenario;
}

}  // namespace baltoro::plan
