// Random ops. Their numbers are a function of (seed, step, node, global position), so every split gives
// what one device gives.
#include "base/error.h"
#include "ops/families.h"
#include "ops/spec.h"

namespace heddle {
namespace {

Rule DropoutRule(const OpContext& c) {
  double ratio = FloatAttr(c.attributes, "ratio");
  if (!(ratio >= 0 && ratio < 1)) ThrowInput("ratio={} is not in [0,1)", ratio);
  Rule rule = Spec("x* -> x*", c);
  SetWork(rule, 2, AllFactors(rule));
  rule.linear = {{0}};
  rule.keep.extra = {{1, AllFactors(rule)}};
  return rule;
}

// As many numbers as the operand has elements; the operand gives the shape, or the probabilities.
Rule LikeRule(const OpContext& c) {
  Rule rule = Spec("x* -> x*", c);
  std::string to = StringAttr(c.attributes, "to", std::string(Name(c.operands[0].dtype)));
  std::optional<DType> dtype = DTypeFromName(to);
  if (!dtype) ThrowInput("attribute to=\"{}\" is not an element type", to);
  rule.result_dtypes = {*dtype};
  SetWork(rule, 8, AllFactors(rule));
  NoGradient(rule);
  return rule;
}

}  // namespace

std::vector<OpDef> RandomOps() {
  OpTraits random = {.randomness = Randomness::kAlways};
  return {
      {"Dropout", 1, 1, {"ratio"}, DropoutRule, {.randomness = Randomness::kTraining}},
      {"RandomUniformLike", 1, 1, {"low", "high", "to"}, LikeRule, random},
      {"RandomNormalLike", 1, 1, {"mean", "scale", "to"}, LikeRule, random},
      {"Bernoulli", 1, 1, {"to"}, LikeRule, random},
  };
}

}  // namespace heddle
