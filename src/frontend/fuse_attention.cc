// Attention written out: MatMul(Softmax(scale * MatMul(q, k^T) + biases), v).
//
// Constant biases that are exactly the causal mask become the attribute `causal`, so that the mask needs
// no memory and its rows follow a split of the query positions. Grouped-query attention repeats its key and value
// heads by Reshape, Expand, Reshape; that is undone, the op's rule knows head groups.
#include <cmath>

#include "frontend/fuse_passes.h"

namespace heddle {
namespace {

// Below this a score is as good as minus infinity.
constexpr double kMasked = -1e9;

bool IsCausalMask(const Value& value) {
  if (value.kind != ValueKind::kConstant || !value.data || value.data->dtype != DType::kF32) return false;
  const Shape& shape = value.type.shape;
  if (shape.size() < 2) return false;
  int64_t rows = shape[shape.size() - 2], columns = shape.back();
  if (rows != columns || rows * columns != value.data->size()) return false;
  std::span<const float> mask = value.data->as<float>();
  for (int64_t i = 0; i < rows; ++i) {
    const float* row = mask.data() + i * columns;
    for (int64_t j = 0; j < columns; ++j) {
      if (j <= i ? row[j] != 0 : !(row[j] <= kMasked)) return false;
    }
  }
  return rows > 1;
}

struct Scores {
  NodeId product;  // MatMul(q, k^T)
  double scale = 1;
  std::vector<ValueId> biases;
  std::vector<NodeId> nodes;
};

// Peels Adds of biases off until the scaled product is left. Either side of an Add may be the scores.
std::optional<Scores> MatchScores(const Rewriter& rw, ValueId value) {
  Scores scores;
  while (std::optional<NodeId> add = rw.Producer(value, "Add")) {
    scores.nodes.push_back(*add);
    size_t side = 0;
    for (size_t s : {0, 1}) {
      ValueId candidate = rw.Operand(*add, s);
      bool like = rw.Producer(candidate, "MatMul") || rw.Producer(candidate, "Mul") ||
                  rw.Producer(candidate, "Div") || rw.Producer(candidate, "Add");
      if (like && rw.value(candidate).type == rw.value(value).type) {
        side = s;
        break;
      }
    }
    scores.biases.push_back(rw.Operand(*add, 1 - side));
    value = rw.Operand(*add, side);
  }
  FlatProduct product = Flatten(rw, value);
  if (product.factors.size() != 1) return std::nullopt;
  std::optional<NodeId> matmul = rw.Producer(product.factors[0], "MatMul");
  if (!matmul) return std::nullopt;
  scores.product = *matmul;
  scores.scale = product.scale;
  scores.nodes.insert(scores.nodes.end(), product.nodes.begin(), product.nodes.end());
  scores.nodes.push_back(*matmul);
  return scores;
}

// [..,h,j,d] repeated to [..,h*g,j,d] by Reshape(Expand(Reshape(x))): x.
std::optional<ValueId> MatchRepeatedHeads(const Rewriter& rw, ValueId value,
                                          std::vector<NodeId>* nodes) {
  std::optional<NodeId> merge = rw.Producer(value, "Reshape");
  if (!merge) return std::nullopt;
  std::optional<NodeId> repeat = rw.Producer(rw.Operand(*merge, 0), "Expand");
  if (!repeat) return std::nullopt;
  std::optional<NodeId> insert = rw.Producer(rw.Operand(*repeat, 0), "Reshape");
  if (!insert) return std::nullopt;
  ValueId x = rw.Operand(*insert, 0);
  const Shape& from = rw.value(x).type.shape;
  const Shape& wide = rw.value(rw.node(*repeat).results[0]).type.shape;
  if (from.size() < 3 || wide.size() != from.size() + 1) return std::nullopt;
  size_t groups = from.size() - 2;  // where the new dimension stands
  Shape inserted = from, expanded = from, merged = from;
  inserted.insert(inserted.begin() + static_cast<std::ptrdiff_t>(groups), 1);
  expanded.insert(expanded.begin() + static_cast<std::ptrdiff_t>(groups), wide[groups]);
  merged[groups - 1] *= wide[groups];
  if (rw.value(rw.node(*insert).results[0]).type.shape != inserted || wide != expanded ||
      rw.value(value).type.shape != merged) {
    return std::nullopt;
  }
  nodes->insert(nodes->end(), {*merge, *repeat, *insert});
  return x;
}

ValueId SwapLast(Rewriter& rw, NodeId at, ValueId value) {
  std::vector<int64_t> perm;
  for (size_t d = 0; d < rw.value(value).type.shape.size(); ++d) perm.push_back(static_cast<int64_t>(d));
  std::swap(perm[perm.size() - 2], perm[perm.size() - 1]);
  return rw.Add(at, "Transpose", {{"perm", perm}}, {value});
}

// The keys behind k^T, if it is made by swapping the last two dimensions.
std::optional<ValueId> BeforeSwap(const Rewriter& rw, ValueId value, std::vector<NodeId>* nodes) {
  std::optional<NodeId> swap = rw.Producer(value, "Transpose");
  if (!swap) return std::nullopt;
  std::vector<int64_t> perm = IntsAttr(rw.node(*swap).attributes, "perm");
  for (size_t d = 0; d < perm.size(); ++d) {
    size_t expected = d + 2 < perm.size() ? d : (2 * perm.size() - 3) - d;
    if (perm[d] != static_cast<int64_t>(expected)) return std::nullopt;
  }
  nodes->push_back(*swap);
  return rw.Operand(*swap, 0);
}

bool SameBatch(const Rewriter& rw, ValueId a, ValueId b) {
  const Shape& x = rw.value(a).type.shape;
  const Shape& y = rw.value(b).type.shape;
  return x.size() == y.size() && std::equal(x.begin(), x.end() - 2, y.begin());
}

void TryAttention(Rewriter& rw, NodeId id) {
  std::optional<NodeId> softmax = rw.Producer(rw.Operand(id, 0), "Softmax");
  if (!softmax) return;
  ValueId probabilities = rw.node(*softmax).results[0];
  int64_t rank = static_cast<int64_t>(rw.value(probabilities).type.shape.size());
  int64_t axis = IntAttr(rw.node(*softmax).attributes, "axis", -1);
  if (rank < 3 || (axis != -1 && axis != rank - 1)) return;
  std::optional<Scores> scores = MatchScores(rw, rw.Operand(*softmax, 0));
  if (!scores) return;
  std::vector<NodeId> nodes = scores->nodes;
  nodes.push_back(*softmax);
  if (!rw.Closed(nodes, id)) return;
  ValueId q = rw.Operand(scores->product, 0), turned = rw.Operand(scores->product, 1);
  ValueId v = rw.Operand(id, 1);
  if (!SameBatch(rw, q, turned) || !SameBatch(rw, q, v)) return;

  std::vector<NodeId> ignored;
  std::optional<ValueId> straight = BeforeSwap(rw, turned, &ignored);
  ValueId k = straight ? *straight : SwapLast(rw, id, turned);
  std::optional<ValueId> few_keys = MatchRepeatedHeads(rw, k, &ignored);
  std::optional<ValueId> few_values = MatchRepeatedHeads(rw, v, &ignored);
  if (few_keys && few_values && SameBatch(rw, *few_keys, *few_values)) {
    k = *few_keys;
    v = *few_values;
  }
  bool causal = false;
  std::optional<ValueId> bias;
  for (ValueId each : scores->biases) {
    if (!causal && IsCausalMask(rw.value(each))) {
      causal = true;
    } else {
      bias = bias ? rw.Add(id, "Add", {}, {*bias, each}) : each;
    }
  }
  std::vector<ValueId> operands = {q, k, v};
  if (bias) operands.push_back(*bias);
  rw.Replace(rw.node(id).results[0],
             rw.Add(id, "Attention", {{"scale", scores->scale}, {"causal", int64_t{causal}}},
                    std::move(operands)));
}

}  // namespace

Graph FuseAttention(Graph graph) {
  Rewriter rw(std::move(graph));
  for (NodeId id : rw.Nodes()) {
    if (rw.node(id).op == "MatMul") TryAttention(rw, id);
  }
  return rw.Finish();
}

}  // namespace heddle
