// One stage of a plan as segments, locals and parameter groups: what is computed and moved for a micro-batch, not
// yet when.
//
// A reader of a value wants it in one sharding and gives its gradient in another. Readers that want what the
// producer gives, and give back what the producer wants, are in its segment where they can be. The others read
// through one copy of the value: producer -> copy -> reader; gradients come back reader -> copy, are added up
// there (partial as they are) and reduced once on the way to the producer.
#pragma once

#include <map>
#include <vector>

#include "program/program.h"

namespace heddle {

struct StageBuild {
  StageProgram stage;
  // Values that cross stages: the Local that is sent (or received), and of their gradients.
  struct Crossing {
    LocalId local;
    // By the other stage (invalid: whoever sent the value): the gradient that comes (or goes) back.
    std::map<StageId, LocalId> gradients;
  };
  std::map<ValueId, Crossing> sent;
  std::map<ValueId, Crossing> received;
};

using StageBuilds = IdVector<StageId, StageBuild>;

// What all stages share.
struct LoweringContext {
  const ExpandedPlan& expanded;
  const Plan& plan;
  const Rules& rules;   // of a micro-batch
  MicrobatchSums sums;  // all false with one micro-batch
  // Per value: the stages other than its producer's that read it (of a parameter: all that read it). What side
  // nodes make stays where it is.
  std::vector<std::vector<StageId>> reader_stages;
  std::vector<std::vector<StageId>>
      gradient_stages;         // of those, the ones that give a gradient back
  const Mask* mask = nullptr;  // of what the plan prunes; null: it is spread evenly
};

// Fills in `reader_stages` and `gradient_stages`, of all stages.
void FindReaders(LoweringContext& context);

// Does a gradient go from this operand of a node back to what made it?
bool WantsGradient(const Model& model, NodeId node, size_t operand);

// Adds the Locals along the chain that brings one to a sharding; returns the last.
LocalId AddChain(StageProgram& stage, LocalId from, const Sharding& to,
                 ReshardEnd end = ReshardEnd::kExact);

StageBuild BuildStage(const LoweringContext& context, StageId stage);

}  // namespace heddle
