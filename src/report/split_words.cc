#include "report/split_words.h"

#include <algorithm>

#include "ops/traits.h"

namespace heddle {
namespace {

bool IsCrossEntropy(const Node& node) {
  return TraitsOf(node.op).cross_entropy == CrossEntropyPart::kWhole;
}

bool IsProduct(const Rule& rule) {
  return std::any_of(rule.work.begin(), rule.work.end(),
                     [](const WorkTerm& term) { return term.contraction; });
}

bool IsParameter(const Model& model, ValueId value) {
  return model.graph.value(value).kind == ValueKind::kParameter;
}

// True if the factor is a dimension of an operand that is a parameter.
bool InParameter(const Model& model, NodeId id, int factor) {
  const Node& node = model.graph.node(id);
  const Rule& rule = model.rules[id.index()];
  for (size_t o = 0; o < node.operands.size(); ++o) {
    if (IsParameter(model, node.operands[o]) && Has(rule.operands[o], factor)) return true;
  }
  return false;
}

bool InAllOperands(const Rule& rule, int factor) {
  return std::all_of(rule.operands.begin(), rule.operands.end(),
                     [&](const Dims& dims) { return dims.empty() || Has(dims, factor); });
}

// True if the op normalises channels by statistics over all samples.
bool NormalisesChannels(const OpTraits& traits) {
  return traits.statistics == NormStatistics::kBatch || traits.statistics == NormStatistics::kGiven;
}

// [..., heads, queries, width].
std::string AttentionWord(const Rule& rule, int factor) {
  const Dims& result = rule.results[0];
  if (Has({result.back()}, factor)) return "width";
  return Has({result[result.size() - 2]}, factor) ? "queries" : "heads";
}

}  // namespace

SplitWords::SplitWords(const Model& model)
    : model_(model), sequence_(FindSequence(model.graph, model.rules)) {
  for (const Node& node : model.graph.nodes) {
    if (!IsCrossEntropy(node) || node.operands.empty()) continue;
    const Shape& logits = model.graph.value(node.operands[0]).type.shape;
    if (logits.size() > 1) vocabulary_ = logits[1];
    head_ = model.graph.value(node.operands[0]).producer;
  }
  while (head_.valid() && !IsProduct(model.rules[head_.index()])) {
    const std::vector<ValueId>& operands = model.graph.node(head_).operands;
    head_ = operands.empty() ? NodeId{} : model.graph.value(operands[0]).producer;
  }
}

std::string SplitWords::ProductWord(NodeId id, int f) const {
  const Rule& rule = model_.rules[id.index()];
  const Factor& factor = rule.factors[static_cast<size_t>(f)];
  OpKind kind = TraitsOf(model_.graph.node(id).op).kind;
  bool conv = kind == OpKind::kConvolution;
  if (factor.kind == FactorKind::kSummed) return conv ? "in channels" : "rows";
  bool parameter = InParameter(model_, id, f);
  if (InAllOperands(rule, f) && Has(rule.results[0], f)) return parameter ? "experts" : "heads";
  if (!parameter) return kind == OpKind::kAttention ? AttentionWord(rule, f) : "columns";
  return id == head_ ? "vocabulary" : conv ? "out channels" : "columns";
}

std::string SplitWords::Of(NodeId id, AxisChoice choice) const {
  if (choice == kReplicate) return "-";
  if (choice.is_partial()) return "partial sums";
  size_t n = id.index(), f = choice.factor_index();
  const Rule& rule = model_.rules[n];
  const Factor& factor = rule.factors[f];
  bool batch = model_.batch && model_.batch->factors[n].size() > f && model_.batch->factors[n][f];
  bool sequence = sequence_.found && sequence_.factors[n][f].has_value();
  if (batch) return sequence ? "tokens" : "batch";
  if (sequence) return "sequence";
  const Node& node = model_.graph.node(id);
  const OpTraits& traits = TraitsOf(node.op);
  if (IsCrossEntropy(node) && factor.kind != FactorKind::kParallel) return "vocabulary";
  if (IsProduct(rule)) return ProductWord(id, choice.factor());
  bool parameter = InParameter(model_, id, choice.factor());
  if (parameter && factor.kind == FactorKind::kSummed) {
    return traits.lookup == LookupKind::kRows && factor.size == vocabulary_ ? "vocabulary" : "rows";
  }
  if (parameter) return NormalisesChannels(traits) ? "channels" : "columns";
  const Dims& result = rule.results[0];
  bool last = !result.empty() && Has({result.back()}, choice.factor());
  return last ? "width" : "dimension " + factor.name;
}

bool ComputesStatistics(const Node& node) {
  NormStatistics statistics = TraitsOf(node.op).statistics;
  return statistics == NormStatistics::kSample || statistics == NormStatistics::kBatch;
}

bool Matters(const Model& model, NodeId id) {
  const Node& node = model.graph.node(id);
  if (IsProduct(model.rules[id.index()]) || ComputesStatistics(node)) return true;
  return std::any_of(node.operands.begin(), node.operands.end(),
                     [&](ValueId value) { return IsParameter(model, value); });
}

}  // namespace heddle
