// Requests in a file, one JSON object a line, answered one JSON object a line.
#pragma once

#include <string>

#include "cli/model_options.h"
#include "cli/sampling_options.h"

namespace baltoro::cli {

// `path` may be "-". `flags` hold for requests that do not say otherwise; without a temperature
// there or in the request the answer is greedy. A request that fails gives {"id", "error"} and the
// rest is answered; returns the exit status, kFailed where one failed. Throws Error{kIo}.
int answer_requests(const OpenModel& model, const std::string& model_dir, const std::string& path,
                    const SamplingOptions& flags);

}  // namespace baltoro::cli
