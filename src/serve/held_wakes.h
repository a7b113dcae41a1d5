// Many answers that grow at once, and one wake of the thread that sends them.
#pragma once

#include <memory>
#include <vector>

namespace baltoro::serve {

class HttpConnection;
class Wakes;

// While it lives, what its thread writes to the replies of one server stays where it is; then the
// server's thread is woken once for all of it. Otherwise it would be woken for each write, and on a
// machine with one core take it from the writer each time. One at a time on a thread.
class HeldWakes {
 public:
  HeldWakes();
  ~HeldWakes();
  HeldWakes(const HeldWakes&) = delete;
  HeldWakes& operator=(const HeldWakes&) = delete;

 private:
  friend class Wakes;
  std::shared_ptr<Wakes> wakes_;  // of the first that wrote
  std::vector<std::weak_ptr<HttpConnection>> connections_;
};

}  // namespace baltoro::serve
