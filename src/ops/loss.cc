// Losses over classes (dimension 1 of the logits). A mean is a sum divided by a count that is an operand,
// so that the terms of every shard and micro-batch add up.
#include <numeric>

#include "base/error.h"
#include "ops/expansion.h"
#include "ops/families.h"
#include "ops/spec.h"

namespace heddle {
namespace {

bool IsReduced(const OpContext& c) {
  std::string reduction = StringAttr(c.attributes, "reduction", "mean");
  if (reduction != "mean" && reduction != "sum" && reduction != "none") {
    ThrowInput("reduction=\"{}\"", reduction);
  }
  if ((reduction == "mean") != (c.operands.size() == 3)) {
    ThrowInput("reduction=\"{}\" with {} operands: a count goes with \"mean\"", reduction,
               c.operands.size());
  }
  return reduction != "none";
}

void RequireLabels(const OpContext& c, size_t operand) {
  DType dtype = c.operands[operand].dtype;
  if (dtype != DType::kI64 && dtype != DType::kI32) {
    ThrowInput("labels (operand {}) are {}, not i64 or i32", operand, Name(dtype));
  }
}

// One label per row of logits (operand 0): nothing broadcasts.
void RequireLosses(const OpContext& c) {
  if (!IsFloat(c.operands[0].dtype)) {
    ThrowInput("operand 0 is {}, not a float", Name(c.operands[0].dtype));
  }
  RequireLabels(c, 1);
  if (c.rank() < 2) ThrowInput("operand 0 {} needs rows and classes", ToString(c.shape()));
  Shape rows = c.shape();
  rows.erase(rows.begin() + 1);
  if (c.shape(1) != rows) {
    ThrowInput("labels are {}, where {} is expected", ToString(c.shape(1)), ToString(rows));
  }
  if (c.operands.size() == 3 && !IsFloat(c.operands[2].dtype)) {
    ThrowInput("the count is {}, not a float", Name(c.operands[2].dtype));
  }
}

// Losses of narrow logits are computed, and given, in fp32.
DType LossType(const OpContext& c) {
  return SizeOf(c.operands[0].dtype) < 4 ? DType::kF32 : c.operands[0].dtype;
}

Rule CrossEntropyRule(const OpContext& c) {
  RequireLosses(c);
  Rule rule = IsReduced(c) ? Spec("n+ c& d*+, n d*,  -> ", c) : Spec("n c& d*, n d* -> n d*", c);
  rule.result_dtypes = {LossType(c)};
  SetWork(rule, 6, AllFactors(rule));
  rule.differentiable = {0};
  rule.keep.operands = {1};
  // The logarithms of the probabilities.
  rule.keep.extra = {{static_cast<double>(SizeOf(LossType(c))), AllFactors(rule)}};
  if (c.operands[0].dtype != LossType(c)) rule.scratch = rule.keep.extra;
  return rule;
}

// Logits split over classes: a maximum and two sums per row cross the ranks.
Graph CrossEntropyExpansion(const OpContext& c) {
  Primitives p(c);
  DType dtype = LossType(c);
  Attribute axes = std::vector<int64_t>{1};
  int64_t ignored = IntAttr(c.attributes, "ignore_index", -100);
  ValueId labels = p.operand(1);
  ValueId logits = p.operand(0);
  if (c.operands[0].dtype != dtype)
    logits = p("Cast", {logits}, {{"to", std::string(Name(dtype))}});
  ValueId top = p("ReduceMax", {logits}, {{"axes", axes}, {"detached", int64_t{1}}});
  ValueId shifted = p("Sub", {logits, top});
  ValueId sum = p("ReduceSum", {p("Exp", {shifted})}, {{"axes", axes}, {"keepdims", int64_t{0}}});
  ValueId picked = p("NllLoss", {shifted, labels},
                     {{"ignore_index", ignored}, {"reduction", std::string("none")}});
  ValueId ignore = p.Scalar(static_cast<double>(ignored), c.operands[1].dtype);
  ValueId counts =
      p("Cast", {p("Not", {p("Equal", {labels, ignore})})}, {{"to", std::string(Name(dtype))}});
  ValueId loss = p("Add", {p("Mul", {p("Log", {sum}), counts}), picked});
  if (!IsReduced(c)) return p.Finish({loss});
  std::vector<int64_t> all(c.shape(1).size());
  std::iota(all.begin(), all.end(), 0);
  loss = p("ReduceSum", {loss}, {{"axes", all}, {"keepdims", int64_t{0}}});
  if (c.operands.size() == 3) {
    ValueId count = p.operand(2);
    if (c.operands[2].dtype != dtype)
      count = p("Cast", {count}, {{"to", std::string(Name(dtype))}});
    loss = p("Div", {loss, count});
  }
  return p.Finish({loss});
}

Rule NllLossRule(const OpContext& c) {
  RequireLosses(c);
  Rule rule = IsReduced(c) ? Spec("n+ c+ d*+, n d*,  -> ", c) : Spec("n c+ d*, n d* -> n d*", c);
  rule.result_dtypes = {LossType(c)};
  SetWork(rule, 1, Factors(rule, {"n", "d*"}));
  rule.linear = {{0}};
  rule.differentiable = {0};
  rule.keep.operands = {1};
  return rule;
}

Rule LabelCountRule(const OpContext& c) {
  RequireLabels(c, 0);
  Rule rule = Spec("i*+ -> ", c);
  rule.result_dtypes = {DType::kF32};
  SetWork(rule, 1, AllFactors(rule));
  NoGradient(rule);
  return rule;
}

}  // namespace

std::vector<OpDef> LossOps() {
  return {
      {"CrossEntropy",
       2,
       3,
       {"ignore_index", "reduction"},
       CrossEntropyRule,
       {.cross_entropy = CrossEntropyPart::kWhole, .composite = true},
       CrossEntropyExpansion},
      {"NllLoss",
       2,
       3,
       {"ignore_index", "reduction"},
       NllLossRule,
       {.cross_entropy = CrossEntropyPart::kLikelihood}},
      {"LabelCount", 1, 1, {"ignore_index"}, LabelCountRule},
  };
}

}  // namespace heddle
