// Finds attention that is written as MatMul(Softmax(scale * MatMul(q, k^T) + biases), v).
//
// Numbers that multiply q or k become part of the scale. Constant biases that are exactly the causal mask become the
// attribute `causal`, so that the mask needs no memory and its rows follow a split of the query positions.
// Where(constant, scores, very negative) counts as a bias, too. Grouped-query attention repeats its key and value heads
// by Reshape, Expand, Reshape; these ops are removed, because the op's rule has head groups.
//
// Limit: masked scores count as minus infinity. Where several masks together mask a whole row, whose result has no
// meaning, the result may differ from that of the large finite numbers in the file.
#include <algorithm>
#include <map>
#include <memory>
#include <tuple>

#include "frontend/fuse_passes.h"

namespace heddle {
namespace {

// Scores below this count as minus infinity: their exponentials vanish beside all others.
constexpr double kMasked = -1e4;

bool IsCausalMask(const HostTensor& mask) {
  const Shape& shape = mask.shape;
  if (!IsFloat(mask.dtype) || shape.size() < 2) return false;
  int64_t rows = shape[shape.size() - 2], columns = shape.back();
  if (rows != columns || rows * columns != mask.size()) return false;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      double score = AsDouble(mask, i * columns + j);
      if (j <= i ? score != 0 : !(score <= kMasked)) return false;
    }
  }
  return rows > 1;
}

// Whether every row of a mask has an unmasked entry.
bool KeepsEveryRow(const HostTensor& mask) {
  int64_t columns = mask.shape.empty() ? 1 : mask.shape.back();
  for (int64_t begin = 0; begin < mask.size(); begin += columns) {
    bool kept = false;
    for (int64_t j = 0; j < columns && !kept; ++j) kept = AsDouble(mask, begin + j) > kMasked;
    if (!kept) return false;
  }
  return true;
}

// Results for masks that were examined. All layers read the same masks, and masks are large, so each is examined once.
struct MaskMemo {
  std::map<const HostTensor*, bool> causal;
  std::map<const HostTensor*, ValueId> constants;
  std::map<std::tuple<const HostTensor*, size_t, double, DType>, std::shared_ptr<const HostTensor>>
      of_where;

  bool IsCausal(const std::shared_ptr<const HostTensor>& mask) {
    auto [entry, fresh] = causal.try_emplace(mask.get(), false);
    if (fresh) entry->second = IsCausalMask(*mask);
    return entry->second;
  }
};

struct Scores {
  MaskMemo* memo;
  NodeId product;  // MatMul(q, k^T)
  double scale = 1;
  std::vector<ValueId> biases;
  std::vector<std::shared_ptr<const HostTensor>> masks;  // further biases, made from conditions
  std::vector<NodeId> nodes;
};

// The operand index of the scores in Where(kept, scores, very negative) or Where(masked, very negative, scores).
std::optional<size_t> ScoresOfWhere(const Rewriter& rw, NodeId where) {
  for (size_t side : {1, 2}) {
    std::optional<double> low = rw.Splat(rw.Operand(where, 3 - side));
    if (low && *low <= kMasked) return side;
  }
  return std::nullopt;
}

// The bias that is equivalent to such a Where; null where its condition is not constant.
std::shared_ptr<const HostTensor> MaskOfWhere(const Rewriter& rw, NodeId where, size_t side,
                                              MaskMemo* memo) {
  const Value& condition = rw.value(rw.Operand(where, 0));
  if (condition.kind != ValueKind::kConstant || !condition.data) return nullptr;
  double low = *rw.Splat(rw.Operand(where, 3 - side));
  DType dtype = rw.value(rw.Operand(where, side)).type.dtype;
  auto [entry, fresh] =
      memo->of_where.try_emplace({condition.data.get(), side, low, dtype}, nullptr);
  if (!fresh) return entry->second;
  std::vector<double> numbers;
  for (uint8_t truth : condition.data->as<uint8_t>()) {
    numbers.push_back((truth != 0) == (side == 1) ? 0 : low);
  }
  HostTensor mask = MakeTensor(dtype, condition.type.shape, std::span<const double>(numbers));
  // In a row without kept entries all scores are replaced by equal ones, which a bias cannot express.
  if (KeepsEveryRow(mask)) entry->second = std::make_shared<const HostTensor>(std::move(mask));
  return entry->second;
}

// Removes biases until the scaled product is left. Either operand of an Add may be the scores.
bool MatchScores(const Rewriter& rw, ValueId value, int depth, Scores* scores) {
  constexpr int kMaxBiases = 4;
  auto same_type = [&](ValueId id) { return rw.value(id).type == rw.value(value).type; };
  FlatProduct product = Flatten(rw, value);
  if (product.factors.size() == 1 && same_type(product.factors[0])) {
    if (std::optional<NodeId> matmul = rw.Producer(product.factors[0], "MatMul")) {
      scores->product = *matmul;
      scores->scale = product.scale;
      scores->nodes = product.nodes;
      scores->nodes.push_back(*matmul);
      return true;
    }
  }
  if (depth == kMaxBiases) return false;
  if (std::optional<NodeId> add = rw.Producer(value, "Add")) {
    for (size_t side : {0, 1}) {
      ValueId inner = rw.Operand(*add, side);
      if (!same_type(inner) || !MatchScores(rw, inner, depth + 1, scores)) continue;
      scores->biases.push_back(rw.Operand(*add, 1 - side));
      scores->nodes.push_back(*add);
      return true;
    }
  }
  if (std::optional<NodeId> where = rw.Producer(value, "Where")) {
    std::optional<size_t> side = ScoresOfWhere(rw, *where);
    if (!side || !same_type(rw.Operand(*where, *side)) ||
        !MatchScores(rw, rw.Operand(*where, *side), depth + 1, scores)) {
      return false;
    }
    std::shared_ptr<const HostTensor> mask = MaskOfWhere(rw, *where, *side, scores->memo);
    if (!mask) return false;
    scores->masks.push_back(std::move(mask));
    scores->nodes.push_back(*where);
    return true;
  }
  return false;
}

// The x in Reshape(Expand(Reshape(x))), which repeats [..,h,j,d] to [..,h*g,j,d].
std::optional<ValueId> MatchRepeatedHeads(const Rewriter& rw, ValueId value) {
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
  size_t groups = from.size() - 2;  // the place of the new dimension
  Shape inserted = from, expanded = from, merged = from;
  inserted.insert(inserted.begin() + static_cast<std::ptrdiff_t>(groups), 1);
  expanded.insert(expanded.begin() + static_cast<std::ptrdiff_t>(groups), wide[groups]);
  merged[groups - 1] *= wide[groups];
  if (rw.value(rw.node(*insert).results[0]).type.shape != inserted || wide != expanded ||
      rw.value(value).type.shape != merged) {
    return std::nullopt;
  }
  return x;
}

ValueId SwapLast(Rewriter& rw, NodeId at, ValueId value) {
  std::vector<int64_t> perm;
  for (size_t d = 0; d < rw.value(value).type.shape.size(); ++d)
    perm.push_back(static_cast<int64_t>(d));
  std::swap(perm[perm.size() - 2], perm[perm.size() - 1]);
  return rw.Add(at, "Transpose", {{"perm", perm}}, {value});
}

// The keys whose last two dimensions are swapped to make k^T.
std::optional<ValueId> BeforeSwap(const Rewriter& rw, ValueId value) {
  std::optional<NodeId> swap = rw.Producer(value, "Transpose");
  if (!swap) return std::nullopt;
  std::vector<int64_t> perm = IntsAttr(rw.node(*swap).attributes, "perm");
  for (size_t d = 0; d < perm.size(); ++d) {
    size_t expected = d + 2 < perm.size() ? d : (2 * perm.size() - 3) - d;
    if (perm[d] != static_cast<int64_t>(expected)) return std::nullopt;
  }
  return rw.Operand(*swap, 0);
}

bool SameBatch(const Rewriter& rw, ValueId a, ValueId b) {
  const Shape& x = rw.value(a).type.shape;
  const Shape& y = rw.value(b).type.shape;
  return x.size() == y.size() && std::equal(x.begin(), x.end() - 2, y.begin());
}

// Whether no row of the scores can be masked entirely, so that softmax gives no NaN.
bool NeverNaN(const Rewriter& rw, const Scores& scores) {
  if (scores.biases.empty()) return scores.masks.size() <= 1;
  if (scores.biases.size() > 1 || !scores.masks.empty()) return false;
  const Value& bias = rw.value(scores.biases[0]);
  return bias.kind == ValueKind::kConstant && bias.data && KeepsEveryRow(*bias.data);
}

// Matches MatMul(Softmax(scores), v). The probabilities may be guarded as Where(IsNaN(p), 0, p).
std::optional<Scores> MatchProbabilities(const Rewriter& rw, ValueId value, MaskMemo* memo) {
  std::vector<NodeId> guard;
  if (std::optional<NodeId> where = rw.Producer(value, "Where")) {
    std::optional<NodeId> test = rw.Producer(rw.Operand(*where, 0), "IsNaN");
    value = rw.Operand(*where, 2);
    if (!test || rw.Operand(*test, 0) != value || rw.Splat(rw.Operand(*where, 1)) != 0.0) {
      return std::nullopt;
    }
    guard = {*where, *test};
  }
  std::optional<NodeId> softmax = rw.Producer(value, "Softmax");
  if (!softmax) return std::nullopt;
  int64_t rank = static_cast<int64_t>(rw.value(value).type.shape.size());
  int64_t axis = IntAttr(rw.node(*softmax).attributes, "axis", -1);
  if (rank < 3 || (axis != -1 && axis != rank - 1)) return std::nullopt;
  Scores scores{memo, {}, 1, {}, {}, {}};
  if (!MatchScores(rw, rw.Operand(*softmax, 0), 0, &scores)) return std::nullopt;
  if (!guard.empty() && !NeverNaN(rw, scores)) return std::nullopt;
  scores.nodes.push_back(*softmax);
  scores.nodes.insert(scores.nodes.end(), guard.begin(), guard.end());
  return scores;
}

// Returns x where the value is a number times x, and multiplies the number into `scale`.
ValueId TakeScale(const Rewriter& rw, ValueId value, double* scale) {
  FlatProduct product = Flatten(rw, value);
  if (product.factors.size() != 1 || rw.value(product.factors[0]).type != rw.value(value).type) {
    return value;
  }
  *scale *= product.scale;
  return product.factors[0];
}

// Merges the biases into one operand, if any remain besides the causal mask.
std::optional<ValueId> MergeBiases(Rewriter& rw, NodeId at, Scores& scores, bool* causal) {
  std::optional<ValueId> bias;
  auto merge = [&](ValueId each) { bias = bias ? rw.Add(at, "Add", {}, {*bias, each}) : each; };
  for (ValueId each : scores.biases) {
    const Value& value = rw.value(each);
    bool constant = value.kind == ValueKind::kConstant && value.data;
    if (constant && !*causal && scores.memo->IsCausal(value.data)) {
      *causal = true;
    } else {
      merge(each);
    }
  }
  for (const std::shared_ptr<const HostTensor>& mask : scores.masks) {
    if (!*causal && scores.memo->IsCausal(mask)) {
      *causal = true;
    } else {
      auto [entry, fresh] = scores.memo->constants.try_emplace(mask.get());
      if (fresh) entry->second = rw.AddConstant(mask);
      merge(entry->second);
    }
  }
  return bias;
}

void TryAttention(Rewriter& rw, NodeId id, MaskMemo* memo) {
  std::optional<Scores> scores = MatchProbabilities(rw, rw.Operand(id, 0), memo);
  if (!scores || !rw.Closed(scores->nodes, id)) return;
  ValueId q = rw.Operand(scores->product, 0), turned = rw.Operand(scores->product, 1);
  ValueId v = rw.Operand(id, 1);
  if (!SameBatch(rw, q, turned) || !SameBatch(rw, q, v)) return;

  q = TakeScale(rw, q, &scores->scale);
  turned = TakeScale(rw, turned, &scores->scale);
  std::optional<ValueId> straight = BeforeSwap(rw, turned);
  ValueId k = straight ? TakeScale(rw, *straight, &scores->scale) : SwapLast(rw, id, turned);
  std::optional<ValueId> few_keys = MatchRepeatedHeads(rw, k);
  std::optional<ValueId> few_values = MatchRepeatedHeads(rw, v);
  if (few_keys && few_values && SameBatch(rw, *few_keys, *few_values)) {
    k = *few_keys;
    v = *few_values;
  }
  bool causal = false;
  std::optional<ValueId> bias = MergeBiases(rw, id, *scores, &causal);
  std::vector<ValueId> operands = {q, k, v};
  if (bias) operands.push_back(*bias);
  rw.Replace(rw.node(id).results[0],
             rw.Add(id, "Attention", {{"scale", scores->scale}, {"causal", int64_t{causal}}},
                    std::move(operands)));
}

}  // namespace

Graph FuseAttention(Graph graph) {
  Rewriter rw(std::move(graph));
  MaskMemo memo;
  for (NodeId id : rw.Nodes()) {
    if (rw.node(id).op == "MatMul") TryAttention(rw, id, &memo);
  }
  return rw.Finish();
}

}  // namespace heddle
