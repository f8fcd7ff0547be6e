#include "plan/model.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "plan/partition.h"

namespace heddle {
namespace {

// Which nodes are computed from values of these kinds alone.
std::vector<bool> MadeFrom(const Graph& graph, ValueKind kind) {
  std::vector<bool> made(graph.values.size(), false);
  for (size_t v = 0; v < made.size(); ++v) {
    made[v] = graph.values[v].kind == kind || graph.values[v].kind == ValueKind::kConstant;
  }
  std::vector<bool> nodes(graph.nodes.size(), false);
  for (size_t n = 0; n < nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    nodes[n] = std::all_of(node.operands.begin(), node.operands.end(),
                           [&](ValueId id) { return made[id.index()]; });
    for (ValueId id : node.results) made[id.index()] = nodes[n];
  }
  return nodes;
}

bool CarriesBatch(const Model& model, size_t node) {
  if (!model.batch) return false;
  const auto& factors = model.batch->factors[node];
  return std::any_of(factors.begin(), factors.end(),
                     [](const auto& part) { return part.has_value(); });
}

// Layers below everything that is trained are made from inputs and constants alone: they are side nodes, and their blocks
// would have no nodes.
void DropSideCopies(const std::vector<bool>& side, Folding& folding) {
  auto is_side = [&](const std::vector<NodeId>& copy) {
    return std::all_of(copy.begin(), copy.end(), [&](NodeId id) { return side[id.index()]; });
  };
  for (Chain& chain : folding.chains) std::erase_if(chain.copies, is_side);
  std::erase_if(folding.chains, [](const Chain& chain) { return chain.copies.size() < 2; });
}

[[noreturn]] void ForbidMicrobatches(const Model& model, size_t node, const std::string& reason) {
  const Node& at = model.graph.nodes[node];
  ThrowInput("micro-batches are not possible: {} '{}' {}; use 1 micro-batch", at.op,
             model.graph.value(at.results.front()).name, reason);
}

}  // namespace

Model Analyse(Graph graph) {
  Model model;
  model.graph = std::move(graph);
  model.rules = MakeRules(model.graph);
  model.flow = FindGradients(model.graph, model.rules);
  model.readers = Readers(model.graph);
  try {
    model.batch = FindBatch(model.graph, model.rules);
  } catch (const InputError& error) {
    model.no_batch = error.what();
  }
  model.folding = Fold(model.graph, model.rules);
  std::vector<bool> side = MadeFrom(model.graph, ValueKind::kInput);
  model.once = MadeFrom(model.graph, ValueKind::kParameter);
  for (size_t n = 0; n < side.size(); ++n) {
    side[n] = side[n] || model.once[n];
    model.once[n] = model.once[n] && !CarriesBatch(model, n);
  }
  DropSideCopies(side, model.folding);
  model.blocks = PartitionIntoBlocks(model, side);
  model.block_of.assign(model.graph.nodes.size(), -1);
  for (size_t b = 0; b < model.blocks.size(); ++b) {
    for (NodeId id : model.blocks[b].nodes) model.block_of[id.index()] = static_cast<int>(b);
  }
  return model;
}

int64_t BatchSize(const Model& model) { return model.batch ? model.batch->size : 0; }

std::vector<NodeId> SideNodesOf(const Model& model, const std::vector<NodeId>& nodes) {
  std::vector<bool> wanted(model.graph.nodes.size(), false);
  auto want = [&](const Node& node) {
    for (ValueId id : node.operands) {
      NodeId producer = model.graph.value(id).producer;
      if (producer.valid() && model.block_of[producer.index()] < 0) wanted[producer.index()] = true;
    }
  };
  for (NodeId id : nodes) want(model.graph.node(id));
  std::vector<NodeId> side;
  for (size_t n = wanted.size(); n-- > 0;) {
    if (!wanted[n]) continue;
    want(model.graph.nodes[n]);
    side.push_back(NodeId::FromIndex(n));
  }
  std::reverse(side.begin(), side.end());
  return side;
}

Rules MicroRules(const Model& model, int64_t microbatches) {
  Rules rules = model.rules;
  if (microbatches == 1) return rules;
  // Nodes that share a rule and carry the batch in the same factors share the smaller rule too.
  std::map<std::pair<const Rule*, std::vector<bool>>, SharedRule> smaller;
  for (size_t n = 0; n < rules.size(); ++n) {
    std::vector<bool> carries(rules[n].factors.size(), false);
    for (size_t f = 0; f < carries.size() && f < model.batch->factors[n].size(); ++f) {
      carries[f] = model.batch->factors[n][f].has_value();
    }
    SharedRule& rule = smaller[{&model.rules[n], carries}];
    if (!rule) {
      Rule made = model.rules[n];
      for (size_t f = 0; f < carries.size(); ++f) {
        if (carries[f]) made.factors[f].size /= microbatches;
      }
      rule = std::make_shared<const Rule>(std::move(made));
    }
    rules.Set(n, rule);
  }
  return rules;
}

MicrobatchSums FindMicrobatchSums(const Model& model, bool local_statistics) {
  if (!model.batch) ThrowInput("micro-batches are not possible: {}", model.no_batch);
  const Graph& graph = model.graph;
  MicrobatchSums sums{std::vector<bool>(graph.values.size(), false),
                      std::vector<bool>(graph.values.size(), false)};
  std::vector<bool> from_inputs = MadeFrom(graph, ValueKind::kInput);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    const Rule& rule = model.rules[n];
    int batch_factor = -1;
    for (size_t f = 0; f < model.batch->factors[n].size(); ++f) {
      const auto& part = model.batch->factors[n][f];
      if (!part) continue;
      if (part->outer != 1) ForbidMicrobatches(model, n, "has the batch inside another dimension");
      batch_factor = static_cast<int>(f);
    }
    std::vector<int> terms;
    for (size_t o = 0; o < node.operands.size(); ++o) {
      size_t v = node.operands[o].index();
      if (sums.term[v] && !sums.first[v]) terms.push_back(static_cast<int>(o));
    }
    bool summed = false;
    if (batch_factor >= 0) {
      FactorKind kind = rule.factors[static_cast<size_t>(batch_factor)].kind;
      if (kind == FactorKind::kExpanded && !local_statistics) {
        ForbidMicrobatches(model, n, "takes statistics over the whole batch");
      }
      bool lacks = std::any_of(rule.results.begin(), rule.results.end(),
                               [&](const Dims& dims) { return !Has(dims, batch_factor); });
      if (kind == FactorKind::kMaxed && lacks)
        ForbidMicrobatches(model, n, "takes a maximum over the batch");
      summed = lacks && kind == FactorKind::kSummed;
    }
    if (!terms.empty()) {
      bool linear = std::find(rule.linear.begin(), rule.linear.end(), terms) != rule.linear.end();
      if (!linear || batch_factor >= 0) ForbidMicrobatches(model, n, "mixes samples");
    }
    for (size_t r = 0; r < node.results.size(); ++r) {
      size_t v = node.results[r].index();
      sums.term[v] = (summed && !Has(rule.results[r], batch_factor)) || !terms.empty();
      sums.first[v] = sums.term[v] && from_inputs[n];
    }
  }
  return sums;
}

}  // namespace heddle
