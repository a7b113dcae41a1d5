#include "text/xtml_arguments.h"

#include "text/chat_space.h"
#include "text/json_print.h"
#include "text/json_value.h"

namespace baltoro {

void XtmlArguments::begin_argument(std::string_view key, std::string_view type) {
  answer_.arguments(any_argument_ ? ", " : "{");
  answer_.arguments(quote_json(key) + ": ");
  any_argument_ = true;
  streams_ = type.empty() || type == "string";
  held_.clear();
  if (streams_) answer_.arguments("\"");
}

void XtmlArguments::value(std::string_view text) {
  if (streams_) {
    answer_.arguments(escape_json(text));
  } else {
    held_ += text;
  }
}

void XtmlArguments::end_argument() {
  if (streams_) {
    answer_.arguments("\"");
  } else {
    answer_.arguments(is_json(held_) ? std::string(trim_space(held_)) : quote_json(held_));
  }
}

void XtmlArguments::begin_json() { ++num_json_; }

void XtmlArguments::json(std::string_view text) { json_ += text; }

void XtmlArguments::stray(std::string_view text) { any_stray_ |= !trim_space(text).empty(); }

void XtmlArguments::finish() {
  if (any_argument_) {
    answer_.arguments("}");
    return;
  }
  const bool whole_body = num_json_ == 1 && !any_stray_ && !trim_space(json_).empty();
  answer_.arguments(whole_body ? std::string_view(json_) : std::string_view("{}"));
}

}  // namespace baltoro
