// What the tests of options that change logits a little have in common.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include "baltoro/session.h"

namespace baltoro {

inline std::vector<float> logits_of(const Session& session) {
  return {session.logits().begin(), session.logits().end()};
}

// |actual - expected| / |expected|, over all logits.
inline double logits_error(const std::vector<float>& expected, const std::vector<float>& actual) {
  double error = 0, power = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    error += std::pow(static_cast<double>(expected[i] - actual[i]), 2);
    power += std::pow(static_cast<double>(expected[i]), 2);
  }
  return std::sqrt(error / power);
}

// A session that has read `ids` in pieces of `chunk`.
inline Session read_in_pieces(const std::shared_ptr<Engine>& engine,
                              const std::vector<TokenId>& ids, std::size_t chunk) {
  Session session = engine->new_session();
  for (std::size_t begin = 0; begin < ids.size(); begin += chunk) {
    session.prefill(std::span(ids).subspan(begin, std::min(chunk, ids.size() - begin)));
  }
  return session;
}

}  // namespace baltoro
