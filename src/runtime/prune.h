// Which weights of a model to keep: the largest ones, some at random, or those that training settles on.
#pragma once

#include <map>
#include <set>
#include <string>

#include "plan/pruning.h"
#include "runtime/weights.h"

namespace heddle {

struct PruneOptions {
  double sparsity = 0.9;
  bool global = false;  // the same threshold for all; otherwise the same share of each
  bool random = false;  // whatever they are worth
  uint64_t seed = 0;
  std::set<std::string> dense = {};  // parameters that are not pruned
};

// A BOOL tensor for each parameter that is pruned (plan/pruning.h: IsPrunable), with at least one weight kept. Ties go to
// the first. Throws InputError for sparsities outside [0, 1), weights that are not finite, and where nothing is left to
// prune. Threads share the work (SetKernelThreads), and the result is the same for any number of them; of random masks
// it depends on the seed and the names of parameters alone, and no weights are asked for. Takes 4 bytes per weight of a
// parameter, with `global` of all.
std::map<std::string, HostTensor> MakeMasks(const Model& model, const WeightSource& weights,
                                            const PruneOptions& options);

// The share of weights that one mask keeps and the other does not, of all that either was asked about.
double MaskDistance(const std::map<std::string, HostTensor>& a,
                    const std::map<std::string, HostTensor>& b);

}  // namespace heddle
