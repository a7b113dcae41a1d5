// Conversations that a renderer of another author (tools/corpus/xtml.py, Python, written from the
// same description) turned into text and ids: ours must give the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "baltoro/chat.h"
#include "paths.h"
#include "text/chat_test_util.h"

namespace baltoro {
namespace {

using Json = nlohmann::ordered_json;

// The request of a case: its options have other names there.
std::string request_of(const Json& input) {
  Json request = input;
  const auto rename = [&](const char* from, const char* to) {
    if (!request.contains(from)) return;
    request[to] = request[from];
    request.erase(from);
  };
  rename("effort", "thinking_effort");
  rename("format_spec", "response_format");
  rename("generate", "add_generation_prompt");
  if (!request.contains("add_generation_prompt")) request["add_generation_prompt"] = false;
  return request.dump();
}

TEST(XtmlCases, EveryStoredConversationGivesItsTextAndIds) {
  const auto file = test_data_dir() / "chat" / "xtml_cases.json";
  const Json cases = Json::parse(read_test_file(file)).at("cases");
  ASSERT_GE(cases.size(), 40u);
  const Tokenizer tokenizer = committed_tokenizer();
  const ChatFormat format(tokenizer, std::nullopt);
  for (const Json& entry : cases) {
    SCOPED_TRACE(entry.at("name").get<std::string>());
    const Conversation conversation = parse_conversation(request_of(entry.at("input")));
    EXPECT_EQ(join(format.segments(conversation)), entry.at("text").get<std::string>());
    const std::vector<TokenId> ids = format.render(conversation);
    EXPECT_EQ(ids, entry.at("ids").get<std::vector<TokenId>>());
    EXPECT_EQ(tokenizer.decode(ids), entry.at("text").get<std::string>());
  }
}

}  // namespace
}  // namespace baltoro
