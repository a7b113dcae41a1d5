// "Did you mean ...?" for words of the command line.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace baltoro {

// Edits that turn a into b: insert, delete, replace, swap neighbours.
int edit_distance(std::string_view a, std::string_view b);

// The longest candidate that the word begins with; else that with the fewest edits, the first among equals; empty where even that one is not
// alike (more than a third of the word, at least 2).
std::string nearest(std::string_view word, std::span<const std::string> candidates);

}  // namespace baltoro
