// A plan in words: its mesh by the names of its axes, and what each of them splits.
//
//   PlanWords words(model);
//   MeshInWords(plan, words.Heaviest(plan))        "dp 4 x tp 2 x pp 1"
//   words.Heaviest(plan).axes                      dp 4: "batch"
//                                                  tp 2: "attention by heads, linear layers by columns and rows, norms
//                                                         by sequence"
//
// The words are those of the layers that do most of a stage's work: layers that are split alike count together, and
// what lies outside of layers (embedding, loss) is left to `heddle explain`. Where layers do less than the rest of the
// model, the words are of all nodes outside of layers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "plan/expert.h"
#include "report/split_words.h"

namespace heddle {

struct AxisSplit {
  MeshAxis axis;
  std::string splits;     // "batch", "heads"; "nothing" where all of its devices do the same
  bool sequence = false;  // a norm or another node that is no matrix product splits the sequence
  bool experts = false;
};

struct StageSplits {
  size_t stage = 0;
  std::vector<AxisSplit> axes;
  double flops = 0;  // of the layers that the words are of, in one forward of the batch
};

class PlanWords {
 public:
  // The model must outlive it. O(nodes).
  explicit PlanWords(const Model& model);

  // O(nodes of the stage).
  StageSplits Of(const Plan& plan, size_t stage) const;
  // Of the stage whose layers do most.
  StageSplits Heaviest(const Plan& plan) const;

  const Model& model() const { return model_; }

 private:
  std::vector<NodeId> HeaviestNodes(const Stage& stage, double* flops) const;
  AxisSplit SplitAlong(const Stage& stage, size_t axis, const std::vector<NodeId>& nodes) const;

  const Model& model_;
  SplitWords words_;
  std::vector<double> flops_;  // per node
};

// The sizes of a plan's axes by their role, in the stage whose layers do most of the work: what --dp, --tp and so on ask for.
// The other fields are defaults. `sp`: nodes between matrix products split the sequence along a tensor axis.
Degrees DegreesOf(const Plan& plan, const StageSplits& heaviest);

// The policy of all layers; nothing where they differ.
std::optional<RecomputePolicy> RecomputationOfLayers(const Model& model, const Plan& plan);

// "dp 4 x tp 2 x pp 1"; dp, tp and pp are there with size 1 too. Where stages differ: the heaviest, and that it is.
std::string MeshInWords(const Plan& plan, const StageSplits& heaviest);

// A list of {first_device, devices, axes: [{name, size, splits}]}, one of each stage. An axis of unlike shares has them
// as `shares`.
Json MeshesJson(const PlanWords& words, const Plan& plan);

}  // namespace heddle
