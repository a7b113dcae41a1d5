// Token ids on the command line and in files: numbers with commas or white space between.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "baltoro/types.h"

namespace baltoro::cli {

// Throws Error{kUsage} naming the word that is no id; `where` names the text.
std::vector<TokenId> parse_ids(std::string_view text, std::string_view where);

}  // namespace baltoro::cli
