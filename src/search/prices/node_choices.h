// The choices of nodes, made once for all that are alike.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "search/prices/stage_problem.h"

namespace heddle {

class ChoiceMaker {
 public:
  explicit ChoiceMaker(StageCosts& costs);

  // `sole` are the operands that are parameters nobody else reads: storing and reducing them is charged to the node.
  std::shared_ptr<const NodeChoices> Of(NodeId node, const std::vector<bool>& sole,
                                        const KeptParts& kept);

 private:
  bool MustBeWhole(ValueId value) const;
  std::shared_ptr<const NodeChoices> Make(NodeId node, const std::vector<bool>& sole,
                                          const KeptParts& kept);

  StageCosts& costs_;
  std::vector<int> alike_;  // per node: the first one of its chain that is alike
  std::map<std::vector<int>, std::shared_ptr<const NodeChoices>> made_;
};

}  // namespace heddle
