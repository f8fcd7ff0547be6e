#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/check.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "ops/families.h"
#include "ops/op.h"

namespace heddle {
namespace {

std::vector<OpDef> CollectOps() {
  std::vector<OpDef> all;
  for (auto family : {ElementwiseOps, ContractionOps, ConvolutionOps, NormalisationOps,
                      ReductionOps, MovementOps, IndexingOps, LossOps, RandomOps}) {
    for (OpDef& op : family()) all.push_back(std::move(op));
  }
  return all;
}

const std::vector<OpDef>& Ops() {
  static const std::vector<OpDef> ops = CollectOps();
  return ops;
}

void CheckOperands(const OpDef& op, const Attributes& attributes,
                   std::span<const TensorType> operands) {
  int given = static_cast<int>(operands.size());
  if (given < op.min_operands || (op.max_operands >= 0 && given > op.max_operands)) {
    ThrowInput("{} operands given, {} expected", given,
               op.max_operands < 0 ? fmt::format("at least {}", op.min_operands)
               : op.min_operands == op.max_operands
                   ? fmt::format("{}", op.min_operands)
                   : fmt::format("{} to {}", op.min_operands, op.max_operands));
  }
  for (const auto& [name, value] : attributes) {
    if (std::find(op.attributes.begin(), op.attributes.end(), name) == op.attributes.end()) {
      ThrowInput("unknown attribute '{}'", name);
    }
  }
  for (size_t o = 0; o < operands.size(); ++o) {
    ByteCount(operands[o], fmt::format("operand {}", o));
  }
}

// Sizes are multiplied with care here once, so that LocalShape need not.
void CheckResultSizes(const Rule& rule) {
  for (size_t r = 0; r < rule.results.size(); ++r) {
    Shape shape;
    for (const Dim& dim : rule.results[r]) {
      int64_t size = 0;
      for (const Product& term : dim.terms) {
        int64_t product = 1;
        for (int f : term) {
          product = CheckedMul(product, rule.factors[static_cast<size_t>(f)].size, "a result size");
        }
        size = CheckedAdd(size, product, "a result size");
      }
      shape.push_back(size);
    }
    ByteCount({rule.result_dtypes[r], std::move(shape)}, "the result");
  }
}

}  // namespace

std::span<const OpDef> AllOps() { return Ops(); }

const OpDef* FindOp(std::string_view name) {
  static const std::unordered_map<std::string_view, const OpDef*> index = [] {
    std::unordered_map<std::string_view, const OpDef*> map;
    for (const OpDef& op : Ops()) {
      bool fresh = map.emplace(op.name, &op).second;
      HEDDLE_CHECK(fresh, "op {} is listed twice", op.name);
    }
    return map;
  }();
  auto it = index.find(name);
  return it == index.end() ? nullptr : it->second;
}

const OpTraits& TraitsOf(std::string_view op) {
  const OpDef* def = FindOp(op);
  HEDDLE_CHECK(def != nullptr, "op '{}' is unknown", op);
  return def->traits;
}

Rule MakeRule(std::string_view op, const Attributes& attributes,
              std::span<const TensorType> operands) {
  const OpDef* def = FindOp(op);
  if (def == nullptr) ThrowInput("op '{}' is unknown", op);
  try {
    CheckOperands(*def, attributes, operands);
    Rule rule = def->rule(OpContext{attributes, operands});
    for (const Dims& dims : rule.results) {
      if (static_cast<int64_t>(dims.size()) > kMaxRank) {
        ThrowInput("the result has {} dimensions, more than {}", dims.size(), kMaxRank);
      }
    }
    CheckResultSizes(rule);
    if (!IsFloat(rule.result_dtypes.front())) rule.differentiable.clear();
    return rule;
  } catch (const InputError& error) {
    ThrowInput("{}: {}", op, error.what());
  }
}

Rule MakeRule(const Graph& graph, const Node& node) {
  std::vector<TensorType> types;
  for (ValueId id : node.operands) types.push_back(graph.value(id).type);
  return MakeRule(node.op, node.attributes, types);
}

std::vector<ValueId> AddOp(Graph& graph, std::string_view op, Attributes attributes,
                           std::vector<ValueId> operands, std::string_view name) {
  std::vector<TensorType> types;
  for (ValueId id : operands) types.push_back(graph.value(id).type);
  Rule rule = MakeRule(op, attributes, types);
  NodeId node = graph.AddNode(std::string(op), std::move(attributes), std::move(operands));
  std::vector<ValueId> results;
  for (TensorType& type : ResultTypes(rule)) {
    std::string result_name =
        rule.results.size() == 1 ? std::string(name) : fmt::format("{}.{}", name, results.size());
    results.push_back(graph.AddResult(node, std::move(result_name), std::move(type)));
  }
  return results;
}

void CheckTypes(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    const std::string& name = graph.value(node.results.front()).name;
    std::vector<TensorType> types;
    try {
      types = ResultTypes(MakeRule(graph, node));
    } catch (const InputError& error) {
      ThrowInput("'{}': {}", name, error.what());
    }
    if (types.size() != node.results.size()) {
      ThrowInput("'{}': {} has {} results, {} stated", name, node.op, types.size(),
                 node.results.size());
    }
    for (size_t r = 0; r < types.size(); ++r) {
      const Value& value = graph.value(node.results[r]);
      if (value.type != types[r]) {
        ThrowInput("'{}': stated as {} but {} gives {}", value.name, ToString(value.type), node.op,
                   ToString(types[r]));
      }
    }
  }
}

}  // namespace heddle
