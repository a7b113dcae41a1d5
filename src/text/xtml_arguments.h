// The arguments of one XTML call, written as JSON text while they arrive.
#pragma once

#include <string>
#include <string_view>

#include "text/chat_output.h"

namespace baltoro {

// Values of type string (or of none) stream; others wait until they are whole, since text that is
// no JSON becomes a string. Writes to the open call of `answer`, which must outlive it.
class XtmlArguments {
 public:
  explicit XtmlArguments(AnswerCollector& answer) : answer_(answer) {}

  void begin_argument(std::string_view key, std::string_view type);
  void value(std::string_view text);
  void end_argument();

  // A json block stands for all arguments, but only as the whole body of the call.
  void begin_json();
  void json(std::string_view text);
  // Text between the elements of the call.
  void stray(std::string_view text);

  // The call is complete.
  void finish();

 private:
  AnswerCollector& answer_;
  bool streams_ = false;  // the open argument is a string
  bool any_argument_ = false;
  int num_json_ = 0;
  bool any_stray_ = false;
  std::string held_;  // the open argument's value, if it does not stream
  std::string json_;
};

}  // namespace baltoro
