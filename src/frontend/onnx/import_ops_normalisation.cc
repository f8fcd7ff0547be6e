// ONNX normalisations, softmax and losses.
#include "base/checked_math.h"
#include "frontend/onnx/ops.h"

namespace heddle {
namespace {

// A heddle model is a training forward pass, so batch norms use the statistics of the batch whatever the file says,
// unless the options say otherwise: PyTorch does not always write training_mode.
void ImportBatchNorm(CallImport& n) {
  n.Ignore({"momentum", "training_mode", "spatial"});
  n.OnlyOutputs(1, "the running statistics are");
  const double epsilon = n.Float("epsilon", 1e-5);
  if (n.options().batch_norm_inference) {
    n.Return(n.Emit("BatchNormInference", {{"epsilon", epsilon}}, n.All()));
  } else {
    n.Return(n.Emit("BatchNorm", {{"epsilon", epsilon}}, {n.In(0), n.In(1), n.In(2)}));
  }
}

void ImportLayerNorm(CallImport& n) {
  n.Ignore({"stash_type"});
  n.OnlyOutputs(1, "mean and deviation are");
  const int64_t axis = n.Axis(n.Int("axis", -1), n.rank(0));
  const Shape normalised(n.shape(0).begin() + axis, n.shape(0).end());
  // Scale and bias may have fewer dimensions, or dimensions of 1.
  const auto spread = [&](const Imported& x) {
    if (x.shape() == normalised) return x;
    if (BroadcastShapes({x.shape(), normalised}) == normalised) {
      return n.Emit("Expand", {{"shape", normalised}}, {x});
    }
    n.Fail("scale or bias is {}, must be {}", ToString(x.shape()), ToString(normalised));
  };
  std::vector<Imported> operands = {n.In(0), spread(n.In(1))};
  if (n.Has(2) && !n.In(2).is_zero()) operands.push_back(spread(n.In(2)));
  n.Return(n.Emit("LayerNorm", {{"axis", axis}, {"epsilon", n.Float("epsilon", 1e-5)}}, operands));
}

// Before opset 21 scale and bias are per group: each is repeated over the channels of its group.
void ImportGroupNorm(CallImport& n) {
  n.Ignore({"stash_type"});
  const int64_t groups = n.Int("num_groups");
  if (n.rank(0) < 2 || groups < 1 || n.shape(0)[1] % groups != 0) {
    n.Fail("{} cannot be split into {} groups of channels", ToString(n.In(0).type), groups);
  }
  const int64_t channels = n.shape(0)[1];
  const auto spread = [&](const Imported& x) {
    if (x.shape() == Shape{channels} && (n.opset() >= 21 || groups == channels)) return x;
    if (n.opset() >= 21 || x.shape() != Shape{groups}) {
      n.Fail("scale or bias is {}", ToString(x.shape()));
    }
    const Imported column = n.Reshape(x, {groups, 1});
    return n.Reshape(n.Emit("Expand", {{"shape", Shape{groups, channels / groups}}}, {column}),
                     {channels});
  };
  n.Return(n.Emit("GroupNorm", {{"groups", groups}, {"epsilon", n.Float("epsilon", 1e-5)}},
                  {n.In(0), spread(n.In(1)), spread(n.In(2))}));
}

// Before opset 13 all dimensions from `axis` on count as one.
void ImportSoftmax(CallImport& n, std::string_view op) {
  const bool flattens = n.opset() < 13;
  const Imported& x = n.In(0);
  const int64_t axis = n.Axis(n.Int("axis", flattens ? 1 : -1), n.rank(0));
  if (!flattens || axis == n.rank(0) - 1) {
    n.Return(n.Emit(op, {{"axis", axis}}, {x}));
    return;
  }
  const auto middle = x.shape().begin() + axis;
  const Imported flat = n.Reshape(x, {ElementCount(Shape(x.shape().begin(), middle)),
                                      ElementCount(Shape(middle, x.shape().end()))});
  n.Return(n.Reshape(n.Emit(op, {{"axis", int64_t{1}}}, {flat}), x.shape()));
}

Imported Loss(CallImport& n, std::string_view op) {
  if (n.Has(2)) n.Fail("operand 2 (class weights) is not supported; export an unweighted loss");
  const int64_t ignored = n.Int("ignore_index", -100);
  const std::string reduction = n.String("reduction", "mean");
  std::vector<Imported> operands = {n.In(0), n.In(1)};
  if (reduction == "mean")
    operands.push_back(n.Emit("LabelCount", {{"ignore_index", ignored}}, {n.In(1)}));
  return n.Emit(op, {{"ignore_index", ignored}, {"reduction", reduction}}, operands);
}

}  // namespace

std::span<const OpImport> OnnxNormalisationOps() {
  static const OpImport ops[] = {
      {"BatchNormalization", 5, 5, ImportBatchNorm},
      {"LayerNormalization", 2, 3, ImportLayerNorm},
      {"InstanceNormalization", 3, 3,
       [](CallImport& n) {
         n.Return(n.Emit("InstanceNorm", {{"epsilon", n.Float("epsilon", 1e-5)}}, n.All()));
       }},
      {"GroupNormalization", 3, 3, ImportGroupNorm},
      {"Softmax", 1, 1, [](CallImport& n) { ImportSoftmax(n, "Softmax"); }},
      {"LogSoftmax", 1, 1, [](CallImport& n) { ImportSoftmax(n, "LogSoftmax"); }},
      {"SoftmaxCrossEntropyLoss", 2, 3,
       [](CallImport& n) {
         n.Return(0, Loss(n, "CrossEntropy"));
         if (n.Used(1)) n.Return(1, n.Emit("LogSoftmax", {{"axis", int64_t{1}}}, {n.In(0)}));
       }},
      {"NegativeLogLikelihoodLoss", 2, 3, [](CallImport& n) { n.Return(Loss(n, "NllLoss")); }},
  };
  return ops;
}

}  // namespace heddle
