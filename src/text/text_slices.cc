#include "text/text_slices.h"

#include "text/utf8.h"

namespace baltoro {

std::vector<std::string_view> cut_slices(std::string_view text, const SliceLimits& limits) {
  std::vector<std::string_view> slices;
  std::size_t begin = 0;
  std::size_t block = 0;
  std::size_t run = 0;
  bool run_is_space = false;
  for (std::size_t pos = 0; pos < text.size();) {
    const Utf8Step step = decode_utf8(text.substr(pos));
    const bool valid = step.status == Utf8Status::kValid;
    const bool is_space = valid && is_python_space(step.code_point);
    if (block == limits.block_chars) block = 0;
    if (is_space != run_is_space) run = 0;
    const bool cut = block == 0 || run == limits.run_chars;
    if (cut && pos > begin) {
      slices.push_back(text.substr(begin, pos - begin));
      begin = pos;
      run = 0;
    }
    run_is_space = is_space;
    ++run;
    ++block;
    pos += valid ? step.length : 1;
  }
  if (begin < text.size()) slices.push_back(text.substr(begin));
  return slices;
}

}  // namespace baltoro
