#include "text/k2_call_ids.h"

#include <fmt/format.h>

#include <algorithm>

namespace baltoro {

bool is_k2_call_id(std::string_view id) {
  if (!id.starts_with("functions.")) return false;
  const std::size_t last = id.find_last_not_of("0123456789");
  return last + 1 < id.size() && id[last] == ':';
}

std::string K2CallIds::of_call(const ToolCall& call) {
  const std::string shown =
      is_k2_call_id(call.id) ? call.id : fmt::format("functions.{}:{}", call.name, calls_.size());
  calls_.push_back({call.id, shown});
  return shown;
}

K2CallIds::Shown* K2CallIds::find(const std::string& given) {
  if (given.empty()) {
    const auto open =
        std::find_if(calls_.begin(), calls_.end(), [](const Shown& c) { return !c.answered; });
    return open == calls_.end() ? nullptr : &*open;
  }
  const auto named = [&](const Shown& call) { return call.given == given; };
  // Clients may number the calls of each turn anew, or give calls of one turn the same id: the
  // answer belongs to the latest turn, in the order of the calls.
  Shown* best = nullptr;
  for (auto call = calls_.rbegin(); call != calls_.rend(); ++call) {
    if (!named(*call)) continue;
    if (best != nullptr && call->answered) break;
    best = &*call;
  }
  return best;
}

std::string K2CallIds::of_result(const Message& result) {
  Shown* call = find(result.tool_call_id);
  if (call == nullptr) return result.tool_call_id;
  call->answered = true;
  return call->shown;
}

std::set<std::string> K2CallIds::all() const {
  std::set<std::string> ids;
  for (const Shown& call : calls_) ids.insert({call.given, call.shown});
  return ids;
}

}  // namespace baltoro
