// What the replicas of a plan's stage had better compute whole than reduce: the problem of factor_cut.h made of a model,
// and its answer as a plan.
//
// Nodes fall into halves: F, the gradients of operands B, and of every parameter W. Gradients that come from several
// readers are summed by an operation of their own. For the axes along which the gradients of parameters are partial:
//
//   linear   kernels on the blocks without these axes less those on the blocks with them, of all micro-batches; of W less
//            the bandwidth of the reduction (of ZeRO 1: and of gathering weights, against a whole update). And a
//            microsecond, TAG's alpha: what gains nothing is left alone
//   costs    of all micro-batches, the way lowering takes to the same without these axes (StageCosts::WayBetween)
//
//   StageCosts costs(model, cluster, stage.mesh, {.parts = plan.microbatches, ...});
//   for (const StageCut& at : StageCuts(costs, plan, 0, Whole::kHalves)) SolveByCut(at.problem, Payment::kOnce);
//
// Additive: it knows nothing of what overlaps. The simulator has the last word.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/plan.h"
#include "search/prices/costs.h"
#include "search/replicas/factor_cut.h"

namespace heddle {

// What may be computed whole.
enum class Whole : uint8_t {
  kGradients,  // W of parameters whose factors can be gathered
  kNodes,  // and nodes, all their halves: their strategies without the data axes, where a mesh has only replicas
  kHalves,  // every half by itself, as in TAG; no plan can say that
};

enum class OperationKind : uint8_t {
  kForward,
  kBackward,
  kWeight,     // of operand `operand`
  kSum,        // of the gradients of `value`
  kParameter,  // of the gradients of a parameter that several nodes read
};

struct StageOperation {
  OperationKind kind = OperationKind::kForward;
  NodeId node = {};
  size_t operand = 0;
  ValueId value = {};  // of a sum; of W and of a parameter: that parameter
  int forward = -1;    // of B and W: the operation that is F of the node
};

struct StageCut {
  AxisMask axes = 0;  // over which the gradients of its parameters are partial
  CutProblem problem;
  std::vector<StageOperation> operations;  // of the problem's
};

// A strategy that does nothing along these axes.
Strategy Without(Strategy strategy, AxisMask axes);

// No parameter is split along an axis of the stage's mesh, and all gradients are partial over all of them, or over none
// where they come once per step: what the mesh has are replicas.
bool HasOnlyReplicas(const Model& model, const Stage& stage);

// One for every set of axes over which gradients of parameters are partial; nothing under ZeRO 2 and 3. The costs are of
// the stage's mesh and a micro-batch, of the model in the type the plan computes in.
std::vector<StageCut> StageCuts(StageCosts& costs, const Plan& plan, size_t stage, Whole what);

}  // namespace heddle
