// A backend with a fault, which what measures and compares must find.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "ops/expert_mlp.h"
#include "ops/forwarding_backend.h"
#include "ops/glu_mlp.h"
#include "ops/kda.h"
#include "ops/linear.h"
#include "ops/mix_norm.h"
#include "ops/mla.h"
#include "ops/route.h"

namespace baltoro::testing {

// One wrong op in one layer; -1 is that of a call outside of a model.
class FaultyBackend final : public ForwardingBackend {
 public:
  FaultyBackend(std::unique_ptr<Backend> inner, std::string op, int layer)
      : ForwardingBackend(*inner), inner_(std::move(inner)), op_(std::move(op)), layer_(layer) {}

  std::string_view name() const override { return "faulty"; }
  void linear(const LinearArgs& args) override {
    inner_->linear(args);
    spoil("linear", args.layer, args.outputs[0].out);
  }
  void mix_norm(const MixNormArgs& args) override {
    inner_->mix_norm(args);
    spoil("mix_norm", args.layer, args.out);
  }
  void kda_mix(const KdaMixArgs& args) override {
    inner_->kda_mix(args);
    spoil("kda_mix", args.layer, args.out);
    if (op_ == "kda state" && args.layer == layer_) {
      args.pool.f32()[args.batch.sequences[0].state_slot * args.shape.state_elements()] += 1;
    }
  }
  void mla_prefill(const MlaArgs& args) override {
    inner_->mla_prefill(args);
    spoil("mla_prefill", args.layer, args.out);
  }
  void mla_decode(const MlaArgs& args) override {
    inner_->mla_decode(args);
    if (args.batch.sequences[0].origin == Origin::kGenerated) {
      spoil("mla_decode", args.layer, args.out);
    }
  }
  void glu_mlp(const GluMlpArgs& args) override {
    inner_->glu_mlp(args);
    spoil("glu_mlp", args.layer, args.out);
  }
  void route(const RouteArgs& args) override {
    inner_->route(args);
    if (op_ != "route" || args.layer != layer_) return;
    // The expert that comes next in the list instead of the first chosen one.
    while (std::find(args.ids, args.ids + args.top_k, args.ids[0]) != args.ids + args.top_k) {
      args.ids[0] = static_cast<std::int32_t>((args.ids[0] + 1) % args.weight.rows);
      if (std::count(args.ids, args.ids + args.top_k, args.ids[0]) == 1) break;
    }
  }
  void expert_mlp(const ExpertMlpArgs& args) override {
    inner_->expert_mlp(args);
    spoil("expert_mlp", args.layer, args.out);
  }

 private:
  void spoil(const char* op, int layer, const TensorView& out) {
    if (op_ == op && layer == layer_) out.f32()[out.shape.count() / 2] += 1.0f;
  }

  std::unique_ptr<Backend> inner_;
  std::string op_;
  int layer_;
};

}  // namespace baltoro::testing
