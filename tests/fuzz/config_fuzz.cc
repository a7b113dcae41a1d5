// config.json and generation_config.json of any bytes: a configuration that holds together, or a
// typed error.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "baltoro/error.h"
#include "model/config.h"
#include "model/model_stats.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    baltoro::parse_generation_config(text, "generation_config.json");
  } catch (const baltoro::Error& error) {
    if (error.code() != baltoro::ErrorCode::kBadModel) std::abort();
  }
  try {
    const baltoro::ModelConfig config = baltoro::parse_config(text, "config.json");
    if (static_cast<std::int64_t>(config.layers.size()) != config.num_layers) std::abort();
    const baltoro::ModelStats stats = baltoro::compute_model_stats(config);
    if (stats.text_parameters <= 0 || stats.active_parameters > stats.text_parameters) std::abort();
  } catch (const baltoro::Error& error) {
    if (error.code() != baltoro::ErrorCode::kBadModel &&
        error.code() != baltoro::ErrorCode::kUnsupported) {
      std::abort();
    }
  }
  return 0;
}
