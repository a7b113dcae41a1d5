// Variants of a model that an architect asks about: experts behind a latent, and what attention
// caches.
#pragma once

#include <cstdint>
#include <string_view>

#include "plan/model.h"

namespace baltoro::plan {

// What is done with the width that a latent l = d / alpha saves.
//   kEff: N' = alpha N, K' = K: less work a token
//   kAcc: N' = alpha N, K' = alpha K: the same work over more experts
//   kK3:  N' = 7/6 alpha N, K' = alpha K, m' = 3/2 m: what K3 did to K2
enum class LatentMode : std::uint8_t { kEff, kAcc, kK3 };
LatentMode parse_latent_mode(std::string_view text);

// Of a model that has a latent l0 already, alpha l0 / d takes the place of alpha in N' and K'.
// Throws Error{kUsage} where l, N', K' or m' is no whole number, with the nearest alpha that gives a
// whole l; for kK3 from a model that has a latent; for a model without experts.
void apply_alpha(PlanModel& model, double alpha, LatentMode mode);

// "512:64": latent and side branch of MLA.
void apply_split(PlanModel& model, std::string_view text);
// "mla:512+64"; "unified:576", one latent from which all of a head's keys come, d_n + s of them;
// "mqa:576", one head as wide as the cache; "gqa:2x144", two heads of 144 keys and values.
void apply_kv(PlanModel& model, std::string_view text);

}  // namespace baltoro::plan
