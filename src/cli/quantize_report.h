// What `quantize` prints: the plan before, and sizes and errors after.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "model/quantize.h"

namespace baltoro::cli {

// One line on the way that the bytes will go.
void print_plan(const Quantizer& quantizer, const std::string& src, const std::string& dst);
nlohmann::ordered_json plan_json(const Quantizer& quantizer);

// One line for each part of the model and format, with the worst tensor, then the total.
void print_report(const QuantizePlan& plan, const QuantizeReport& report);
// All tensors that were quantised, each with its errors, and the same sums.
nlohmann::ordered_json report_json(const QuantizeReport& report);

}  // namespace baltoro::cli
