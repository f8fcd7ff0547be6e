// One stage of a plan as segments, locals and parameter groups: what is computed and moved for a micro-batch, but not
// in which order.
//
// A reader needs a value in one sharding and computes its gradient in another. Where both are the producer's, the reader
// can be in the producer's segment. The other readers read one copy of the value: producer -> copy -> reader. Gradients
// go back from readers to the copy, are added up there as partial sums, and are reduced once on the way to the producer.
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
