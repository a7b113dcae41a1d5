#include "serve/server_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <ctime>
#include <fstream>

#include "baltoro/version.h"

namespace baltoro::serve {
namespace {

// Bytes of memory in use; 0 where /proc is not there.
double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  double total = 0;
  double resident = 0;
  file >> total >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void put_process(MetricsText& out) {
  out.gauge("process_resident_memory_bytes", resident_bytes(), "Memory of the process.");
  out.counter("process_cpu_seconds_total", cpu_seconds(), "Processor time of all threads.");
}

void put_scheduler(MetricsText& out, const SchedulerStats& s) {
  const auto real = [](auto count) { return static_cast<double>(count); };
  out.gauge("baltoro_choices_running", real(s.running), "Choices in the batch.");
  out.gauge("baltoro_requests_waiting", real(s.waiting), "Requests in the queue.");
  out.counter("baltoro_requests_accepted_total", real(s.accepted), "Requests put into the queue.");
  out.counter("baltoro_requests_refused_total", real(s.refused), "Requests that found no place.");
  out.head("baltoro_choices_ended_total", "counter", "Choices by their end.");
  out.sample(real(s.finished), {{"end", "finished"}});
  out.sample(real(s.cancelled), {{"end", "cancelled"}});
  out.sample(real(s.timed_out), {{"end", "timed_out"}});
  out.sample(real(s.failed), {{"end", "failed"}});
  out.counter("baltoro_steps_total", real(s.steps), "Passes over the batch.");
  out.counter("baltoro_step_seconds_total", s.step_seconds, "Time in steps.");
  out.counter("baltoro_forward_seconds_total", s.forward_seconds, "Of it in the model.");
  out.counter("baltoro_prompt_tokens_total", real(s.prompt_tokens), "Tokens of prompts read.");
  out.counter("baltoro_reused_tokens_total", real(s.reused_tokens),
              "Tokens of prompts that were not read again.");
  out.counter("baltoro_generated_tokens_total", real(s.generated_tokens), "Tokens made.");
  out.counter("baltoro_prefix_hits_total", real(s.prefix_hits),
              "Requests that went on from a kept state.");
  out.counter("baltoro_prefix_misses_total", real(s.prefix_misses), "Requests that found none.");
  out.counter("baltoro_prefix_evictions_total", real(s.prefix_evictions), "States given up.");
  out.gauge("baltoro_prefix_entries", real(s.prefix_entries), "States kept.");
  out.gauge("baltoro_prefix_bytes", real(s.prefix_bytes), "Memory of what is kept for prompts.");
}

}  // namespace

ServerMetrics::ServerMetrics()
    : request_seconds_({0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500}),
      first_token_({0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100}),
      between_tokens_({0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5}) {}

void ServerMetrics::count_request(const std::string& route, int status, double seconds) {
  request_seconds_.observe(seconds);
  const std::lock_guard lock(mutex_);
  ++requests_[{route, status}];
}

std::string ServerMetrics::text(std::size_t num_connections,
                                const std::optional<SchedulerStats>& scheduler) const {
  MetricsText out;
  out.head("baltoro_info", "gauge", "The program.");
  out.sample(1, {{"version", version()}});
  out.gauge("baltoro_ready", scheduler ? 1 : 0, "1 when the model is loaded.");
  out.gauge("baltoro_http_connections", static_cast<double>(num_connections), "Open connections.");
  out.gauge("baltoro_http_requests_in_flight", static_cast<double>(in_flight_.load()),
            "Requests whose answer is not complete.");
  out.head("baltoro_http_requests_total", "counter",
           "Answers by route and status; 499 where the client went before the end.");
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, count] : requests_) {
      out.sample(static_cast<double>(count),
                 {{"route", key.first}, {"status", std::to_string(key.second)}});
    }
  }
  out.head("baltoro_http_request_seconds", "histogram",
           "From the request to the end of its answer.");
  out.samples(request_seconds_);
  out.head("baltoro_time_to_first_token_seconds", "histogram",
           "From the request to the first token of an answer.");
  out.samples(first_token_);
  out.head("baltoro_time_between_tokens_seconds", "histogram", "Between tokens of one choice.");
  out.samples(between_tokens_);
  if (scheduler) put_scheduler(out, *scheduler);
  put_process(out);
  return out.text();
}

}  // namespace baltoro::serve
