// The strategies of a stage as the plan file has them: per chain and per node.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "plan/plan.h"

namespace heddle {

// Writes the stages of a plan in their order: a chain that an earlier stage has alike refers to it.
class StrategyWriter {
 public:
  explicit StrategyWriter(const Model& model) : model_(model) {}
  Json Write(const Stage& stage);

 private:
  const Model& model_;
  int written_ = 0;
  // By chain: what stages listed, and which stage it was.
  std::map<int, std::vector<std::pair<Json, int>>> listed_;
};

// Fills in the strategies of `stage`, whose blocks and mesh are known and within the model; `stages` are all of the
// file, as it has them. Throws InputError
// "file: path: value: remedy" for unknown chains, nodes, ops, axes and factors and for nodes left out.
void ReadStrategies(const Json& json, const Model& model, const Json& stages, std::string_view file,
                    const std::string& path, Stage& stage);

}  // namespace heddle
