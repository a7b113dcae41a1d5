// Parameters and stored bytes of a model by layer and part: matrices and the short convolution.
// Norms, biases and the vectors of gates and Attention Residuals are left out (below 0.01 % of K3);
// compute_model_stats counts them.
#pragma once

#include "plan/model.h"
#include "plan/part.h"

namespace baltoro::plan {

// Matrices of one mixer layer; those that a tensor rank cannot split by heads (q_a, kv_a, f_a,
// beta) are `unsplit`.
struct MixerParameters {
  double projections = 0;
  double unsplit = 0;  // part of `projections`
  double core = 0;     // short convolution, or kv_b
};
MixerParameters kda_parameters(const PlanModel& model);
MixerParameters attention_parameters(const PlanModel& model);

// One layer's matrices of that part, all experts; 0 where the layer has none.
double layer_parameters(const PlanModel& model, const LayerSpec& layer, Part part);
// The whole model's.
double part_parameters(const PlanModel& model, Part part);
double total_parameters(const PlanModel& model);
// Parameters that one token meets: the head counts, the input embedding does not, K of N experts do.
double active_parameters(const PlanModel& model);
// One routed expert.
double expert_parameters(const PlanModel& model);

double part_bytes(const PlanModel& model, Part part);
double total_bytes(const PlanModel& model);
// What every decode step reads, whatever the batch: all but the embedding and the routed experts.
double rest_bytes(const PlanModel& model);

// Bytes of one token in the cache of all attention layers; of one sequence's KDA state and
// convolution history, all layers.
double cache_bytes_per_token(const PlanModel& model);
double state_bytes_per_sequence(const PlanModel& model);
double conv_bytes_per_sequence(const PlanModel& model);

}  // namespace baltoro::plan
