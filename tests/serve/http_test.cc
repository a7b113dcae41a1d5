#include "serve/http.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "serve/http_error.h"

namespace baltoro::serve {
namespace {

TEST(HttpHeaders, NamesAreFoundInAnyCase) {
  HttpHeaders headers = {{"Content-Type", "application/json"}, {"X-A", "1"}, {"x-a", "2"}};
  ASSERT_NE(headers.find("content-TYPE"), nullptr);
  EXPECT_EQ(*headers.find("content-TYPE"), "application/json");
  EXPECT_EQ(*headers.find("x-A"), "1");
  EXPECT_EQ(headers.find("content"), nullptr);
  EXPECT_EQ(headers.find("content-type2"), nullptr);
}

TEST(HttpError, HasTheShapeThatClientsKnow) {
  const auto body = nlohmann::json::parse(
      error_body({.status = 429, .message = "queue \xff full", .param = "n", .code = ""},
                 ErrorShape::kOpenAi));
  EXPECT_EQ(body["error"]["type"], "rate_limit_error");
  EXPECT_EQ(body["error"]["message"], "queue \xef\xbf\xbd full");
  EXPECT_EQ(body["error"]["param"], "n");
  EXPECT_TRUE(body["error"]["code"].is_null());
}

}  // namespace
}  // namespace baltoro::serve
