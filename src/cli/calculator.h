// Exact arithmetic for the built-in tool of `baltoro chat`.
#pragma once

#include <string>
#include <string_view>

namespace baltoro::cli {

// The value of an expression of decimal numbers, + - * / and parentheses (also × ÷ −), computed
// with fractions: "0.1 + 0.2" is "0.3". A value with a finite decimal form is written as one,
// others as a fraction, "1/3". Throws Error{kUsage} naming the position for malformed text,
// division by zero, numbers beyond 64 bits and nesting beyond 64.
std::string evaluate(std::string_view expression);

}  // namespace baltoro::cli
