// `baltoro score`: the loss of a model on files.
#include "measure/score.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/format.h"
#include "cli/id_list.h"
#include "cli/model_options.h"
#include "core/error.h"

namespace baltoro::cli {
namespace {

using nlohmann::ordered_json;

struct ScoreCommand {
  ModelOptions model;
  std::vector<std::string> files;
  std::string format = "text";
  std::string separator;
  std::int64_t context = 1024;
  std::optional<std::int64_t> stride;
  bool json = false;
};

struct Documents {
  std::vector<std::vector<TokenId>> documents;
  std::uint64_t bytes = 0;  // of text, separators not counted
  std::int64_t tokens = 0;
};

struct FileScore {
  std::string name;
  Score score;
  std::uint64_t bytes = 0;
  std::size_t documents = 0;

  double nats_per_token() const { return score.nats / static_cast<double>(score.predicted); }
  double bits_per_byte() const {
    return score.nats / std::numbers::ln2 / static_cast<double>(bytes);
  }
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
std::vector<TokenId> tokens_of(const ScoreCommand& command, const std::string& path,
                               const Tokenizer* tokenizer, std::optional<TokenId> separator) {
  const std::string text = read_text(path);
  if (command.format == "u16") return read_u16(text, path);
  if (command.format == "ids") return parse_ids(text, path);
  std::vector<TokenId> ids;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = text.size();
    if (separator) end = std::min(text.find(command.separator, begin), text.size());
    const std::vector<TokenId> part =
        tokenizer->encode(std::string_view(text).substr(begin, end - begin));
    ids.insert(ids.end(), part.begin(), part.end());
    if (end < text.size()) ids.push_back(*separator);
    begin = end + (end < text.size() ? command.separator.size() : 0);
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

std::optional<TokenId> separator_id(const ScoreCommand& command, const OpenModel& model) {
  if (command.separator.empty()) return std::nullopt;
  const std::optional<TokenId> id =
      model.require_tokenizer("--separator").special_id(command.separator);
  if (!id) {
    fail(ErrorCode::kUsage, "--separator \"{}\" is no special token of this model",
         command.separator);
  }
  return id;
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

std::string line(const FileScore& file) {
  const std::string bits =
      file.bytes > 0 ? fmt::format("{:.4f} bits/byte", file.bits_per_byte()) : std::string("-");
  return fmt::format("{}: {}, {}, {:.4f} nats/token, {}\n", file.name,
                     counted(file.documents, "document"),
                     counted(static_cast<std::uint64_t>(file.score.predicted), "token"),
                     file.nats_per_token(), bits);
}

FileScore score_file(const ScoreCommand& command, const std::string& path, const OpenModel& model) {
  const std::optional<TokenId> separator = separator_id(command, model);
  if (command.format == "text") model.require_tokenizer("a text file");
  const Tokenizer* tokenizer = model.tokenizer ? &*model.tokenizer : nullptr;
  const Documents input =
      split(tokens_of(command, path, tokenizer, separator), tokenizer, separator);
  const ScoreOptions options{
      .context = command.context,
      .stride = command.stride.value_or(std::max<std::int64_t>(1, command.context / 2))};
  ProgressBar bar(path, command.model.progress ? ProgressMode::kAlways : ProgressMode::kAuto,
                  ProgressUnit::kTokens);
  FileScore result{
      .name = path, .score = {}, .bytes = input.bytes, .documents = input.documents.size()};
  for (const std::vector<TokenId>& document : input.documents) {
    result.score += score_document(*model.engine, document, options, [&](std::int64_t done) {
      bar.update(static_cast<std::uint64_t>(result.score.predicted + done),
                 static_cast<std::uint64_t>(input.tokens));
    });
  }
  if (result.score.predicted == 0) {
    fail(ErrorCode::kUsage, "{}: no document has two tokens, so there is nothing to predict", path);
  }
  return result;
}

int run(const ScoreCommand& command) {
  const OpenModel model = open_model(command.model);
  std::vector<FileScore> files;
  FileScore total{.name = "total", .score = {}, .bytes = 0, .documents = 0};
  for (const std::string& path : command.files) {
    files.push_back(score_file(command, path, model));
    total.score += files.back().score;
    total.bytes += files.back().bytes;
    total.documents += files.back().documents;
    if (!command.json) fmt::print("{}", line(files.back()));
  }
  if (command.json) {
    ordered_json list = ordered_json::array();
    for (const FileScore& file : files) list.push_back(to_json(file));
    print_json({{"files", list}, {"total", to_json(total)}});
  } else if (files.size() > 1) {
    fmt::print("{}", line(total));
  }
  return kOk;
}

}  // namespace

Command add_score(CLI::App& root) {
  auto command = std::make_shared<ScoreCommand>();
  CLI::App* app =
      root.add_subcommand("score", "Loss of a model on files: nats/token and bits/byte");
  add_model_options(*app, command->model);
  app->add_option("FILE", command->files, "Text or ids; - is standard input")->required();
  add_choice(*app, "--format", command->format, {"text", "ids", "u16"},
             "text, ids (numbers) or u16 (16-bit little endian)");
  app->add_option("--separator", command->separator,
                  "Special token that ends a document; nothing is read across it");
  add_number(*app, "--context", command->context, "Tokens that one window reads", {.min = 1});
  add_number(*app, "--stride", command->stride,
             "Distance between windows; default: half the context. Each prediction after the\n"
             "first window has at least context - stride tokens before it",
             {.min = 1});
  app->add_flag("--json", command->json, "Print one JSON document");
  app->footer(
      "Examples:\n"
      "  baltoro score models/story book.txt\n"
      "  baltoro score models/story --format u16 --separator [EOS] held-out.u16 --json\n"
      "The first token of a document is not predicted; its bytes count in bits/byte.");
  return {app, [command] { return run(*command); }};
}

}  // namespace baltoro::cli
