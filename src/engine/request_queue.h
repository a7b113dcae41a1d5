// Who comes next: clients take turns, the requests of one client come in their order.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/job.h"

namespace baltoro {

// Not thread safe.
class RequestQueue {
 public:
  enum class Verdict {
    kTake,
    kSkip,  // not now; others may come first
    kWait,  // not now, and nobody overtakes it
  };

  void push(std::unique_ptr<Job> job);
  // Asks about the first request of each client in turn; null where none is taken.
  std::unique_ptr<Job> take(const std::function<Verdict(Job&)>& ask);
  // Takes out all for which `condition` holds.
  std::vector<std::unique_ptr<Job>> take_all(const std::function<bool(const Job&)>& condition);

  std::size_t size() const noexcept { return size_; }

 private:
  void forget(const std::string& client);

  std::map<std::string, std::deque<std::unique_ptr<Job>>> waiting_;  // no empty ones
  std::deque<std::string> turns_;                                    // its keys
  std::size_t size_ = 0;
};

}  // namespace baltoro
