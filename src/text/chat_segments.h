// The list of segments that a renderer writes. Both formats build their prompts through it, and it
// alone makes control segments.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "baltoro/chat.h"

namespace baltoro {

class SegmentList {
 public:
  // A special token of the format by its string; never text that came from outside.
  void control(std::string_view special) {
    segments_.push_back({PromptSegment::Kind::kControl, std::string(special)});
  }

  // A segment of its own; an empty text gives none.
  void text(std::string_view text) {
    if (!text.empty()) segments_.push_back({PromptSegment::Kind::kText, std::string(text)});
  }

  // Continues the text segment at the end, or begins one.
  void join(std::string_view text) {
    if (segments_.empty() || segments_.back().kind != PromptSegment::Kind::kText) {
      this->text(text);
    } else {
      segments_.back().text += text;
    }
  }

  std::vector<PromptSegment> take() { return std::move(segments_); }

 private:
  std::vector<PromptSegment> segments_;
};

}  // namespace baltoro
