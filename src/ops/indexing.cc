// Lookups and scatters. A table split over its rows gives partial sums: rows held elsewhere count as zero.
#include <fmt/format.h>

#include "base/error.h"
#include "ops/families.h"
#include "ops/spec.h"

namespace heddle {
namespace {

void RequireIndices(const OpContext& c, size_t operand) {
  DType dtype = c.operands[operand].dtype;
  if (dtype != DType::kI64 && dtype != DType::kI32) {
    ThrowInput("indices (operand {}) are {}, not i64 or i32", operand, Name(dtype));
  }
}

Rule Lookup(Rule rule) {
  rule.work.clear();
  rule.linear = {{0}};
  if (!rule.differentiable.empty()) rule.differentiable = {0};
  rule.keep.operands = {1};
  return rule;
}

Rule GatherRule(const OpContext& c) {
  RequireIndices(c, 1);
  return Lookup(Spec("a* v+ z*, i* -> a* i* z*", c,
                     {.lengths = {{"a", AxisAttr(c, c.rank(), 0)}}, .sizes = {}}));
}

// Along `axis` the tensors differ; along other dimensions they share a factor where sizes are equal.
// `along` says what becomes of the axis: its token in operand and in index.
std::string ElementsSpec(const OpContext& c, int64_t axis, std::string_view data_token,
                         std::string_view index_token, std::string* index_spec) {
  if (c.rank(1) != c.rank(0)) {
    ThrowInput("indices {} and operand {} differ in rank", ToString(c.shape(1)),
               ToString(c.shape(0)));
  }
  std::string data;
  for (int64_t d = 0; d < c.rank(); ++d) {
    if (d == axis) {
      data += fmt::format(" {}", data_token);
      *index_spec += fmt::format(" {}", index_token);
    } else if (c.dim(0, d) == c.dim(1, d)) {
      data += fmt::format(" d{}", d);
      *index_spec += fmt::format(" d{}", d);
    } else if (c.dim(1, d) < c.dim(0, d)) {
      data += fmt::format(" x{}!", d);
      *index_spec += fmt::format(" y{}!", d);
    } else {
      ThrowInput("indices {} exceed operand {} in dimension {}", ToString(c.shape(1)),
                 ToString(c.shape(0)), d);
    }
  }
  return data;
}

Rule GatherElementsRule(const OpContext& c) {
  RequireIndices(c, 1);
  std::string index;
  std::string data = ElementsSpec(c, AxisAttr(c, c.rank(), 0), "v+", "i", &index);
  return Lookup(Spec(fmt::format("{}, {} -> {}", data, index, index), c));
}

Rule GatherNDRule(const OpContext& c) {
  RequireIndices(c, 1);
  int64_t batch = IntAttr(c.attributes, "batch_dims", 0);
  if (c.rank(1) < 1 || batch < 0 || batch >= c.rank(1)) {
    ThrowInput("batch_dims={} with indices {}", batch, ToString(c.shape(1)));
  }
  int64_t depth = c.shape(1).back();
  if (depth > c.rank() - batch) {
    ThrowInput("indices {} reach deeper than operand {}", ToString(c.shape(1)),
               ToString(c.shape(0)));
  }
  for (int64_t d = 0; d < batch; ++d) {
    if (c.dim(0, d) != c.dim(1, d)) {
      ThrowInput("indices {} and operand {} differ in batch dimension {}", ToString(c.shape(1)),
                 ToString(c.shape(0)), d);
    }
  }
  return Lookup(Spec("b* d*! r*, b* i* k! -> b* i* r*", c,
                     {.lengths = {{"b", batch}, {"d", depth}}, .sizes = {}}));
}

Rule Scatter(Rule rule, const OpContext& c) {
  std::string reduction = StringAttr(c.attributes, "reduction", "none");
  if (reduction != "none" && reduction != "add") ThrowInput("reduction=\"{}\"", reduction);
  if (c.operands[2].dtype != c.operands[0].dtype) {
    ThrowInput("updates are {}, not {}", Name(c.operands[2].dtype), Name(c.operands[0].dtype));
  }
  rule.work.clear();
  rule.linear = {{0, 2}};
  rule.keep.operands = {1};
  return rule;
}

Rule ScatterNDRule(const OpContext& c) {
  RequireIndices(c, 1);
  if (c.rank(1) < 1 || c.shape(1).back() > c.rank()) {
    ThrowInput("indices {} reach deeper than operand {}", ToString(c.shape(1)),
               ToString(c.shape(0)));
  }
  int64_t depth = c.shape(1).back();
  // Updates are what the indices name, no less: nothing broadcasts.
  Shape updates(c.shape(1).begin(), c.shape(1).end() - 1);
  updates.insert(updates.end(), c.shape().begin() + depth, c.shape().end());
  if (c.shape(2) != updates) {
    ThrowInput("updates are {}, where {} is expected", ToString(c.shape(2)), ToString(updates));
  }
  SpecArgs args{.lengths = {{"d", depth}, {"r", c.rank() - depth}, {"i", c.rank(1) - 1}},
                .sizes = {}};
  return Scatter(Spec("d*! r*, i*! k!, i* r* -> d* r*", c, args), c);
}

Rule ScatterElementsRule(const OpContext& c) {
  RequireIndices(c, 1);
  std::string index;
  std::string data = ElementsSpec(c, AxisAttr(c, c.rank(), 0), "v!", "i!", &index);
  return Scatter(Spec(fmt::format("{}, {}, {} -> {}", data, index, index, data), c), c);
}

Rule OneHotRule(const OpContext& c) {
  RequireIndices(c, 0);
  int64_t depth = IntAttr(c.attributes, "depth");
  if (depth < 0) ThrowInput("depth={}", depth);
  int64_t axis = NormaliseAxis(IntAttr(c.attributes, "axis", -1), c.rank() + 1);
  std::string to = StringAttr(c.attributes, "to", "f32");
  std::optional<DType> dtype = DTypeFromName(to);
  if (!dtype) ThrowInput("attribute to=\"{}\" is not an element type", to);
  Rule rule =
      Spec("a* z* -> a* depth z*", c, {.lengths = {{"a", axis}}, .sizes = {{"depth", depth}}});
  rule.result_dtypes = {*dtype};
  NoGradient(rule);
  return rule;
}

}  // namespace

std::vector<OpDef> IndexingOps() {
  return {
      {"Gather",
       2,
       2,
       {"axis"},
       GatherRule,
       {.lookup = LookupKind::kRows, .gradient_factors = {{.operand = 0, .operands = {1}}}}},
      {"GatherElements", 2, 2, {"axis"}, GatherElementsRule, {.lookup = LookupKind::kElements}},
      {"GatherND", 2, 2, {"batch_dims"}, GatherNDRule, {.lookup = LookupKind::kPoints}},
      {"ScatterND", 3, 3, {"reduction"}, ScatterNDRule},
      {"ScatterElements", 3, 3, {"axis", "reduction"}, ScatterElementsRule},
      {"OneHot", 1, 1, {"depth", "axis", "on", "off", "to"}, OneHotRule},
  };
}

}  // namespace heddle
