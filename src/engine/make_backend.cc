#include "engine/make_backend.h"

#include <charconv>
#include <optional>
#include <string_view>

#include "core/error.h"
#include "cpu/backend.h"
#include "cuda/backend.h"
#include "ops/reference/reference_backend.h"

namespace baltoro {
namespace {

// N of "cuda:N", 0 for "cuda"; nothing for any other text.
std::optional<int> cuda_index(std::string_view device) {
  if (device == "cuda") return 0;
  constexpr std::string_view kPrefix = "cuda:";
  if (!device.starts_with(kPrefix)) return std::nullopt;
  device.remove_prefix(kPrefix.size());
  int index = 0;
  const auto [end, error] = std::from_chars(device.begin(), device.end(), index);
  if (error != std::errc() || end != device.end() || index < 0) return std::nullopt;
  return index;
}

}  // namespace

std::unique_ptr<Backend> make_host_backend(const EngineOptions& options) {
  return make_cpu_backend(
      {.activations = options.activations, .num_threads = options.num_threads, .isa = options.isa});
}

std::unique_ptr<Backend> make_backend(const EngineOptions& options) {
  if (options.device == "cpu") return make_host_backend(options);
  if (options.device == "reference") return make_reference_backend(options.activations);
  if (const auto index = cuda_index(options.device)) {
    return make_cuda_backend({.device = *index,
                              .activations = options.activations,
                              .deterministic = options.deterministic});
  }
  fail(ErrorCode::kUsage, "device \"{}\" is unknown; use cpu, cuda, cuda:N or reference",
       options.device);
}

}  // namespace baltoro
