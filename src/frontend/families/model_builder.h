// Writing a model as one writes it in PyTorch, over the ops of `ops/`.
//
//   ModelBuilder b("mlp");
//   ValueId x = b.Input("x", DType::kF32, {8, 192});
//   {
//     auto scope = b.In("hidden");  // parameters are hidden.up.weight, hidden.up.bias
//     x = b.Op("Relu", {b.Linear(x, 768, "up")});
//   }
//   Graph graph = b.Finish(b.CrossEntropy(b.Linear(x, 10, "head"), labels));
//
// Parameters have names but no data. Asking twice for a parameter gives the same one: a tied
// weight. What does not fit throws InputError; so does a model of more than kMaxModelNodes ops or
// of more than kMaxConstantBytes of constants.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/graph.h"

namespace heddle {

inline constexpr int64_t kMaxModelNodes = 100'000;
inline constexpr int64_t kMaxConstantBytes = int64_t{1} << 30;

struct LinearOptions {
  bool bias = true;
  bool transposed = true;  // the weight is [out, in] as in torch.nn.Linear; otherwise [in, out]
};

struct WindowOptions {
  int64_t stride = 1;
  std::vector<int64_t> pads = {0, 0};  // per spatial dimension, the same at both ends
  bool bias = false;
};

struct AttentionOptions {
  double scale = 1;
  bool causal = false;
  ValueId bias = {};   // added to the scores, where valid
  double dropout = 0;  // of the probabilities; above 0, attention is separate ops
};

// Of attention as separate ops.
struct ProbabilityOptions {
  ValueId scale = {};   // a scalar that multiplies the scores; 1 where not valid
  ValueId bias = {};    // added to the scores, where valid
  ValueId seen = {};    // where it is false, the score is `unseen`; all is seen where not valid
  ValueId unseen = {};  // a scalar
  double dropout = 0;   // of the probabilities
};

// A gated mlp has three matrices instead of two.
bool IsGated(const std::string& mlp);

// The constants of a causal mask, as ProbabilityOptions takes them.
struct CausalMask {
  ValueId seen, unseen;
};

class ModelBuilder {
 public:
  explicit ModelBuilder(std::string name);

  // Until it is destroyed, names begin with "prefix.".
  class Scope {
   public:
    Scope(ModelBuilder& builder, std::string_view name);
    ~Scope() { builder_.prefix_.resize(length_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    ModelBuilder& builder_;
    size_t length_;
  };
  [[nodiscard]] Scope In(std::string_view name) { return Scope(*this, name); }

  ValueId Input(std::string_view name, DType dtype, Shape shape);
  ValueId Parameter(std::string_view name, Shape shape);
  ValueId Constant(std::string_view name, HostTensor data);
  // first, first + 1, ... as i64, as many as the shape has elements.
  ValueId Range(std::string_view name, Shape shape, int64_t first = 0);
  ValueId Scalar(std::string_view name, double value);
  // Who sees whom [1,1,seq,seq], "name.seen": a token sees itself and what comes before it; and the score
  // of whom it does not see, "name.unseen".
  CausalMask Causal(std::string_view name, int64_t seq);
  // Before a large constant is made: throws where it would take the model past kMaxConstantBytes.
  void RequireConstant(int64_t count, int64_t bytes, std::string_view what) const;

  // Any op: its only result, or all of them.
  ValueId Op(std::string_view op, std::vector<ValueId> operands, Attributes attributes = {});
  std::vector<ValueId> Ops(std::string_view op, std::vector<ValueId> operands,
                           Attributes attributes);

  const Shape& shape(ValueId id) const { return graph_.value(id).type.shape; }
  int64_t dim(ValueId id, int64_t axis) const;  // from either end

  ValueId Add(ValueId a, ValueId b) { return Op("Add", {a, b}); }
  ValueId Mul(ValueId a, ValueId b) { return Op("Mul", {a, b}); }
  ValueId Reshape(ValueId x, Shape to) { return Op("Reshape", {x}, {{"shape", std::move(to)}}); }
  ValueId Transpose(ValueId x, std::vector<int64_t> perm) {
    return Op("Transpose", {x}, {{"perm", std::move(perm)}});
  }
  ValueId Concat(std::vector<ValueId> parts, int64_t axis);
  std::vector<ValueId> Split(ValueId x, std::vector<int64_t> sizes, int64_t axis);
  ValueId Slice(ValueId x, int64_t axis, int64_t start, int64_t end);
  ValueId Cast(ValueId x, DType to);
  ValueId Dropout(ValueId x, double ratio);  // x itself where the ratio is 0
  ValueId Gelu(ValueId x, std::string_view approximate);
  // The activation of an mlp by the name that the key `mlp` of the families gives it: gelu (the tanh
  // approximation), gelu_erf (the exact one), relu, squared_relu, silu; of a gated mlp (IsGated) that of
  // its gate: swiglu, geglu, geglu_erf.
  ValueId Activate(const std::string& mlp, ValueId x);

  ValueId Linear(ValueId x, int64_t out, std::string_view name, LinearOptions options = {});
  // x times a parameter of another layer, as it lies there: [out, in].
  ValueId TiedLinear(ValueId x, ValueId weight) {
    return Op("Linear", {x, weight}, {{"transpose_weight", int64_t{1}}});
  }
  ValueId Embedding(ValueId table, ValueId ids) {
    return Op("Gather", {table, ids}, {{"axis", int64_t{0}}});
  }
  ValueId LayerNorm(ValueId x, std::string_view name, double epsilon, bool bias = true);
  ValueId RMSNorm(ValueId x, std::string_view name, double epsilon);

  // [b,s,h*d] -> [b,h,s,d] and back.
  ValueId SplitHeads(ValueId x, int64_t heads);
  ValueId MergeHeads(ValueId x);
  ValueId Attention(ValueId q, ValueId k, ValueId v, AttentionOptions options);
  // softmax(scale q k^T + bias, masked) after dropout, [b,h,s,s]: what multiplies v where attention is not
  // one fused op. Only there can probabilities be dropped out.
  ValueId AttentionProbabilities(ValueId q, ValueId k, const ProbabilityOptions& options);

  ValueId Conv(ValueId x, int64_t out, std::vector<int64_t> kernel, std::string_view name,
               WindowOptions options);
  ValueId BatchNorm(ValueId x, std::string_view name, double epsilon);
  ValueId MaxPool(ValueId x, int64_t kernel, int64_t stride, int64_t pad = 0);
  ValueId AveragePool(ValueId x, int64_t kernel, int64_t stride, int64_t pad = 0);

  // The mean over all labels that are not -100. Leading dimensions are flattened.
  ValueId CrossEntropy(ValueId logits, ValueId labels);

  // The model, which must be sound (a builder that is not has a bug).
  Graph Finish(ValueId loss);

 private:
  ValueId DroppedAttention(ValueId q, ValueId k, ValueId v, const AttentionOptions& options);
  std::string Unique(std::string_view name);
  std::vector<ValueId> Named(std::string_view op, std::vector<ValueId> operands,
                             Attributes attributes, std::string_view name);

  Graph graph_;
  std::string prefix_;
  std::unordered_map<std::string, ValueId> parameters_;
  std::unordered_map<std::string, int64_t> used_;  // how often a name was asked for
  std::unordered_set<std::string> names_;
  // What attention with dropout reads, made by the first layer for all: by value and by length.
  std::map<double, ValueId> attention_scales_;
  std::map<int64_t, CausalMask> causal_masks_;
  int64_t constant_bytes_ = 0;
};

}  // namespace heddle
