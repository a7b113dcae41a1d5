// What a Tokenizer is made of; for tokenizer.cc and for tests with other vocabularies.
#pragma once

#include "baltoro/tokenizer.h"
#include "text/pre_tokenizer.h"
#include "text/special_tokens.h"
#include "text/text_slices.h"
#include "text/vocabulary.h"

namespace baltoro {

struct Tokenizer::Parts {
  Vocabulary vocabulary;
  SpecialTokens specials;  // its block begins at vocabulary.size()
  PreTokenizer pre_tokenizer;
  SliceLimits slice_limits = {};
};

}  // namespace baltoro
