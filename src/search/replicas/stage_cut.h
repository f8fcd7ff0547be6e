// The problem of factor_cut.h for a stage of a plan: which gradients and nodes its replicas compute
// for the whole batch.
//
// Nodes consist of halves: F, the gradients of operands B, and for every parameter W. Gradients
// that come from several readers are added up by an operation of their own. For each set of axes
// over which gradients of parameters are partial:
//
//   linear   kernels on the blocks without these axes less those on the blocks with them, for all micro-batches; for W
//            less the bandwidth time of the reduction (under ZeRO 1 also of gathering weights, plus a whole update), plus
//            one microsecond, TAG's alpha, so that operations without a gain stay unchanged
//   costs    the conversion to the same sharding without these axes (StageCosts::WayBetween), for all micro-batches
//
//   StageCosts costs(model, cluster, stage.mesh, {.parts = plan.microbatches, ...});
//   for (const StageCut& at : StageCuts(costs, plan, 0, Whole::kHalves)) SolveByCut(at.problem, Payment::kOnce);
//
// The costs are additive and ignore overlap; the plan is simulated afterwards.
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
  // Also whole nodes with all their halves, without the data axes in their strategies. Only where a
  // mesh has nothing but replicas.
  kNodes,
  kHalves,  // every half separately, as in TAG; plans cannot express that
};

enum class OperationKind : uint8_t {
  kForward,
  kBackward,
  kWeight,     // of operand `operand`
  kSum,        // adds up the gradients of `value`
  kParameter,  // adds up the gradients of a parameter that several nodes read
};

struct StageOperation {
  OperationKind kind = OperationKind::kForward;
  NodeId node = {};
  size_t operand = 0;
  ValueId value = {};  // of a sum; for W and parameters: the parameter
  int forward = -1;    // for B and W: the operation that is the node's F
};

struct StageCut {
  AxisMask axes = 0;  // over which the gradients of its parameters are partial
  CutProblem problem;
  std::vector<StageOperation> operations;  // of the problem
};

// The strategy without splitting along these axes.
Strategy Without(Strategy strategy, AxisMask axes);

// Does the mesh consist of replicas only? Then no parameter is split along an axis of the mesh, and
// every gradient is partial over all axes, or over none where it is computed once per step.
bool HasOnlyReplicas(const Model& model, const Stage& stage);

// One per set of axes over which gradients of parameters are partial; nothing under ZeRO 2 and 3.
// The costs must be those of the stage's mesh and a micro-batch, for the model in the plan's
// compute type.
std::vector<StageCut> StageCuts(StageCosts& costs, const Plan& plan, size_t stage, Whole what);

}  // namespace heddle
