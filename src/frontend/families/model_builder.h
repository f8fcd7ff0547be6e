// Builds models in the style of PyTorch code from the ops of `ops/`.
//
//   ModelBuilder b("mlp");
//   ValueId x = b.Input("x", DType::kF32, {8, 192});
//   {
//     auto scope = b.In("hidden");  // parameters are hidden.up.weight, hidden.up.bias
//     x = b.Op("Relu", {b.Linear(x, 768, "up")});
//   }
//   Graph graph = b.Finish(b.CrossEntropy(b.Linear(x, 10, "head"), labels));
//
// Parameters have names but no data. Asking for a parameter again returns the same one, which ties the weights.
// Operands that do not match throw an InputError; so does a model of more than kMaxModelNodes ops or kMaxConstantBytes
// of constants.
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
  std::vector<int64_t> pads = {0, 0};  // per spatial dimension, equal at both ends
  bool bias = false;
};

struct AttentionOptions {
  double scale = 1;
  bool causal = false;
  ValueId bias = {};   // added to the scores, where valid
  double dropout = 0;  // of the probabilities; if it is above 0, attention is separate ops
};

// Options of attention as separate ops.
struct ProbabilityOptions {
  ValueId scale = {};  // a scalar that multiplies the scores; 1 where it is not valid
  ValueId bias = {};   // added to the scores, where valid
  // The score is `masked_score` where this is false; nothing is masked where it is not valid.
  ValueId visible = {};
  ValueId masked_score = {};  // a scalar
  double dropout = 0;         // of the probabilities
};

// A gated mlp has three matrices instead of two.
bool IsGated(const std::string& mlp);

// The constants of a causal mask, for ProbabilityOptions.
struct CausalMask {
  ValueId visible, masked_score;
};

class ModelBuilder {
 public:
  explicit ModelBuilder(std::string name);

  // While it exists, names begin with "prefix.".
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
  // The numbers first, first + 1, ... as i64, one per element of the shape.
  ValueId Range(std::string_view name, Shape shape, int64_t first = 0);
  ValueId Scalar(std::string_view name, double value);
  // The visibility of tokens [1,1,seq,seq], "name.seen", in which a token sees itself and earlier ones, and the score
  // of tokens that are not visible, "name.unseen".
  CausalMask Causal(std::string_view name, int64_t seq);
  // To be called before a large constant is made: throws where it would exceed kMaxConstantBytes.
  void RequireConstant(int64_t count, int64_t bytes, std::string_view what) const;

  // Applies any op. Op returns its only result, Ops all of them.
  ValueId Op(std::string_view op, std::vector<ValueId> operands, Attributes attributes = {});
  std::vector<ValueId> Ops(std::string_view op, std::vector<ValueId> operands,
                           Attributes attributes);

  const Shape& shape(ValueId id) const { return graph_.value(id).type.shape; }
  int64_t dim(ValueId id, int64_t axis) const;  // negative axes count from the end

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
  // Applies the activation of an mlp, with the name that the key `mlp` of the families uses: gelu (the tanh
  // approximation), gelu_erf (the exact one), relu, squared_relu, silu; for a gated mlp (IsGated) the activation of its
  // gate: swiglu, geglu, geglu_erf.
  ValueId Activate(const std::string& mlp, ValueId x);

  ValueId Linear(ValueId x, int64_t out, std::string_view name, LinearOptions options = {});
  // x times an existing parameter with layout [out, in].
  ValueId TiedLinear(ValueId x, ValueId weight) {
    return Op("Linear", {x, weight}, {{"transpose_weight", int64_t{1}}});
  }
  ValueId Embedding(ValueId table, ValueId ids) {
    return Op("Gather", {table, ids}, {{"axis", int64_t{0}}});
  }
  ValueId LayerNorm(ValueId x, std::string_view name, double epsilon, bool bias = true);
  ValueId RMSNorm(ValueId x, std::string_view name, double epsilon);

  // [b,s,h*d] -> [b,h,s,d], and back.
  ValueId SplitHeads(ValueId x, int64_t heads);
  ValueId MergeHeads(ValueId x);
  ValueId Attention(ValueId q, ValueId k, ValueId v, AttentionOptions options);
  // softmax(scale q k^T + bias, masked) after dropout, [b,h,s,s], which multiplies v where attention is not one fused
  // op. Only then can probabilities be dropped out.
  ValueId AttentionProbabilities(ValueId q, ValueId k, const ProbabilityOptions& options);

  ValueId Conv(ValueId x, int64_t out, std::vector<int64_t> kernel, std::string_view name,
               WindowOptions options);
  ValueId BatchNorm(ValueId x, std::string_view name, double epsilon);
  ValueId MaxPool(ValueId x, int64_t kernel, int64_t stride, int64_t pad = 0);
  ValueId AveragePool(ValueId x, int64_t kernel, int64_t stride, int64_t pad = 0);

  // The mean over all labels except -100. Leading dimensions are flattened.
  ValueId CrossEntropy(ValueId logits, ValueId labels);

  // The finished model. It must be sound; otherwise the calling code has a bug.
  Graph Finish(ValueId loss);

 private:
  ValueId DroppedAttention(ValueId q, ValueId k, ValueId v, const AttentionOptions& options);
  std::string Unique(std::string_view name);
  std::vector<ValueId> Named(std::string_view op, std::vector<ValueId> operands,
                             Attributes attributes, std::string_view name);

  Graph graph_;
  std::string prefix_;
  std::unordered_map<std::string, ValueId> parameters_;
  std::unordered_map<std::string, int64_t> used_;  // how often a name was requested
  std::unordered_set<std::string> names_;
  // The constants of attention with dropout, which all layers share: by value and by length.
  std::map<double, ValueId> attention_scales_;
  std::map<int64_t, CausalMask> causal_masks_;
  int64_t constant_bytes_ = 0;
};

}  // namespace heddle
