// A plan in words: its mesh, with the names of its axes and what each of them splits.
//
//   PlanWords words(model);
//   MeshInWords(plan, words.Heaviest(plan))        "dp 4 x tp 2 x pp 1"
//   words.Heaviest(plan).axes                      dp 4: "batch"
//                                                  tp 2: "attention by heads, linear layers by columns and rows, norms
//                                                         by sequence"
//
// The words describe the layers that do most of a stage's work. Layers that are split alike count together; nodes
// outside of layers (embedding, loss) are shown by `heddle explain` only. If the layers do less work than the rest of
// the model, the words describe all nodes outside of layers instead.
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
  std::string splits;  // "batch", "heads"; "nothing" if all of its devices compute the same
  bool sequence =
      false;  // a node that is not a matrix product, such as a norm, splits the sequence
  bool experts = false;
};

struct StageSplits {
  size_t stage = 0;
  std::vector<AxisSplit> axes;
  double flops = 0;  // of the layers that the words describe, for one forward pass of the batch
};

class PlanWords {
 public:
  // The model must outlive it. O(nodes).
  explicit PlanWords(const Model& model);

  // O(nodes of the stage).
  StageSplits Of(const Plan& plan, size_t stage) const;
  // The words of the stage whose layers do most work.
  StageSplits Heaviest(const Plan& plan) const;

  const Model& model() const { return model_; }

 private:
  std::vector<NodeId> HeaviestNodes(const Stage& stage, double* flops) const;
  AxisSplit SplitAlong(const Stage& stage, size_t axis, const std::vector<NodeId>& nodes) const;

  const Model& model_;
  SplitWords words_;
  std::vector<double> flops_;  // per node
};

// The sizes of a plan's axes by their role (the values of --dp, --tp and so on), in the stage whose layers do most
// work. `sp`: nodes between matrix products split the sequence along a tensor axis. The other fields keep their defaults.
Degrees DegreesOf(const Plan& plan, const StageSplits& heaviest);

// The policy of all layers; nullopt if they differ.
std::optional<RecomputePolicy> RecomputationOfLayers(const Model& model, const Plan& plan);

// As in "dp 4 x tp 2 x pp 1". dp, tp and pp are named even if their size is 1. If stages differ, the text describes the
// heaviest one and says so.
std::string MeshInWords(const Plan& plan, const StageSplits& heaviest);

// A list of {first_device, devices, axes: [{name, size, splits}]}, one for each stage. An axis with shares also has the
// key `shares`.
Json MeshesJson(const PlanWords& words, const Plan& plan);

}  // namespace heddle
