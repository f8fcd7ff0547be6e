// Makes the choices of nodes, once for all nodes that are alike.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "search/prices/stage_problem.h"

namespace heddle {

class ChoiceMaker {
 public:
  explicit ChoiceMaker(StageCosts& costs);

  // `sole` marks the operands that are parameters without other readers: their storage and
  // reduction are charged to the node.
  std::shared_ptr<const NodeChoices> Of(NodeId node, const std::vector<bool>& sole,
                                        const KeptParts& kept);

 private:
  bool MustBeWhole(ValueId value) const;
  std::shared_ptr<const NodeChoices> Make(NodeId node, const std::vector<bool>& sole,
                                          const KeptParts& kept);

  StageCosts& costs_;
  std::vector<int> alike_;  // per node: the corresponding node of its chain's first copy
  std::map<std::vector<int>, std::shared_ptr<const NodeChoices>> made_;
};

}  // namespace heddle
