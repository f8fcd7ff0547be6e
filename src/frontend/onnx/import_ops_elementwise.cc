// ONNX elementwise ops.
#include <cmath>

#include "frontend/onnx/decode.h"
#include "frontend/onnx/ops.h"

namespace heddle {
namespace {

// Imports an op with one operand, no attributes, and the same name as heddle's op. A literal makes the name a template
// argument.
template <size_t N>
struct Literal {
  constexpr Literal(const char (&text)[N]) {  // NOLINT: implicit on purpose
    for (size_t i = 0; i < N; ++i) value[i] = text[i];
  }
  char value[N];
};

template <Literal op>
void Same(CallImport& n) {
  n.Return(n.Emit(op.value, {}, n.All()));
}

// Imports an op with one float attribute, which has the same name in heddle.
template <Literal op, Literal attribute>
void WithFloat(CallImport& n, double fallback) {
  n.Return(n.Emit(op.value, {{attribute.value, n.Float(attribute.value, fallback)}}, {n.In(0)}));
}

Imported Chain(CallImport& n, std::string_view op) {
  Imported result = n.In(0);
  for (size_t i = 1; i < n.size(); ++i) result = n.Emit(op, {}, {result, n.In(i)});
  return result;
}

DType TargetType(CallImport& n, int64_t number) {
  const auto dtype = DTypeFromOnnx(number);
  if (!dtype) n.Fail("element type {} is not supported", OnnxDTypeName(number));
  return *dtype;
}

void ImportClip(CallImport& n) {
  const bool constant_bounds = (!n.Has(1) || n.In(1).constant) && (!n.Has(2) || n.In(2).constant);
  if (!constant_bounds) {
    Imported x = n.In(0);
    if (n.Has(1)) x = n.Emit("Maximum", {}, {x, n.In(1)});
    if (n.Has(2)) x = n.Emit("Minimum", {}, {x, n.In(2)});
    n.Return(x);
    return;
  }
  Attributes bounds;
  if (n.Has(1)) bounds["min"] = n.Scalar(1, "min");
  if (n.Has(2)) bounds["max"] = n.Scalar(2, "max");
  n.Return(bounds.empty() ? n.In(0) : n.Emit("Clip", std::move(bounds), {n.In(0)}));
}

void ImportPow(CallImport& n) {
  Imported exponent = n.In(1);
  if (exponent.type.dtype != n.dtype(0)) exponent = n.Cast(exponent, n.dtype(0));
  n.Return(n.Emit("Pow", {}, {n.In(0), exponent}));
}

void ImportSelu(CallImport& n) {
  const double alpha = n.Float("alpha", 1.6732632), gamma = n.Float("gamma", 1.0507009);
  if (std::abs(alpha - 1.6732632) > 1e-5 || std::abs(gamma - 1.0507009) > 1e-5) {
    n.Fail("alpha {} and gamma {} are not those of SELU", alpha, gamma);
  }
  n.Return(n.Emit("Selu", {}, {n.In(0)}));
}

void ImportIsInf(CallImport& n) {
  if (n.Int("detect_negative", 1) != 1 || n.Int("detect_positive", 1) != 1) {
    n.Fail("only infinities of both signs can be detected");
  }
  n.Return(n.Emit("IsInf", {}, {n.In(0)}));
}

void ImportDropout(CallImport& n) {
  n.Ignore({"seed"});
  n.OnlyOutputs(1, "the mask is");
  double ratio = 0.5;
  bool training =
      n.opset() < 12;  // older files do not say whether they are in training; a heddle model is
  if (n.opset() < 12) {
    ratio = n.Float("ratio", 0.5);
  } else {
    if (n.Has(1)) ratio = n.Scalar(1, "ratio");
    if (n.Has(2)) training = n.Scalar(2, "training_mode") != 0;
  }
  if (!(ratio >= 0 && ratio <= 1)) n.Fail("ratio is {}, must be from 0 to 1", ratio);
  n.Return(training && ratio > 0 ? n.Emit("Dropout", {{"ratio", ratio}}, {n.In(0)}) : n.In(0));
}

// The requested element type, or `fallback` where none is requested.
std::string RandomType(CallImport& n, DType fallback) {
  const int64_t number = n.Int("dtype", 0);
  return std::string(Name(number == 0 ? fallback : TargetType(n, number)));
}

Imported Blank(CallImport& n) {
  const Shape shape = n.IntList("shape");
  ElementCount(shape, "shape");
  return Builder::Splat(DType::kF32, shape, 0);
}

void RandomUniform(CallImport& n, const Imported& like) {
  n.Ignore({"seed"});
  n.Return(n.Emit("RandomUniformLike",
                  {{"low", n.Float("low", 0)},
                   {"high", n.Float("high", 1)},
                   {"to", RandomType(n, like.type.dtype)}},
                  {like}));
}

void RandomNormal(CallImport& n, const Imported& like) {
  n.Ignore({"seed"});
  n.Return(n.Emit("RandomNormalLike",
                  {{"mean", n.Float("mean", 0)},
                   {"scale", n.Float("scale", 1)},
                   {"to", RandomType(n, like.type.dtype)}},
                  {like}));
}

}  // namespace

std::span<const OpImport> OnnxElementwiseOps() {
  static const OpImport ops[] = {
      {"Neg", 1, 1, Same<"Neg">},
      {"Abs", 1, 1, Same<"Abs">},
      {"Exp", 1, 1, Same<"Exp">},
      {"Log", 1, 1, Same<"Log">},
      {"Sqrt", 1, 1, Same<"Sqrt">},
      {"Reciprocal", 1, 1, Same<"Reciprocal">},
      {"Sin", 1, 1, Same<"Sin">},
      {"Cos", 1, 1, Same<"Cos">},
      {"Tan", 1, 1, Same<"Tan">},
      {"Asin", 1, 1, Same<"Asin">},
      {"Acos", 1, 1, Same<"Acos">},
      {"Atan", 1, 1, Same<"Atan">},
      {"Sinh", 1, 1, Same<"Sinh">},
      {"Cosh", 1, 1, Same<"Cosh">},
      {"Asinh", 1, 1, Same<"Asinh">},
      {"Acosh", 1, 1, Same<"Acosh">},
      {"Atanh", 1, 1, Same<"Atanh">},
      {"Tanh", 1, 1, Same<"Tanh">},
      {"Sigmoid", 1, 1, Same<"Sigmoid">},
      {"Erf", 1, 1, Same<"Erf">},
      {"Relu", 1, 1, Same<"Relu">},
      {"Softplus", 1, 1, Same<"Softplus">},
      {"Softsign", 1, 1, Same<"Softsign">},
      {"Mish", 1, 1, Same<"Mish">},
      {"HardSwish", 1, 1, Same<"HardSwish">},
      {"Floor", 1, 1, Same<"Floor">},
      {"Ceil", 1, 1, Same<"Ceil">},
      {"Round", 1, 1, Same<"Round">},
      {"Sign", 1, 1, Same<"Sign">},
      {"Not", 1, 1, Same<"Not">},
      {"IsNaN", 1, 1, Same<"IsNaN">},
      {"BitwiseNot", 1, 1, Same<"BitwiseNot">},
      {"IsInf", 1, 1, ImportIsInf},
      {"Selu", 1, 1, ImportSelu},
      {"Elu", 1, 1, [](CallImport& n) { WithFloat<"Elu", "alpha">(n, 1); }},
      {"Celu", 1, 1, [](CallImport& n) { WithFloat<"Celu", "alpha">(n, 1); }},
      {"LeakyRelu", 1, 1, [](CallImport& n) { WithFloat<"LeakyRelu", "alpha">(n, 0.01); }},
      {"ThresholdedRelu", 1, 1, [](CallImport& n) { WithFloat<"ThresholdedRelu", "alpha">(n, 1); }},
      {"HardSigmoid", 1, 1,
       [](CallImport& n) {
         n.Return(n.Emit("HardSigmoid",
                         {{"alpha", n.Float("alpha", 0.2)}, {"beta", n.Float("beta", 0.5)}},
                         {n.In(0)}));
       }},
      {"Gelu", 1, 1,
       [](CallImport& n) {
         n.Return(n.Emit("Gelu", {{"approximate", n.String("approximate", "none")}}, {n.In(0)}));
       }},
      {"Clip", 1, 3, ImportClip},
      {"Cast", 1, 1,
       [](CallImport& n) {
         n.Ignore({"saturate"});
         n.Return(n.Cast(n.In(0), TargetType(n, n.Int("to"))));
       }},
      {"CastLike", 2, 2,
       [](CallImport& n) {
         n.Ignore({"saturate"});
         n.Return(n.Cast(n.In(0), n.dtype(1)));
       }},
      {"Add", 2, 2, Same<"Add">},
      {"Sub", 2, 2, Same<"Sub">},
      {"Mul", 2, 2, Same<"Mul">},
      {"Div", 2, 2, Same<"Div">},
      {"Pow", 2, 2, ImportPow},
      {"Mod", 2, 2,
       [](CallImport& n) {
         n.Return(n.Emit("Mod", {{"fmod", n.Int("fmod", 0)}}, n.All()));
       }},
      {"Equal", 2, 2, Same<"Equal">},
      {"Less", 2, 2, Same<"Less">},
      {"LessOrEqual", 2, 2, Same<"LessOrEqual">},
      {"Greater", 2, 2, Same<"Greater">},
      {"GreaterOrEqual", 2, 2, Same<"GreaterOrEqual">},
      {"And", 2, 2, Same<"And">},
      {"Or", 2, 2, Same<"Or">},
      {"Xor", 2, 2, Same<"Xor">},
      {"PRelu", 2, 2, Same<"PRelu">},
      {"BitwiseAnd", 2, 2, Same<"BitwiseAnd">},
      {"BitwiseOr", 2, 2, Same<"BitwiseOr">},
      {"BitwiseXor", 2, 2, Same<"BitwiseXor">},
      {"Where", 3, 3, Same<"Where">},
      {"Max", 1, -1, [](CallImport& n) { n.Return(Chain(n, "Maximum")); }},
      {"Min", 1, -1, [](CallImport& n) { n.Return(Chain(n, "Minimum")); }},
      {"Sum", 1, -1, [](CallImport& n) { n.Return(Chain(n, "Add")); }},
      {"Mean", 1, -1,
       [](CallImport& n) {
         const Imported count = n.Number(n.dtype(0), static_cast<double>(n.size()));
         n.Return(n.Emit("Div", {}, {Chain(n, "Add"), count}));
       }},
      {"Dropout", 1, 3, ImportDropout},
      {"RandomUniformLike", 1, 1, [](CallImport& n) { RandomUniform(n, n.In(0)); }},
      {"RandomNormalLike", 1, 1, [](CallImport& n) { RandomNormal(n, n.In(0)); }},
      {"RandomUniform", 0, 0, [](CallImport& n) { RandomUniform(n, Blank(n)); }},
      {"RandomNormal", 0, 0, [](CallImport& n) { RandomNormal(n, Blank(n)); }},
      {"Bernoulli", 1, 1,
       [](CallImport& n) {
         n.Ignore({"seed"});
         n.Return(n.Emit("Bernoulli", {{"to", RandomType(n, n.dtype(0))}}, {n.In(0)}));
       }},
  };
  return ops;
}

}  // namespace heddle
