// Units of a model: a pipeline stage is a range of units.
//
//   ModelUnits units = UnitsOf(model);     // gpt of 24 layers: the embedding, 24 layers, the head
//
// A layer is a unit, with the single nodes between it and the next layer. What comes before the first layer (the
// embedding) and after the last one (the head: last norm, logits, loss) are units of their own. In a model without layers
// every block is a unit.
#pragma once

#include <vector>

#include "plan/model.h"

namespace heddle {

struct ModelUnits {
  std::vector<int> begins;  // where units begin, in blocks; then the number of blocks
  bool embedding = false;   // the first unit is no layer
  bool head = false;        // the last unit is no layer

  int count() const { return static_cast<int>(begins.size()) - 1; }
  int layers() const { return count() - (embedding ? 1 : 0) - (head ? 1 : 0); }
};

ModelUnits UnitsOf(const Model& model);

// The stages of an interleaved schedule all have n or n - 1 layers. The embedding is in the first stage and the head in
// the last, and each of them may count as a layer there: 126 layers in 128 stages are 126 stages of one layer, the
// embedding and the head.
struct EvenCut {
  bool embedding_counts = false, head_counts = false;
  int layers = 0;   // that count
  int most = 0;     // in a stage
  int smaller = 0;  // stages have one less
};

// The ways to cut units into so many stages: at most four, none where there are too many stages.
std::vector<EvenCut> EvenCuts(const ModelUnits& units, int stages);

// Where the stages of `chunks` per device end, in units. `work` is per unit. Of all even cuts one whose busiest device has
// least to do, found greedily; of those, the one with the least sum of squares over stages. Empty where there are too many
// stages. O(stages^2).
std::vector<int> CutEvenly(const ModelUnits& units, const std::vector<double>& work, int devices,
                           int chunks);

// Is this an even cut? `ends` are in blocks.
bool IsEvenCut(const ModelUnits& units, const std::vector<int>& ends);

}  // namespace heddle
