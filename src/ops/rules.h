// The rules of all nodes of a graph, in their order.
//
// The nodes of equal layers have equal rules: a rule is made once for all of them and shared, and a copy of the list
// copies no rule.
//
//   Rules rules = MakeRules(graph);  // ops/analysis.h
//   rules[n].factors
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "ops/rule.h"

namespace heddle {

using SharedRule = std::shared_ptr<const Rule>;

class Rules {
 public:
  Rules() = default;

  size_t size() const { return rules_.size(); }
  bool empty() const { return rules_.empty(); }
  const Rule& operator[](size_t node) const { return *rules_[node]; }
  const SharedRule& shared(size_t node) const { return rules_[node]; }

  void reserve(size_t nodes) { rules_.reserve(nodes); }
  void push_back(SharedRule rule) { rules_.push_back(std::move(rule)); }
  void push_back(Rule rule) { rules_.push_back(std::make_shared<const Rule>(std::move(rule))); }
  void Set(size_t node, SharedRule rule) { rules_[node] = std::move(rule); }

 private:
  std::vector<SharedRule> rules_;
};

// Makes rules, each once: nodes with equal op, attributes and operand types share one. It is used by one thread.
class RuleMaker {
 public:
  // Throws as MakeRule does (ops/op.h).
  SharedRule Of(std::string_view op, const Attributes& attributes,
                std::span<const TensorType> operands);
  SharedRule Of(const Graph& graph, const Node& node);

 private:
  struct Made {
    std::string op;
    Attributes attributes;
    std::vector<TensorType> operands;
    SharedRule rule;
  };
  std::unordered_multimap<uint64_t, Made> made_;  // by a hash of what the rule is made from
  std::vector<TensorType> types_;
};

}  // namespace heddle
