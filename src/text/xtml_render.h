// The prompt of the XTML format (Kimi K3). An element is OPEN tag attributes SEP ... CLOSE tag SEP;
// OPEN, CLOSE, SEP and END are special ids, all else is text.
#pragma once

#include <vector>

#include "baltoro/chat.h"

namespace baltoro {

// Special tokens of the format.
inline constexpr char kXtmlOpen[] = "<|open|>";
inline constexpr char kXtmlClose[] = "<|close|>";
inline constexpr char kXtmlSep[] = "<|sep|>";
inline constexpr char kXtmlEnd[] = "<|end_of_msg|>";

// Errors: as ChatFormat::segments.
std::vector<PromptSegment> render_xtml(const Conversation& conversation);

}  // namespace baltoro
