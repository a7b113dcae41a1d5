// Which bytes of a model one device stores.
#pragma once

#include <cstdint>

#include "plan/layout.h"
#include "plan/model.h"
#include "plan/part.h"

namespace baltoro::plan {

// Parts that a matrix of this part is cut into; 1 where every rank has it whole. Of mixers, their
// unsplit matrices may be whole beside.
double weight_cuts(const Layout& layout, Part part);

// Stored by one device for that layer and part; experts on the host are none.
double device_layer_bytes(const PlanModel& model, const Layout& layout, const LayerSpec& layer,
                          Part part);
// Of all layers, or of the embedding or head.
double device_part_bytes(const PlanModel& model, const Layout& layout, Part part);

// Cuts of one sequence's cache: the latent is whole on every tp rank, heads of GQA are not.
double cache_cuts(const PlanModel& model, const Layout& layout);

// Rows of Attention Residuals that a step keeps: the most sources of any mix, [rows, d].
double residual_bank_bytes(const PlanModel& model, std::int64_t rows);

}  // namespace baltoro::plan
