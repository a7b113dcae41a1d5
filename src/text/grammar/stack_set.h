// All ways in which a grammar can have read what came so far: a set of stacks with shared ends (a
// graph-structured stack). Two stacks with the same state on top are one entry with several
// continuations, so that an ambiguous grammar costs its size and not the number of its readings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "text/grammar/grammar.h"

namespace baltoro {

// The stacks of one position. `parents` is a list of links to the frames below.
struct StackTop {
  StateId state;
  std::int32_t parents;
};

// Memory and steps of stack sets of one grammar. Sets are written behind each other into `tops`, and
// frames into an arena: what is behind a Mark can be given up at once. Lists of links are never
// changed once another list may share their end. One thread at a time; the grammar must outlive it.
class StackSpace {
 public:
  static constexpr std::int32_t kNone = -1;  // the empty list

  struct Range {
    std::size_t begin = 0;
    std::size_t end = 0;
    bool complete = false;  // one of the stacks has been emptied: the grammar may end here
    bool alive() const { return end > begin; }
  };
  struct Mark {
    std::size_t tops, frames, links;
  };

  explicit StackSpace(const Grammar& grammar);

  // The list with nothing but the bottom: popped, it makes a range complete.
  std::int32_t bottom() const { return bottom_; }

  // A set is made by open(), adds, and close(), which follows calls, free edges and ends.
  void open();
  void add(StateId state, std::int32_t parents);
  void pop(std::int32_t parents);
  Range close();
  // The set of one state above the bottom, which nothing has followed.
  Range single(StateId state);

  // What is left of `from` after a byte or a special token. The result may be dead.
  Range read_byte(Range from, std::uint8_t byte);
  Range read_token(Range from, TokenId token);

  StackTop top(std::size_t i) const { return tops_[i]; }

  Mark mark() const { return {tops_.size(), frames_.size(), links_.size()}; }
  void release(const Mark& mark) {
    tops_.resize(mark.tops);
    if (frames_.size() != mark.frames) frames_.resize(mark.frames);
    if (links_.size() != mark.links) links_.resize(mark.links);
  }
  // Moves the set to the front and gives up all others, and from time to time frames.
  Range keep_only(Range range);

 private:
  struct Frame {
    StateId state;  // where the caller goes on
    std::int32_t parents;
    std::int32_t self;  // the list with this frame alone
  };
  struct Link {
    std::int32_t frame;
    std::int32_t next;
  };
  // Where the top of a state, or the frame of a call, is, if `set` is the number of the set in the
  // making.
  struct Slot {
    std::uint64_t set = 0;
    std::int32_t place = 0;
  };

  static constexpr std::int32_t kBottomFrame = 0;

  bool step_within_rule(Range from, std::uint8_t byte, Range& to);
  void expand(std::size_t top);
  std::int32_t call_frame(const GrammarEdge& call, std::int32_t parents);
  std::int32_t new_list(std::int32_t frame, std::int32_t next);
  std::int32_t merge(std::int32_t list, std::int32_t more);
  bool contains(std::int32_t list, std::int32_t frame) const;
  void give_up_frames(Range range);

  const Grammar& grammar_;
  std::vector<StackTop> tops_;
  std::vector<Frame> frames_;
  std::vector<Link> links_;
  std::int32_t bottom_;
  std::vector<Slot> top_slots_;    // by state
  std::vector<Slot> frame_slots_;  // by edge
  std::uint64_t set_ = 0;
  Range open_;
  std::vector<std::size_t> work_;   // tops of the open set that are not expanded yet
  std::size_t frames_limit_ = 256;  // where keep_only() next looks for what can go
  std::size_t links_limit_ = 1024;
  std::vector<std::int32_t> frame_work_;
  std::vector<bool> frame_seen_;
};

}  // namespace baltoro
