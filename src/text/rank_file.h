// The tiktoken rank file: one line "base64(bytes) rank" a token, where the rank is the id.
#pragma once

#include <string_view>

#include "text/vocabulary.h"

namespace baltoro {

// Parses the text of a rank file; `file` names it in errors. Lines end in LF or CR LF, empty lines
// are skipped, and the order of lines is free. Throws Error{kBadModel} naming file and line for a
// line that is no "base64 rank", an empty, repeated or misnumbered token, and for a file whose
// ranks leave a gap or whose tokens lack one of the 256 single bytes.
Vocabulary parse_rank_file(std::string_view text, std::string_view file);

}  // namespace baltoro
