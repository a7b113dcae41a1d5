#include "cli/score_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "cli/arguments.h"
#include "cli/format.h"
#include "cli/id_list.h"
#include "core/error.h"

namespace baltoro::cli {
namespace {

using nlohmann::ordered_json;

struct Documents {
  std::vector<std::vector<TokenId>> documents;
  std::uint64_t bytes = 0;  // of text, separators not counted
  std::int64_t tokens = 0;
};

std::vector<TokenId> read_u16(const std::string& bytes, const std::string& path) {
  if (bytes.size() % 2 != 0) {
    fail(ErrorCode::kUsage, "{}: {} bytes are no list of 16-bit ids", path, bytes.size());
  }
  std::vector<TokenId> ids(bytes.size() / 2);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::uint16_t id = 0;
    std::memcpy(&id, bytes.data() + 2 * i, 2);
    ids[i] = id;
  }
  return ids;
}

// The tokens of a file; each separator string becomes its id.
std::vector<TokenId> tokens_of(const ScoreInput& input, const std::string& path,
                               const Tokenizer* tokenizer, std::optional<TokenId> separator) {
  const std::string text = read_text(path);
  if (input.format == "u16") return read_u16(text, path);
  if (input.format == "ids") return parse_ids(text, path);
  std::vector<TokenId> ids;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = text.size();
    if (separator) end = std::min(text.find(input.separator, begin), text.size());
    const std::vector<TokenId> part =
        tokenizer->encode(std::string_view(text).substr(begin, end - begin));
    ids.insert(ids.end(), part.begin(), part.end());
    if (end < text.size()) ids.push_back(*separator);
    begin = end + (end < text.size() ? input.separator.size() : 0);
  }
  return ids;
}

// Cuts after each separator, which the document before it must predict.
Documents split(const std::vector<TokenId>& ids, const Tokenizer* tokenizer,
                std::optional<TokenId> separator) {
  Documents out;
  out.tokens = static_cast<std::int64_t>(ids.size());
  std::vector<TokenId> document;
  const auto finish = [&] {
    if (!document.empty()) out.documents.push_back(std::exchange(document, {}));
  };
  for (TokenId id : ids) {
    document.push_back(id);
    if (id == separator) {
      finish();
    } else if (tokenizer != nullptr) {
      out.bytes += tokenizer->token_bytes(id).size();
    }
  }
  finish();
  return out;
}

std::optional<TokenId> separator_id(const ScoreInput& input, const OpenModel& model) {
  if (input.separator.empty()) return std::nullopt;
  const std::optional<TokenId> id =
      model.require_tokenizer("--separator").special_id(input.separator);
  if (!id) {
    fail(ErrorCode::kUsage, "--separator \"{}\" is no special token of this model",
         input.separator);
  }
  return id;
}

}  // namespace

void add_score_options(CLI::App& app, ScoreInput& input) {
  add_choice(app, "--format", input.format, {"text", "ids", "u16"},
             "text, ids (numbers) or u16 (16-bit little endian)");
  app.add_option("--separator", input.separator,
                 "Special token that ends a document; nothing is read across it");
  add_number(app, "--context", input.context, "Tokens that one window reads", {.min = 1});
  add_number(app, "--stride", input.stride,
             "Distance between windows; default: half the context. Each prediction after the\n"
             "first window has at least context - stride tokens before it",
             {.min = 1});
}

FileScore score_file(const ScoreInput& input, const std::string& path, const OpenModel& model,
                     ProgressMode progress) {
  const std::optional<TokenId> separator = separator_id(input, model);
  if (input.format == "text") model.require_tokenizer("a text file");
  const Tokenizer* tokenizer = model.tokenizer ? &*model.tokenizer : nullptr;
  const Documents documents =
      split(tokens_of(input, path, tokenizer, separator), tokenizer, separator);
  const ScoreOptions options{
      .context = input.context,
      .stride = input.stride.value_or(std::max<std::int64_t>(1, input.context / 2))};
  ProgressBar bar(path, progress, ProgressUnit::kTokens);
  FileScore result{
      .name = path, .score = {}, .bytes = documents.bytes, .documents = documents.documents.size()};
  for (const std::vector<TokenId>& document : documents.documents) {
    result.score += score_document(*model.engine, document, options, [&](std::int64_t done) {
      bar.update(static_cast<std::uint64_t>(result.score.predicted + done),
                 static_cast<std::uint64_t>(documents.tokens));
    });
  }
  if (result.score.predicted == 0) {
    fail(ErrorCode::kUsage, "{}: no document has two tokens, so there is nothing to predict", path);
  }
  return result;
}

ordered_json to_json(const FileScore& file) {
  ordered_json json = {{"file", file.name},
                       {"documents", file.documents},
                       {"predicted_tokens", file.score.predicted},
                       {"nats", file.score.nats},
                       {"nats_per_token", file.nats_per_token()},
                       {"bytes", file.bytes}};
  if (file.bytes > 0) json["bits_per_byte"] = file.bits_per_byte();
  return json;
}

std::string score_line(const FileScore& file) {
  const std::string bits =
      file.bytes > 0 ? fmt::format("{:.4f} bits/byte", file.bits_per_byte()) : std::string("-");
  return fmt::format("{}: {}, {}, {:.4f} nats/token, {}", file.name,
                     counted(file.documents, "document"),
                     counted(static_cast<std::uint64_t>(file.score.predicted), "token"),
                     file.nats_per_token(), bits);
}

}  // namespace baltoro::cli
