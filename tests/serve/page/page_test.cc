#include "serve/page/page.h"

#include <gtest/gtest.h>

#include <memory>
#include <regex>
#include <set>

namespace baltoro::serve {
namespace {

class OneReply final : public HttpReply {
 public:
  void send(int code, HttpHeaders fields, std::string text) override {
    status = code;
    headers = std::move(fields);
    body = std::move(text);
  }
  void begin_stream(int, HttpHeaders) override { FAIL() << "a page is sent whole"; }
  bool write(std::string) override { return false; }
  void end() override {}
  void on_close(std::function<void()>) override {}
  void note_usage(const HttpUsage&) override {}

  std::string header(std::string_view name) const {
    const std::string* const value = headers.find(name);
    return value ? *value : "";
  }

  int status = 0;
  HttpHeaders headers;
  std::string body;
};

OneReply get(const std::string& path, HttpHeaders headers = {}) {
  HttpRequest request;
  request.method = "GET";
  request.path = path;
  request.headers = std::move(headers);
  OneReply reply;
  send_page(request, reply);
  return reply;
}

std::set<std::string> matches(std::string_view text, const char* pattern) {
  const std::string whole(text);
  const std::regex expression(pattern);
  std::set<std::string> found;
  for (std::sregex_iterator it(whole.begin(), whole.end(), expression), end; it != end; ++it) {
    found.insert((*it)[1]);
  }
  return found;
}

TEST(Page, EveryFileThatAFileNamesIsThere) {
  std::set<std::string> todo = {"/"}, seen;
  while (!todo.empty()) {
    const std::string path = todo.extract(todo.begin()).value();
    if (!seen.insert(path).second) continue;
    const auto file = page_file(path);
    ASSERT_TRUE(file) << path;
    EXPECT_FALSE(file->bytes.empty()) << path;
    if (path == "/") {
      todo.merge(matches(file->bytes, R"re((?:src|href)="page/([^"]+)")re"));
    } else if (path.ends_with("katex.css")) {
      for (const auto& font : matches(file->bytes, R"re(url\((fonts/[^)]*woff2)\))re"))
        todo.insert("/page/lib/" + font);
    } else if (path.ends_with(".js") && !path.starts_with("/page/lib/")) {
      todo.merge(
          matches(file->bytes, R"re((?:from |import\(|URL\()'(?:\./)?([\w/]+\.(?:js|css))')re"));
    }
    std::set<std::string> named;
    for (const auto& name : todo) named.insert(name.starts_with('/') ? name : "/page/" + name);
    todo = std::move(named);
  }
  EXPECT_TRUE(seen.contains("/page/lib/marked.js"));
  EXPECT_TRUE(seen.contains("/page/lib/fonts/KaTeX_Main-Regular.woff2"));
  EXPECT_TRUE(seen.contains("/page/lib/highlight.js"));
  EXPECT_TRUE(seen.contains("/page/notice.txt"));
  EXPECT_GT(seen.size(), 50u);
}

TEST(Page, OtherPathsAreNoFiles) {
  for (const char* path : {"", "/index.html", "/page", "/page/", "/page/../page/main.js",
                           "/page//main.js", "/pagemain.js", "/page/main.js/", "/page/lib",
                           "/page/lib/", "/page/MAIN.JS", "/etc/passwd", "/page//etc/passwd"}) {
    EXPECT_FALSE(page_file(path)) << path;
    EXPECT_EQ(get(path).status, 404) << path;
  }
}

TEST(Page, IsSentWithItsTypeAndAPolicyThatTrustsNobody) {
  const OneReply reply = get("/");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("content-type"), "text/html; charset=utf-8");
  EXPECT_TRUE(reply.body.starts_with("<!DOCTYPE html>"));
  EXPECT_TRUE(reply.body.ends_with("</html>\n"));
  const std::string policy = reply.header("content-security-policy");
  for (const char* part : {"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'",
                           "base-uri 'none'", "form-action 'none'", "trusted-types 'none'"}) {
    EXPECT_NE(policy.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(policy.find("unsafe"), std::string::npos);
  EXPECT_EQ(policy.find("http"), std::string::npos);
  EXPECT_EQ(reply.header("x-content-type-options"), "nosniff");
  EXPECT_EQ(get("/page/main.js").header("content-type"), "text/javascript; charset=utf-8");
  EXPECT_EQ(get("/page/page.css").header("content-type"), "text/css; charset=utf-8");
  EXPECT_EQ(get("/page/favicon.svg").header("content-type"), "image/svg+xml");
}

// What the policy refuses must not be in the page to begin with.
TEST(Page, HoldsNoInlineScriptOrStyleAndNoOtherOrigin) {
  const std::string body = get("/").body;
  EXPECT_FALSE(
      std::regex_search(body, std::regex(R"re(<style|\sstyle=|\son\w+=|<script(?![^>]* src=))re")));
  EXPECT_FALSE(std::regex_search(body, std::regex(R"re(https?://|="//)re")));
}

TEST(Page, WhatTheClientHasIsNotSentAgain) {
  const std::string tag = get("/page/main.js").header("etag");
  ASSERT_GT(tag.size(), 10u);
  const OneReply same = get("/page/main.js", {{"If-None-Match", "\"other\", " + tag}});
  EXPECT_EQ(same.status, 304);
  EXPECT_EQ(same.body, "");
  EXPECT_EQ(same.header("etag"), tag);
  EXPECT_NE(get("/page/app.js").header("etag"), tag);
  EXPECT_EQ(get("/page/main.js", {{"If-None-Match", "\"other\""}}).status, 200);
}

}  // namespace
}  // namespace baltoro::serve
