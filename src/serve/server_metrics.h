// What /metrics tells: requests, tokens and times as the server saw them, the scheduler's counters,
// and the process.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "baltoro/scheduler.h"
#include "serve/metrics_text.h"

namespace baltoro::serve {

// Any thread.
class ServerMetrics {
 public:
  ServerMetrics();

  // Of an answer, or of a request that was refused. `route` is one of a few words.
  void count_request(const std::string& route, int status, double seconds);
  void first_token(double seconds) { first_token_.observe(seconds); }
  void between_tokens(double seconds) { between_tokens_.observe(seconds); }
  std::atomic<std::int64_t>& in_flight() { return in_flight_; }

  // `scheduler` is absent as long as the model is loading.
  std::string text(std::size_t num_connections,
                   const std::optional<SchedulerStats>& scheduler) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, std::uint64_t> requests_;
  std::atomic<std::int64_t> in_flight_ = 0;
  Histogram request_seconds_;
  Histogram first_token_;
  Histogram between_tokens_;
};

}  // namespace baltoro::serve
