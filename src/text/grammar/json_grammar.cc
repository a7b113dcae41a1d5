#include "text/grammar/json_grammar.h"

namespace baltoro {
namespace {

constexpr int kMaxSpaces = 40;
constexpr int kMaxTabs = 10;
constexpr int kMaxIntegerDigits = 19;  // holds every 64-bit integer
constexpr int kMaxFractionDigits = 20;
constexpr int kMaxExponentDigits = 2;
constexpr std::uint8_t kLetterA[] = {'A', 'a'};

RuleId add_space(GrammarBuilder& b) {
  const RuleId rule = b.add_rule("white space");
  const StateId start = b.start(rule);
  const StateId end = b.add_state();
  b.set_final(end);
  b.bytes(start, ' ', ' ', end);
  const StateId line = b.text(start, "\n");
  const auto indent = [&](std::uint8_t c, int most) {
    StateId from = line;
    for (int i = 0; i < most; ++i) {
      const StateId to = b.add_state();
      b.bytes(from, c, c, to);
      b.set_final(to);
      from = to;
    }
  };
  b.set_final(line);
  indent(' ', kMaxSpaces);
  indent('\t', kMaxTabs);
  return rule;
}

void hex(GrammarBuilder& b, StateId from, StateId to) {
  b.bytes(from, '0', '9', to);
  b.bytes(from, 'A', 'F', to);
  b.bytes(from, 'a', 'f', to);
}

StateId hex_digits(GrammarBuilder& b, StateId from, int count) {
  for (int i = 0; i < count; ++i) {
    const StateId to = b.add_state();
    hex(b, from, to);
    from = to;
  }
  return from;
}

// \uXXXX behind the u. A high surrogate is followed by a low one, which comes nowhere else.
void unicode_escape(GrammarBuilder& b, StateId from, StateId to) {
  const StateId three = b.add_state(), d = b.add_state(), two = b.add_state();
  b.bytes(from, '0', '9', three);
  for (const std::uint8_t a : kLetterA) {
    b.bytes(from, a, static_cast<std::uint8_t>(a + 2), three);
    b.bytes(from, static_cast<std::uint8_t>(a + 3), static_cast<std::uint8_t>(a + 3), d);
    b.bytes(from, static_cast<std::uint8_t>(a + 4), static_cast<std::uint8_t>(a + 5), three);
  }
  hex(b, three, two);
  b.bytes(d, '0', '7', two);
  hex(b, hex_digits(b, two, 1), to);
  const StateId high = b.add_state();
  b.bytes(d, '8', '9', high);
  const StateId low_d = b.text(hex_digits(b, high, 2), "\\u");
  const StateId low = b.add_state(), low_two = b.add_state();
  b.bytes(low_d, 'D', 'D', low);
  b.bytes(low_d, 'd', 'd', low);
  for (const std::uint8_t a : kLetterA) {
    b.bytes(d, a, static_cast<std::uint8_t>(a + 1), high);
    b.bytes(low, static_cast<std::uint8_t>(a + 2), static_cast<std::uint8_t>(a + 5), low_two);
  }
  hex(b, hex_digits(b, low_two, 1), to);
}

RuleId add_string(GrammarBuilder& b) {
  const RuleId rule = b.add_rule("string");
  const StateId inside = b.text(b.start(rule), "\"");
  add_text_loop(b, inside, kJsonText);
  const StateId escape = b.text(inside, "\\");
  for (const char c : std::string_view("\"\\/bfnrt")) {
    b.bytes(escape, static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(c), inside);
  }
  unicode_escape(b, b.text(escape, "u"), inside);
  b.set_final(b.text(inside, "\""));
  return rule;
}

StateId integer_part(GrammarBuilder& b, StateId from) {
  const StateId unsigned_part = b.text(from, "-");
  b.skip(from, unsigned_part);
  const StateId first = b.add_state();
  b.bytes(unsigned_part, '1', '9', first);
  const StateId end = b.digits(first, 0, kMaxIntegerDigits - 1);
  b.bytes(unsigned_part, '0', '0', end);
  return end;
}

RuleId add_integer(GrammarBuilder& b) {
  const RuleId rule = b.add_rule("integer");
  b.set_final(integer_part(b, b.start(rule)));
  return rule;
}

RuleId add_number(GrammarBuilder& b) {
  const RuleId rule = b.add_rule("number");
  const StateId integer = integer_part(b, b.start(rule));
  const StateId fraction = b.digits(b.text(integer, "."), 1, kMaxFractionDigits);
  b.skip(integer, fraction);
  const StateId sign = b.add_state(), exponent = b.add_state();
  b.bytes(fraction, 'E', 'E', sign);
  b.bytes(fraction, 'e', 'e', sign);
  b.bytes(sign, '+', '+', exponent);
  b.bytes(sign, '-', '-', exponent);
  b.skip(sign, exponent);
  const StateId end = b.digits(exponent, 1, kMaxExponentDigits);
  b.skip(fraction, end);
  b.set_final(end);
  return rule;
}

void fill_object(GrammarBuilder& b, const JsonRules& rules) {
  const StateId first = b.optional_call(b.text(b.start(rules.object), "{"), rules.space);
  const StateId key = b.call(first, rules.string);
  const StateId value = b.call(json_colon(b, key), rules.value);
  const StateId next = b.optional_call(b.text(value, ","), rules.space);
  b.call(next, rules.string, key);
  const StateId end = b.add_state();
  b.set_final(end);
  b.bytes(first, '}', '}', end);
  b.bytes(b.optional_call(value, rules.space), '}', '}', end);
}

void fill_array(GrammarBuilder& b, const JsonRules& rules) {
  const StateId first = b.optional_call(b.text(b.start(rules.array), "["), rules.space);
  const StateId value = b.call(first, rules.value);
  const StateId next = b.optional_call(b.text(value, ","), rules.space);
  b.call(next, rules.value, value);
  const StateId end = b.add_state();
  b.set_final(end);
  b.bytes(first, ']', ']', end);
  b.bytes(b.optional_call(value, rules.space), ']', ']', end);
}

void fill_value(GrammarBuilder& b, const JsonRules& rules) {
  const StateId start = b.start(rules.value);
  const StateId end = b.add_state();
  b.set_final(end);
  for (const RuleId rule : {rules.string, rules.number, rules.object, rules.array}) {
    b.call(start, rule, end);
  }
  const std::string words[] = {"true", "false", "null"};
  b.one_of(start, words, end);
}

}  // namespace

StateId json_colon(GrammarBuilder& builder, StateId from) {
  const StateId colon = builder.text(from, ":");
  const StateId space = builder.text(colon, " ");
  builder.skip(colon, space);
  return space;
}

JsonRules JsonRules::add_to(GrammarBuilder& builder) {
  JsonRules rules{};
  rules.space = add_space(builder);
  rules.string = add_string(builder);
  rules.number = add_number(builder);
  rules.integer = add_integer(builder);
  rules.plain_name = add_ended_text(builder, kJsonText, '"');
  rules.value = builder.add_rule("value");
  rules.object = builder.add_rule("object");
  rules.array = builder.add_rule("array");
  fill_value(builder, rules);
  fill_object(builder, rules);
  fill_array(builder, rules);
  return rules;
}

}  // namespace baltoro
