// Elementwise ops: every dimension is parallel, dimensions of size 1 broadcast.
#include "base/error.h"
#include "ops/families.h"
#include "ops/movement.h"
#include "ops/spec.h"

namespace heddle {
namespace {

// What backward needs of a unary op.
enum class Kept { kNothing, kOperand, kResult, kNoGradient };

struct Unary {
  std::string_view name;
  Kept kept;
  double flops = 1;
  bool linear = false;
  std::vector<std::string_view> attributes = {};
  OpTraits traits = {};
};

const std::vector<Unary>& UnaryOps() {
  static const std::vector<Unary> ops = {
      {"Identity",
       Kept::kNothing,
       0,
       true,
       {},
       {.elements = ResultElements::kReshaped,
        .identity = IsAlwaysIdentity,
        .origin = OriginAtFront}},
      {"Neg", Kept::kNothing, 1, true},
      {"Abs", Kept::kOperand},
      {"Exp", Kept::kResult},
      {"Log", Kept::kOperand},
      {"Sqrt", Kept::kResult},
      {"Reciprocal", Kept::kResult},
      {"Sin", Kept::kOperand},
      {"Cos", Kept::kOperand},
      {"Tan", Kept::kResult},
      {"Asin", Kept::kOperand},
      {"Acos", Kept::kOperand},
      {"Atan", Kept::kOperand},
      {"Sinh", Kept::kOperand},
      {"Cosh", Kept::kOperand},
      {"Asinh", Kept::kOperand},
      {"Acosh", Kept::kOperand},
      {"Atanh", Kept::kOperand},
      {"Tanh", Kept::kResult},
      {"Sigmoid", Kept::kResult},
      {"Erf", Kept::kOperand},
      {"Relu", Kept::kResult},
      {"Silu", Kept::kOperand, 5},
      {"Softplus", Kept::kOperand, 3},
      {"Softsign", Kept::kOperand, 3},
      {"Mish", Kept::kOperand, 6},
      {"HardSwish", Kept::kOperand, 4},
      {"Selu", Kept::kResult, 3},
      {"Gelu", Kept::kOperand, 8, false, {"approximate"}},
      {"LeakyRelu", Kept::kOperand, 2, false, {"alpha"}},
      {"Elu", Kept::kResult, 3, false, {"alpha"}},
      {"Celu", Kept::kOperand, 3, false, {"alpha"}},
      {"ThresholdedRelu", Kept::kOperand, 1, false, {"alpha"}},
      {"HardSigmoid", Kept::kOperand, 3, false, {"alpha", "beta"}},
      {"Clip", Kept::kOperand, 2, false, {"min", "max"}, {.origin = OriginAtFront}},
      {"Floor", Kept::kNoGradient},
      {"Ceil", Kept::kNoGradient},
      {"Round", Kept::kNoGradient},
      {"Sign", Kept::kNoGradient},
      {"BitwiseNot", Kept::kNoGradient},
  };
  return ops;
}

Rule UnaryRule(const Unary& op, const OpContext& c) {
  Rule rule = Spec("x* -> x*", c);
  SetWork(rule, op.flops, AllFactors(rule));
  if (op.kept == Kept::kOperand) rule.keep.operands = {0};
  if (op.kept == Kept::kResult) rule.keep.results = {0};
  if (op.kept == Kept::kNoGradient) NoGradient(rule);
  if (op.linear) rule.linear = {{0}};
  return rule;
}

Rule CastRule(const OpContext& c) {
  Rule rule = Spec("x* -> x*", c);
  std::string to = StringAttr(c.attributes, "to");
  std::optional<DType> dtype = DTypeFromName(to);
  if (!dtype) ThrowInput("attribute to=\"{}\" is not an element type", to);
  rule.result_dtypes = {*dtype};
  if (IsFloat(*dtype) && IsFloat(c.operands[0].dtype)) {
    rule.linear = {{0}};
  } else {
    NoGradient(rule);
  }
  return rule;
}

// To bool, from one operand.
Rule TestRule(const OpContext& c) {
  Rule rule = Spec("x* -> x*", c);
  rule.result_dtypes = {DType::kBool};
  NoGradient(rule);
  return rule;
}

struct Binary {
  std::string_view name;
  std::vector<std::vector<int>> linear = {};
  std::vector<int> kept = {};     // operands
  std::vector<int> crossed = {};  // operands needed for the other's gradient
  bool gradient = true;
  bool to_bool = false;
  std::vector<std::string_view> attributes = {};
  OpTraits traits = {};
};

const std::vector<Binary>& BinaryOps() {
  static const std::vector<Binary> ops = {
      {.name = "Add",
       .linear = {{0, 1}},
       .traits = {.neutral = NeutralElement{.value = 0, .left = true},
                  .signs = {1, 1},
                  .gradient_factors = {{.operand = 0}, {.operand = 1}}}},
      {.name = "Sub",
       .linear = {{0, 1}},
       .traits = {.neutral = NeutralElement{.value = 0}, .signs = {1, -1}}},
      {.name = "Mul",
       .linear = {{0}, {1}},
       .crossed = {0, 1},
       .traits = {.neutral = NeutralElement{.value = 1, .left = true}}},
      {.name = "Div",
       .linear = {{0}},
       .kept = {1},
       .crossed = {0, 1},
       .traits = {.neutral = NeutralElement{.value = 1}}},
      {.name = "Pow", .kept = {0, 1}},
      {.name = "Mod", .gradient = false, .attributes = {"fmod"}},
      {.name = "Maximum", .kept = {0, 1}},
      {.name = "Minimum", .kept = {0, 1}},
      {.name = "PRelu", .kept = {0, 1}},
      {.name = "Equal", .gradient = false, .to_bool = true},
      {.name = "Less", .gradient = false, .to_bool = true},
      {.name = "LessOrEqual", .gradient = false, .to_bool = true},
      {.name = "Greater", .gradient = false, .to_bool = true},
      {.name = "GreaterOrEqual", .gradient = false, .to_bool = true},
      {.name = "And", .gradient = false, .to_bool = true},
      {.name = "Or", .gradient = false, .to_bool = true},
      {.name = "Xor", .gradient = false, .to_bool = true},
      {.name = "BitwiseAnd", .gradient = false},
      {.name = "BitwiseOr", .gradient = false},
      {.name = "BitwiseXor", .gradient = false},
  };
  return ops;
}

Rule BinaryRule(const Binary& op, const OpContext& c) {
  bool mixed = op.name == "Pow";  // ONNX allows any exponent
  if (!mixed && c.operands[0].dtype != c.operands[1].dtype) {
    ThrowInput("operands of unlike types {} and {}", Name(c.operands[0].dtype),
               Name(c.operands[1].dtype));
  }
  Rule rule = Spec("x*, x* -> x*", c);
  rule.linear = op.linear;
  rule.keep.operands = op.kept;
  rule.keep.crossed = op.crossed;
  if (op.to_bool) rule.result_dtypes = {DType::kBool};
  if (!op.gradient) NoGradient(rule);
  return rule;
}

Rule WhereRule(const OpContext& c) {
  if (c.operands[0].dtype != DType::kBool) {
    ThrowInput("the condition is {}, not bool", Name(c.operands[0].dtype));
  }
  if (c.operands[1].dtype != c.operands[2].dtype) {
    ThrowInput("choices of unlike types {} and {}", Name(c.operands[1].dtype),
               Name(c.operands[2].dtype));
  }
  Rule rule = Spec("x*, x*, x* -> x*", c);
  rule.result_dtypes = {c.operands[1].dtype};
  rule.linear = {{1, 2}};
  rule.keep.operands = {0};
  return rule;
}

}  // namespace

std::vector<OpDef> ElementwiseOps() {
  std::vector<OpDef> defs;
  for (const Unary& op : UnaryOps()) {
    defs.push_back({op.name, 1, 1, op.attributes,
                    [&op](const OpContext& c) { return UnaryRule(op, c); }, op.traits});
  }
  for (const Binary& op : BinaryOps()) {
    OpTraits traits = op.traits;
    traits.broadcasts = true;
    defs.push_back({op.name, 2, 2, op.attributes,
                    [&op](const OpContext& c) { return BinaryRule(op, c); }, traits});
  }
  defs.push_back({"Cast",
                  1,
                  1,
                  {"to"},
                  CastRule,
                  {.elements = ResultElements::kConverted,
                   .identity = IsAlwaysIdentity,
                   .origin = OriginAtFront}});
  defs.push_back({"Not", 1, 1, {}, TestRule});
  defs.push_back({"IsNaN", 1, 1, {}, TestRule});
  defs.push_back({"IsInf", 1, 1, {}, TestRule});
  defs.push_back({"Where", 3, 3, {}, WhereRule, {.broadcasts = true, .origin = OriginOfChoice}});
  return defs;
}

}  // namespace heddle
