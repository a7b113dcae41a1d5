// A backend that remembers which experts another one chose.
#pragma once

#include <map>
#include <vector>

#include "ops/forwarding_backend.h"
#include "ops/route.h"

namespace baltoro::testing {

class RouteRecorder final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  // By layer: the ids of all rows so far, [rows, top_k].
  const std::map<int, std::vector<std::int32_t>>& chosen() const { return chosen_; }

  void route(const RouteArgs& args) override {
    ForwardingBackend::route(args);
    std::vector<std::int32_t>& ids = chosen_[args.layer];
    ids.insert(ids.end(), args.ids, args.ids + args.x.rows() * args.top_k);
  }

 private:
  std::map<int, std::vector<std::int32_t>> chosen_;
};

}  // namespace baltoro::testing
