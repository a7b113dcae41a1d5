#include "serve/api/model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "baltoro/generate.h"
#include "serve/api/errors.h"

namespace baltoro::serve {

void Model::require_name(std::string_view name) const {
  if (std::ranges::find(names, name) != names.end()) return;
  throw RequestError({.status = 404,
                      .message = fmt::format("model: there is no model \"{}\"; this server has {}",
                                             name, fmt::join(names, ", ")),
                      .param = "model",
                      .code = "model_not_found"});
}

const ChatFormat& Model::require_format() const {
  if (format) return *format;
  throw RequestError({.status = 400,
                      .message = fmt::format("the model {} has no chat format that baltoro knows; "
                                             "use /v1/completions",
                                             name()),
                      .code = "unsupported_value"});
}

Model serve_model(Scheduler& scheduler, Tokenizer tokenizer, std::optional<ChatFormat> format,
                  const ModelOptions& options) {
  const EngineInfo& info = scheduler.engine().info();
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::vector<TokenId> banned = unusable_ids(tokenizer, info.vocab_size);
  return {
      .names = options.names,
      .tokenizer = std::move(tokenizer),
      .format = std::move(format),
      .generation = info.generation,
      .created = std::chrono::duration_cast<std::chrono::seconds>(now).count(),
      .vocab_size = info.vocab_size,
      .max_context = info.max_positions.value_or(std::numeric_limits<std::int64_t>::max() / 2),
      .default_max_tokens = options.default_max_tokens,
      .timeout = options.timeout,
      .fingerprint = fmt::format("fp_{:016x}", info.fingerprint),
      .banned = std::move(banned),
      .submit =
          [&scheduler](GenerationRequest request) { return scheduler.submit(std::move(request)); },
      .remember =
          [&scheduler](const std::shared_ptr<Ticket>& ticket, int choice,
                       std::vector<TokenId> ids) {
            scheduler.remember(ticket, choice, std::move(ids));
          },
  };
}

}  // namespace baltoro::serve
