// Call ids of the K2 format: functions.NAME:K. The model copies what it sees, and the name of a
// tool stands nowhere else, so ids of another form are renamed before they are shown.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "baltoro/chat.h"

namespace baltoro {

// Whether the id is "functions.", anything, ":" and digits.
bool is_k2_call_id(std::string_view id);

// Follows a conversation from its start and gives each call and each result the id to show. K
// counts the calls of the whole conversation, from 0.
class K2CallIds {
 public:
  // For the next call. One thread at a time.
  std::string of_call(const ToolCall& call);

  // For the next result: that of the call it names, the one closest before it where several have
  // the id; without an id, of the first call that is unanswered. An id that no call has is shown
  // as it is. Empty if there is no id and no unanswered call.
  std::string of_result(const Message& result);

  // All ids so far, those that were given and those that were shown.
  std::set<std::string> all() const;

 private:
  struct Shown {
    std::string given;
    std::string shown;
    bool answered = false;
  };

  Shown* find(const std::string& given);

  std::vector<Shown> calls_;
};

}  // namespace baltoro
