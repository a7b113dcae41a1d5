#include "engine/request_queue.h"

#include <algorithm>
#include <utility>

namespace baltoro {

void RequestQueue::push(std::unique_ptr<Job> job) {
  const std::string client = job->request.client;
  auto& jobs = waiting_[client];
  if (jobs.empty()) turns_.push_back(client);
  jobs.push_back(std::move(job));
  ++size_;
}

void RequestQueue::forget(const std::string& client) {
  waiting_.erase(client);
  turns_.erase(std::ranges::find(turns_, client));
}

std::unique_ptr<Job> RequestQueue::take(const std::function<Verdict(Job&)>& ask) {
  for (std::size_t turn = 0; turn < turns_.size(); ++turn) {
    const std::string client = turns_[turn];
    auto& jobs = waiting_.at(client);
    const Verdict verdict = ask(*jobs.front());
    if (verdict == Verdict::kWait) return nullptr;
    if (verdict == Verdict::kSkip) continue;
    std::unique_ptr<Job> job = std::move(jobs.front());
    jobs.pop_front();
    --size_;
    if (jobs.empty()) {
      forget(client);
    } else {
      turns_.erase(turns_.begin() + static_cast<std::ptrdiff_t>(turn));
      turns_.push_back(client);
    }
    return job;
  }
  return nullptr;
}

std::vector<std::unique_ptr<Job>> RequestQueue::take_all(
    const std::function<bool(const Job&)>& condition) {
  std::vector<std::unique_ptr<Job>> taken;
  std::vector<std::string> empty;
  for (auto& [client, jobs] : waiting_) {
    std::deque<std::unique_ptr<Job>> kept;
    for (auto& job : jobs) {
      auto& target = condition(*job) ? taken.emplace_back() : kept.emplace_back();
      target = std::move(job);
    }
    jobs = std::move(kept);
    if (jobs.empty()) empty.push_back(client);
  }
  for (const std::string& client : empty) forget(client);
  size_ -= taken.size();
  return taken;
}

}  // namespace baltoro
