// Which parameters of a stage can have which GradientSync.
//
//   server    a trained parameter that no other stage reads: the one that updates it must have all of its gradient
//   factors   a trained parameter that one node of the stage reads, in a block and as it is stored, and whose gradient
//             there has factors (ops/gradient_factors.h); where several stages read it, on each of them
//
// Both keep the state of the optimizer whole, on every replica or on the server alone: ZeRO 1 splits that of the other
// parameters, ZeRO 2 and 3, which split gradients among the replicas, are refused (GradientSyncDef::most_zero). Where no axis makes a gradient partial, all three are the same.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace heddle {

class SyncRules {
 public:
  // The stages with their strategies; O(nodes x stages). Both must outlive this.
  SyncRules(const Model& model, const std::vector<Stage>& stages);

  // Why a parameter cannot have this one on a stage; empty where it can.
  std::string WhyNot(size_t stage, ValueId parameter, GradientSync sync) const;

  // Does every stage that reads a parameter have the same for it?
  bool Agree(ValueId parameter) const;

  // The parameters that a stage reads.
  std::vector<ValueId> ParametersOf(size_t stage) const;

 private:
  struct Reading {
    NodeId node;
    size_t operand = 0;
  };

  std::string WhyNoFactors(size_t stage, const std::vector<Reading>& readings) const;

  const Model& model_;
  const std::vector<Stage>& stages_;
  std::vector<std::map<ValueId, std::vector<Reading>>> readings_;  // per stage
};

// Gives it to all parameters that can have it.
void SetSync(const Model& model, GradientSync sync, std::vector<Stage>& stages);

}  // namespace heddle
