// Expert plans of tiny models, for tests of plans.
#pragma once

#include <string>
#include <vector>

#include "cluster/load.h"
#include "frontend/load.h"
#include "plan/expert.h"
#include "plan/strategy_text.h"

namespace heddle {

inline Model LoadTiny(const std::string& name) {
  return Analyse(LoadModel(HEDDLE_TEST_DATA "/pytorch/" + name + ".onnx"));
}

inline const std::vector<std::string> kTinyModels = {"tiny-gpt2", "tiny-llama", "tiny-moe",
                                                     "tiny-t5",   "tiny-cnn",   "tiny-mlp"};

// Degrees for sixteen devices. They suit all of the models, except where a comment says otherwise.
inline std::vector<Degrees> ManyDegrees() {
  return {
      {},
      {.dp = 2},
      {.tp = 2},
      {.tp = 3},
      {.tp = 4},
      {.tp = 8},
      {.pp = 2},
      {.dp = 3, .microbatches = 1},
      {.dp = 2, .tp = 2, .pp = 2, .microbatches = 2, .zero = 1},
      {.pp = 2, .microbatches = 4, .chunks = 2, .schedule = "interleaved"},
      {.dp = 4, .tp = 2, .zero = 3, .recompute = RecomputePolicy::kFull, .precision = DType::kBF16},
      {.tp = 2, .sp = true},  // only models with tokens
      {.dp = 2, .tp = 2, .sp = true, .microbatches = 2},
      {.cp = 2},
      {.dp = 4, .cp = 2},
      {.dp = 2, .tp = 2, .cp = 2, .zero = 2},
      {.dp = 2, .ep = 2},  // only models with experts
      {.dp = 4, .ep = 2},
      {.dp = 4, .tp = 2, .ep = 2, .sp = true},
      {.dp = 4,
       .microbatches = 1,
       .zero = 3,
       .precision = DType::kF16,
       .gradients = DType::kF16,
       .zero_ranks = 2},
      {.dp = 4,
       .tp = 2,
       .zero = 2,
       .precision = DType::kBF16,
       .products = Products::kFp8,
       .zero_ranks = 2}};
}
inline bool Fits(const std::string& model, const Degrees& degrees) {
  bool tokens = model != "tiny-cnn" && model != "tiny-mlp";
  return (tokens || (degrees.cp == 1 && !degrees.sp)) && (model == "tiny-moe" || degrees.ep == 1);
}

// The strategy of the node that makes a value, on the first stage that has it.
inline std::string StrategyOf(const Model& model, const Plan& plan, const std::string& value) {
  for (size_t n = 0; n < model.graph.nodes.size(); ++n) {
    const Node& node = model.graph.nodes[n];
    if (model.graph.value(node.results[0]).name != value) continue;
    for (const Stage& stage : plan.stages) {
      if (!stage.strategies[n].empty()) {
        return node.op + " " + ToText(stage.mesh, model.rules[n], stage.strategies[n]);
      }
    }
  }
  return "no node makes " + value;
}

}  // namespace heddle
