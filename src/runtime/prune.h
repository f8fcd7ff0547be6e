// Masks of pruned models: which weights are kept. The largest ones, or random ones.
#pragma once

#include <map>
#include <set>
#include <string>

#include "plan/pruning.h"
#include "runtime/weights.h"

namespace heddle {

struct PruneOptions {
  double sparsity = 0.9;
  bool global =
      false;  // one threshold for all parameters; otherwise the same fraction of each is kept
  bool random = false;  // random weights are kept, whatever their magnitude
  uint64_t seed = 0;
  std::set<std::string> dense = {};  // parameters that are not pruned
};

// A BOOL tensor for each parameter that is pruned (plan/pruning.h: IsPrunable), with at least one weight kept. Of equal
// weights the first ones are kept. Throws InputError for sparsities outside [0, 1), for weights that are not finite,
// and where no parameter can be pruned. Threads share the work (SetKernelThreads); the result is the same for any
// number of them. Random masks depend on the seed and the names of parameters alone, and `weights` is not called for
// them. Takes 4 bytes per weight of one parameter at a time, with `global` of all parameters.
std::map<std::string, HostTensor> MakeMasks(const Model& model, const WeightSource& weights,
                                            const PruneOptions& options);

// The fraction of the weights of pruned parameters that one mask keeps and the other does not. Both have the same
// parameters.
double MaskDistance(const std::map<std::string, HostTensor>& a,
                    const std::map<std::string, HostTensor>& b);

}  // namespace heddle
