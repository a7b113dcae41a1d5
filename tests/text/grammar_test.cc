// Grammars as such: the set of stacks against all stacks one by one, the tree of tokens, masks
// against each token tried alone.
#include "text/grammar/grammar.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

#include "baltoro/error.h"
#include "text/chat_test_util.h"
#include "text/grammar_test_util.h"

namespace baltoro {
namespace {

using Stack = std::vector<StateId>;  // top last

// The same question, answered with every stack on its own.
class PlainReader {
 public:
  explicit PlainReader(const Grammar& grammar) : grammar_(grammar) { add({grammar.start()}); }

  void read(std::uint8_t byte) {
    const std::set<Stack> before = std::exchange(stacks_, {});
    complete_ = false;
    for (const Stack& stack : before) {
      for (const GrammarEdge& edge : grammar_.edges(stack.back())) {
        if (edge.kind != GrammarEdge::Kind::kBytes || byte < edge.low || byte > edge.high) continue;
        Stack next = stack;
        next.back() = edge.target;
        add(next);
      }
    }
  }
  std::size_t num_stacks() const { return stacks_.size(); }
  Reading state() const {
    if (complete_) return Reading::kComplete;
    return stacks_.empty() ? Reading::kDead : Reading::kAlive;
  }

 private:
  void add(const Stack& stack) {
    if (!stacks_.insert(stack).second) return;
    for (const GrammarEdge& edge : grammar_.edges(stack.back())) {
      Stack next = stack;
      if (edge.kind == GrammarEdge::Kind::kSkip) {
        next.back() = edge.target;
        add(next);
      } else if (edge.kind == GrammarEdge::Kind::kCall) {
        next.back() = edge.target;
        next.push_back(edge.value);
        add(next);
      }
    }
    if (!grammar_.is_final(stack.back())) return;
    if (stack.size() == 1) {
      complete_ = true;
    } else {
      add(Stack(stack.begin(), stack.end() - 1));
    }
  }

  const Grammar& grammar_;
  std::set<Stack> stacks_;
  bool complete_ = false;
};

// A random network; most have rules that begin with themselves or never end, and are refused.
GrammarBuilder random_network(std::mt19937& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  GrammarBuilder builder;
  std::vector<std::vector<StateId>> states(3);
  for (auto& rule : states) rule.push_back(builder.start(builder.add_rule("r")));
  for (auto& rule : states) {
    for (int i = 2 + below(3); i > 0; --i) rule.push_back(builder.add_state());
    builder.set_final(rule.back());
    // No rule may be empty: what leaves the first state reads a byte, or calls.
    for (int i = 0; i < 7; ++i) {
      const StateId from = rule[static_cast<std::size_t>(below(static_cast<int>(rule.size())))];
      const StateId to =
          rule[1 + static_cast<std::size_t>(below(static_cast<int>(rule.size()) - 1))];
      const int what = below(8);
      if (what < 4) {
        const auto byte = static_cast<std::uint8_t>('a' + below(2));
        builder.bytes(from, byte, what == 0 ? 'b' : byte, to);
      } else if (what < 7) {
        builder.call(from, below(3), to);
      } else if (from != rule.front()) {
        builder.skip(from, to);
      }
    }
  }
  return builder;
}

TEST(GrammarStacks, SharedStacksReadWhatSeparateOnesDo) {
  std::mt19937 random(7);
  int num_grammars = 0, num_complete = 0, num_dead = 0;
  while (num_grammars < 150) {
    const GrammarBuilder builder = random_network(random);
    Grammar grammar;
    try {
      grammar = builder.build(0);
    } catch (const Error&) {
      continue;
    }
    ++num_grammars;
    for (int i = 0; i < 20; ++i) {
      ByteReader shared(grammar);
      PlainReader plain(grammar);
      for (int n = 0; n < 9; ++n) {
        const auto byte = static_cast<char>('a' + random() % 2);
        shared.read(std::string_view(&byte, 1));
        plain.read(static_cast<std::uint8_t>(byte));
        ASSERT_EQ(shared.state(), plain.state()) << "grammar " << num_grammars;
        num_complete += plain.state() == Reading::kComplete;
        num_dead += plain.state() == Reading::kDead;
        if (plain.state() == Reading::kDead || plain.num_stacks() > 500) break;
      }
    }
  }
  EXPECT_GT(num_complete, 5000);
  EXPECT_GT(num_dead, 1000);
}

TEST(GrammarStacks, ManyReadingsOfOneTextCostNoMoreThanOne) {
  // "(" A ")" | "(" B ")" with A and B the same again: 2^n ways to read n brackets.
  GrammarBuilder builder;
  const RuleId a = builder.add_rule("a"), b = builder.add_rule("b");
  for (const RuleId rule : {a, b}) {
    const StateId start = builder.start(rule), end = builder.add_state();
    builder.set_final(end);
    builder.skip(builder.text(start, "x"), end);
    for (const RuleId inner : {a, b}) {
      builder.skip(builder.text(builder.call(builder.text(start, "("), inner), ")"), end);
    }
  }
  const Grammar grammar = builder.build(a);
  const std::string deep(2000, '(');
  EXPECT_TRUE(matches(grammar, deep + "x" + std::string(2000, ')')));
  EXPECT_FALSE(matches(grammar, deep + "x" + std::string(1999, ')')));
}

TEST(GrammarErrors, ARuleThatBeginsWithItselfIsNamed) {
  GrammarBuilder builder;
  const RuleId a = builder.add_rule("first"), b = builder.add_rule("second");
  const StateId end_a = builder.call(builder.start(a), b),
                end_b = builder.call(builder.start(b), a);
  builder.set_final(end_a);
  builder.set_final(end_b);
  builder.set_final(builder.text(builder.start(a), "x"));
  EXPECT_EQ(error_of([&] { builder.build(a); }),
            "unsupported: first: it leads back to itself with nothing in between");
}

TEST(GrammarErrors, ARuleThatNeverEndsIsNamed) {
  GrammarBuilder builder;
  const RuleId rule = builder.add_rule("endless");
  builder.set_final(builder.call(builder.text(builder.start(rule), "("), rule));
  EXPECT_EQ(error_of([&] { builder.build(rule); }),
            "unsupported: endless: no value that ends can satisfy it");
}

TEST(GrammarErrors, SizeIsLimited) {
  GrammarBuilder builder;
  builder.add_rule("large");
  const std::string error =
      error_of([&] { builder.text(0, std::string(GrammarBuilder::kMaxStates, 'x')); });
  EXPECT_TRUE(error.starts_with("unsupported: large: ")) << error;
}

TEST(TokenTrie, HoldsEachTokenOnceUnderItsBytes) {
  for (const Tokenizer& tokenizer : {glued_tokenizer(), committed_tokenizer()}) {
    const TokenTrie trie(tokenizer);
    std::vector<std::uint32_t> ends;
    std::string path;
    std::set<TokenId> seen;
    for (std::uint32_t i = 1; i < trie.num_nodes(); ++i) {
      while (!ends.empty() && ends.back() <= i) {
        ends.pop_back();
        path.pop_back();
      }
      ends.push_back(trie.node(i).end);
      path += static_cast<char>(trie.node(i).byte);
      const TokenId token = trie.node(i).token;
      if (token == TokenTrie::kNoToken) continue;
      EXPECT_EQ(tokenizer.token_bytes(token), path);
      EXPECT_TRUE(seen.insert(token).second);
    }
    EXPECT_EQ(static_cast<int>(seen.size()), tokenizer.num_ranks());
    EXPECT_EQ(trie.node(0).end, trie.num_nodes());
  }
}

constexpr const char* kSchema = R"({"type": "object", "properties": {
  "name": {"type": "string"}, "list": {"type": "array", "items": {"anyOf": [
    {"type": "number"}, {"enum": ["a", "ab", true]}, {"$ref": "#"}]}}}, "required": ["name"]})";

TokenId byte_token(const Tokenizer& tokenizer, char c) {
  for (TokenId token = 0;; ++token) {
    if (tokenizer.token_bytes(token) == std::string_view(&c, 1)) return token;
  }
}

// Texts of a random walk under the mask; at each step the mask is what each token, tried alone, says.
void check_masks(const Tokenizer& tokenizer, const char* schema, unsigned seed, int num_steps,
                 std::string text = {}) {
  const TokenId end = tokenizer.special_id("[EOS]").value();
  const Grammar grammar = schema_grammar(schema);
  GrammarConstraint constraint(schema_tokens(schema, tokenizer, end), tokenizer);
  for (const char c : text) constraint.accept(byte_token(tokenizer, c));
  std::mt19937 random(seed);
  for (int step = 0; step < num_steps; ++step) {
    const auto mask = mask_of(constraint, tokenizer);
    std::vector<TokenId> allowed;
    ByteReader before(grammar);
    before.read(text);
    for (TokenId token = 0; token < tokenizer.vocab_size(); ++token) {
      bool fits = token == end && before.state() == Reading::kComplete;
      if (!tokenizer.is_special(token)) {
        ByteReader reader(grammar);
        fits =
            reader.read(text + std::string(tokenizer.token_bytes(token))).state() != Reading::kDead;
      }
      ASSERT_EQ(has(mask, token), fits) << text << " + " << tokenizer.token_bytes(token);
      if (fits && token != end) allowed.push_back(token);
    }
    if (allowed.empty()) return;
    const TokenId token = allowed[random() % allowed.size()];
    constraint.accept(token);
    text += tokenizer.token_bytes(token);
  }
}

TEST(GrammarMask, IsWhatEachTokenTriedAloneSays) {
  for (const char* schema : {kSchema, "{}", R"({"type":"object"})"}) {
    for (unsigned seed = 0; seed < 5; ++seed) check_masks(glued_tokenizer(), schema, seed, 60);
  }
}

// Where names are not listed, masks are made from those of other states.
TEST(GrammarMask, IsTheSameWhereItIsMadeFromThatOfAnotherState) {
  const char* const schema = R"({"properties":{"the":{},"then":{},"\u00e9":{},"they say":{}}})";
  for (const char* text :
       {"{\"", "{\"t", "{\"the", "{\"\xC3", "{\"they", "{\"thx", "{\"then\":1,\"the"}) {
    check_masks(committed_tokenizer(), schema, 1, 3, text);
  }
}

TEST(GrammarConstraint, ATokenThatDoesNotFitChangesNothing) {
  const Tokenizer tokenizer = glued_tokenizer();
  const TokenId end = tokenizer.special_id("[EOS]").value();
  GrammarConstraint constraint(schema_tokens(kSchema, tokenizer, end), tokenizer);
  constraint.accept('{');
  const auto before = mask_of(constraint, tokenizer);
  for (const TokenId token : {TokenId{'x'}, end, tokenizer.special_id("[BOS]").value()}) {
    EXPECT_THROW(constraint.accept(token), Error);
    EXPECT_EQ(mask_of(constraint, tokenizer), before);
  }
}

TEST(GrammarConstraint, DeepAndLongAnswersKeepTheirPlace) {
  const Tokenizer tokenizer = glued_tokenizer();
  GrammarConstraint constraint(schema_tokens("{}", tokenizer, 257), tokenizer);
  const auto read = [&](const std::string& text) {
    for (const char c : text) constraint.accept(static_cast<unsigned char>(c));
  };
  const int depth = 700;
  for (int i = 0; i < depth; ++i) read(i % 2 == 0 ? "[1,{\"a\":[]}," : "{\"a\":");
  read("[");
  for (int i = 0; i < 2000; ++i) read("[[2],{}],");
  read("3]");
  for (int i = depth; i-- > 0;) {
    const auto mask = mask_of(constraint, tokenizer);
    ASSERT_EQ(has(mask, ']'), i % 2 == 0) << i;
    ASSERT_EQ(has(mask, '}'), i % 2 == 1) << i;
    read(i % 2 == 0 ? "]" : "}");
  }
  EXPECT_TRUE(constraint.complete());
}

TEST(GrammarConstraint, BehindTheEndOnlyTheEndMayCome) {
  const Tokenizer tokenizer = glued_tokenizer();
  const TokenId end = tokenizer.special_id("[EOS]").value();
  GrammarConstraint constraint(schema_tokens(R"({"const": 1})", tokenizer, end), tokenizer);
  constraint.accept('1');
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(constraint.complete());
    const auto mask = mask_of(constraint, tokenizer);
    for (TokenId token = 0; token < tokenizer.vocab_size(); ++token) {
      EXPECT_EQ(has(mask, token), token == end);
    }
    constraint.accept(end);
  }
}

TEST(GrammarConstraint, AMaskShorterThanTheVocabularyIsFilledAsFarAsItGoes) {
  const Tokenizer tokenizer = glued_tokenizer();
  GrammarConstraint constraint(schema_tokens("{}", tokenizer, 257), tokenizer);
  std::vector<std::uint64_t> whole(5), part(1);
  constraint.allow(whole);
  constraint.allow(part);
  EXPECT_EQ(part[0], whole[0]);
}

}  // namespace
}  // namespace baltoro
