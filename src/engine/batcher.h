// The batch of the scheduler: each step is one forward pass over all choices that generate and some
// rows of the prompts that are being read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "baltoro/engine.h"
#include "baltoro/scheduler.h"
#include "core/parallel.h"
#include "engine/job.h"
#include "engine/reuse.h"

namespace baltoro {

// One thread at a time.
class Batcher {
 public:
  // `options` with all of its limits set.
  Batcher(std::shared_ptr<Engine> engine, const SchedulerOptions& options);

  bool has_room(const Job& job) const;
  // Whether the job should wait for what another one is reading.
  bool should_wait(Job& job) const { return reuse_.should_wait(job, jobs_); }
  void admit(std::unique_ptr<Job> job);
  bool idle() const noexcept { return jobs_.empty(); }

  // Ends what was cancelled or is late and advances the others.
  void step();
  // Ends the open choices of a job, of this batch or waiting: gives back their state and counts
  // them.
  void end_job(Job& job, EndReason reason, const std::optional<Error>& error = std::nullopt);
  void end_all(EndReason reason, const std::optional<Error>& error = std::nullopt);

  void remember(const Ticket& ticket, std::size_t choice, std::span<const TokenId> as_rendered) {
    reuse_.remember(ticket, choice, as_rendered);
  }

  // The jobs without open choices, which leave the batch.
  std::vector<std::unique_ptr<Job>> take_finished();
  // A choice that has ended and whose consumer must be told.
  struct Ending {
    const Job* job = nullptr;
    std::size_t choice = 0;
  };
  std::vector<Ending> take_endings() { return std::exchange(endings_, {}); }

  // All but what concerns waiting requests.
  SchedulerStats stats() const;

 private:
  // What an item of the pass belongs to.
  struct Owner {
    Job* job = nullptr;
    std::optional<std::size_t> choice;  // absent: the job reads its prompt
  };

  // The next token of a choice.
  struct Drawing {
    Job* job = nullptr;
    std::size_t choice = 0;
    std::optional<Choice> drawn = std::nullopt;  // absent: to be chosen from the logits
    std::optional<Error> error = std::nullopt;
  };

  // Sets aside the most that the job comes to, or gives it back; kept states have the rest.
  void reserve(Job& job, bool reserved);
  void end_late();
  void plan_generating();
  const DrawRequest* draw_request(Stream& stream) const;
  void plan_reading();
  std::int64_t prompt_rows() const;
  // False where the pass failed as a whole; those in it have then ended.
  bool forward();
  void collect();
  void note_read(Job& job, const BatchItem& item);
  void start_generating(Job& job);
  static void draw(Drawing& drawing);
  void draw_all();
  void hand_out_all();
  // Tells the consumer, and ends the choice where this was its last token.
  void hand_out(Drawing& drawing);
  void end_choice(Job& job, std::size_t choice, EndReason reason,
                  std::optional<Error> error = std::nullopt);

  std::shared_ptr<Engine> engine_;
  SchedulerOptions options_;
  Reuse reuse_;
  std::vector<std::unique_ptr<Job>> jobs_;
  std::size_t turn_ = 0;  // of prompts, for the rows of a step
  std::vector<BatchItem> items_;
  std::vector<Owner> owners_;  // one an item
  std::vector<Drawing> drawings_;
  ThreadPool pool_;
  std::vector<Ending> endings_;
  SchedulerStats stats_;
};

}  // namespace baltoro
