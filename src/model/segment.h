// Consecutive layers of a model and what runs them. A model is one segment; or two, where the host
// computes the first layers and a device the others. The embedding belongs to the first segment, the
// final mix and the head to the last.
#pragma once

#include "model/workspace.h"
#include "ops/backend.h"

namespace baltoro {

struct Segment {
  Backend& backend;
  Workspace& workspace;  // behind another segment: one that expects arrivals
  int first_layer = 0;
  int end_layer = 0;
};

}  // namespace baltoro
