#include "serve/api/transcript.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "serve/api/fake_model.h"

namespace baltoro::serve {
namespace {

// "ab" is one token of this vocabulary, which the model may also write as two.
class TranscriptTest : public ::testing::Test {
 protected:
  AnswerRequest request(Conversation conversation = {}) {
    conversation.messages = {{.role = "user", .content = {"hi"}}};
    return chat_answer_request(model_, std::move(conversation), {});
  }

  // The model's tokens for an answer with the content "ab", written as two tokens.
  std::vector<TokenId> two_tokens(const std::string& behind = "<|end_of_msg|>") {
    std::vector<TokenId> ids =
        tokenizer_.encode_control("t<|close|>think<|sep|><|open|>response<|sep|>");
    ids.push_back('a');
    ids.push_back('b');
    const auto rest =
        tokenizer_.encode_control("<|close|>response<|sep|><|close|>message<|sep|>" + behind);
    ids.insert(ids.end(), rest.begin(), rest.end());
    return ids;
  }

  std::vector<TokenId> next(const AnswerRequest& request, const std::vector<TokenId>& generated) {
    ChatParser parser = model_.format->parser(*request.conversation);
    for (const TokenId id : generated) parser.feed(id);
    parser.finish();
    return next_prompt_ids(model_, request, generated, parser.result());
  }

  Tokenizer tokenizer_ = make_tokenizer(byte_tokens_and({"ab"}), xtml_specials());
  FakeServer server_;
  Model model_ = [&] {
    Model model = server_.model();
    model.tokenizer = tokenizer_;
    model.format = ChatFormat(tokenizer_, std::nullopt);
    return model;
  }();
};

TEST_F(TranscriptTest, AnAnswerComesBackInOtherTokens) {
  const AnswerRequest answered = request();
  const std::vector<TokenId> generated = two_tokens();
  const std::vector<TokenId> ids = next(answered, generated);
  ASSERT_FALSE(ids.empty());
  std::vector<TokenId> read = answered.prompts.front();
  read.insert(read.end(), generated.begin(), generated.end());
  EXPECT_EQ(tokenizer_.decode(ids), tokenizer_.decode(read));
  EXPECT_EQ(ids.size() + 1, read.size());

  // The next turn's prompt begins with them.
  Conversation later = *answered.conversation;
  later.messages.push_back({.role = "assistant", .content = {"ab"}, .reasoning = "t"});
  later.messages.push_back({.role = "user", .content = {"and?"}});
  const std::vector<TokenId> prompt = model_.format->render(later);
  later.messages.pop_back();
  later.add_generation_prefix = false;
  EXPECT_EQ(model_.format->render(later), ids);
  ASSERT_GT(prompt.size(), ids.size());
  EXPECT_TRUE(std::equal(ids.begin(), ids.end(), prompt.begin()));
}

TEST_F(TranscriptTest, TheSameTokensNeedNotBeRemembered) {
  std::vector<TokenId> generated = tokenizer_.encode_control(
      "t<|close|>think<|sep|><|open|>response<|sep|>ab<|close|>response<|sep|><|close|>message"
      "<|sep|><|end_of_msg|>");
  EXPECT_TRUE(next(request(), generated).empty());
}

TEST_F(TranscriptTest, AnAnswerThatWasCutOffIsNotTheNextPrompt) {
  std::vector<TokenId> generated = two_tokens();
  generated.resize(generated.size() - 3);
  EXPECT_TRUE(next(request(), generated).empty());
}

TEST_F(TranscriptTest, WhatTheNextPromptDoesNotRepeatIsNotRemembered) {
  Conversation conversation;
  conversation.response_format.kind = ResponseFormat::Kind::kJsonObject;
  EXPECT_TRUE(next(request(conversation), two_tokens()).empty());
  conversation.response_format.kind = ResponseFormat::Kind::kText;
  conversation.tool_choice.kind = ToolChoice::Kind::kNone;
  EXPECT_TRUE(next(request(conversation), two_tokens()).empty());
}

TEST_F(TranscriptTest, TextThatSpellsAMarkerIsNotTheMarker) {
  // The model writes the letters of the end marker, and then ends by that marker's id.
  std::vector<TokenId> generated = two_tokens("");
  const auto spelled = tokenizer_.encode("<|end_of_msg|>");
  generated.insert(generated.end(), spelled.begin(), spelled.end());
  EXPECT_TRUE(next(request(), generated).empty());
}

}  // namespace
}  // namespace baltoro::serve
