#include "text/answer_stream.h"

#include <gtest/gtest.h>

#include <string>

#include "text/chat_test_util.h"

namespace baltoro {
namespace {

// XTML answers over single bytes: think channel first.
class AnswerStreamTest : public ::testing::Test {
 protected:
  AnswerStream stream(std::vector<std::string> stops) {
    return AnswerStream(format_.parser({}), std::move(stops));
  }

  std::vector<TokenId> ids(const std::string& text) { return tokenizer_.encode_control(text); }

  Tokenizer tokenizer_ = byte_tokenizer(xtml_specials());
  ChatFormat format_{tokenizer_, std::nullopt};
};

TEST_F(AnswerStreamTest, StopStringsAreSearchedInTheContentAlone) {
  AnswerStream answer = stream({"END"});
  Assembled seen;
  for (const TokenId id :
       ids("no END here<|close|>think<|sep|><|open|>response<|sep|>one EN two END three")) {
    if (answer.matched()) break;
    seen.add(answer.feed(id));
  }
  EXPECT_TRUE(answer.matched());
  seen.add(answer.finish(true));
  EXPECT_EQ(seen.reasoning, "no END here");
  EXPECT_EQ(seen.content, "one EN two ");
  EXPECT_EQ(answer.content(), "one EN two ");
  EXPECT_EQ(answer.raw().content, "one EN two END");
  EXPECT_EQ(answer.result().content, "one EN two ");
  EXPECT_EQ(answer.result().finish_reason, FinishReason::kStop);
}

TEST_F(AnswerStreamTest, WhatWasHeldBackComesAtTheEnd) {
  AnswerStream answer = stream({"END"});
  Assembled seen;
  for (const TokenId id : ids("<|close|>think<|sep|><|open|>response<|sep|>one EN")) {
    seen.add(answer.feed(id));
  }
  EXPECT_EQ(seen.content, "one ");
  seen.add(answer.finish(false));
  EXPECT_EQ(seen.content, "one EN");
  EXPECT_EQ(answer.result().finish_reason, FinishReason::kLength);
}

}  // namespace
}  // namespace baltoro
