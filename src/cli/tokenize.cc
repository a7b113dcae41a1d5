// `baltoro tokenize`: text to pieces and ids, ids to text.
#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "baltoro/tokenizer.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/format.h"
#include "cli/id_list.h"
#include "core/error.h"

namespace baltoro::cli {
namespace {

using nlohmann::ordered_json;

struct TokenizeOptions {
  std::string dir;
  std::optional<std::string> text;
  std::optional<std::string> file;
  std::optional<std::string> decode;
  bool control = false;
  bool ids_only = false;
  bool json = false;
};

// The bytes of a token between quotes, what is not printable ASCII or UTF-8 as \xNN.
std::string quoted(std::string_view bytes) {
  const ordered_json text = std::string(bytes);
  try {
    return text.dump();
  } catch (const ordered_json::type_error&) {  // part of a character
    std::string out = "\"";
    for (const char c : bytes) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    return out + "\"";
  }
}

ordered_json pieces_json(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  ordered_json pieces = ordered_json::array();
  for (TokenId id : ids) pieces.push_back(quoted(tokenizer.token_bytes(id)));
  return pieces;
}

int decode(const TokenizeOptions& options, const Tokenizer& tokenizer) {
  const std::vector<TokenId> ids = parse_ids(*options.decode, "--decode");
  const std::string text = tokenizer.decode(ids);
  if (options.json) {
    print_json({{"ids", ids}, {"text", text}, {"pieces", pieces_json(tokenizer, ids)}});
  } else {
    fmt::print("{}\n", text);
  }
  return kOk;
}

int encode(const TokenizeOptions& options, const Tokenizer& tokenizer) {
  if (!options.text && !options.file && isatty(STDIN_FILENO) != 0) {
    fail(ErrorCode::kUsage, "no text: give TEXT, --file, --decode or text on standard input");
  }
  const std::string text = options.text ? *options.text : read_text(options.file.value_or("-"));
  const std::vector<TokenId> ids =
      options.control ? tokenizer.encode_control(text) : tokenizer.encode(text);
  if (options.json) {
    print_json({{"text", text}, {"ids", ids}, {"pieces", pieces_json(tokenizer, ids)}});
  } else if (options.ids_only) {
    for (std::size_t i = 0; i < ids.size(); ++i) fmt::print("{}{}", i > 0 ? "," : "", ids[i]);
    fmt::print("\n");
  } else {
    for (TokenId id : ids) fmt::print("{:>7}  {}\n", id, quoted(tokenizer.token_bytes(id)));
    fmt::print(stderr, "{}, {}\n", counted(ids.size(), "token"), counted(text.size(), "byte"));
  }
  return kOk;
}

void check_combination(const TokenizeOptions& options) {
  const bool decodes = options.decode.has_value();
  refuse_together(options.text.has_value(), "TEXT", options.file.has_value(), "--file");
  refuse_together(options.text.has_value(), "TEXT", decodes, "--decode");
  refuse_together(options.file.has_value(), "--file", decodes, "--decode");
  refuse_together(options.control, "--control", decodes, "--decode");
  refuse_together(options.ids_only, "--ids", decodes, "--decode");
  refuse_together(options.ids_only, "--ids", options.json, "--json");
}

int run(const TokenizeOptions& options) {
  check_combination(options);
  const Tokenizer tokenizer = Tokenizer::load(options.dir);
  return options.decode ? decode(options, tokenizer) : encode(options, tokenizer);
}

}  // namespace

Command add_tokenize(CLI::App& root) {
  auto options = std::make_shared<TokenizeOptions>();
  CLI::App* app = root.add_subcommand("tokenize", "Show how a text becomes tokens, or ids a text");
  app->add_option("MODEL", options->dir, "Directory with tiktoken.model and tokenizer_config.json")
      ->required();
  add_text(*app, "TEXT", options->text, "Text to encode; default: standard input");
  add_text(*app, "--file", options->file, "Read the text from a file, - is standard input");
  add_text(*app, "--decode", options->decode, "Ids to turn into text, 1,2,3");
  app->add_flag("--control", options->control,
                "Special strings become their ids; otherwise they are text like any other");
  app->add_flag("--ids", options->ids_only, "Print the ids alone, on one line");
  app->add_flag("--json", options->json, "Print one JSON document");
  app->footer(
      "Examples:\n"
      "  baltoro tokenize models/story \"Once upon a time\"\n"
      "  baltoro tokenize models/story --ids --control \"The end.[EOS]\"\n"
      "  baltoro tokenize models/story --decode 17,25,3");
  return {app, [options] { return run(*options); }};
}

}  // namespace baltoro::cli
