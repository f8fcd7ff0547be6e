// Convolutions and pooling: batch and channels split, space does not.
#include <fmt/format.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "ops/families.h"
#include "ops/spec.h"

namespace heddle {
namespace {

// The attributes that say how a window moves over each spatial dimension, with their defaults.
struct Window {
  std::vector<int64_t> kernel, strides, pads_begin, pads_end, dilations;
};

std::vector<int64_t> PerDimension(const OpContext& c, std::string_view name, size_t count,
                                  std::optional<int64_t> fallback, int64_t least) {
  std::optional<std::vector<int64_t>> otherwise;
  if (fallback) otherwise.emplace(count, *fallback);
  std::vector<int64_t> values = IntsAttr(c.attributes, name, otherwise);
  if (values.size() != count) {
    ThrowInput("{} has {} entries, expected {}", name, values.size(), count);
  }
  for (int64_t value : values) {
    if (value < least || value > (int64_t{1} << 31)) ThrowInput("{} has {}", name, value);
  }
  return values;
}

Window ReadWindow(const OpContext& c, std::vector<int64_t> kernel) {
  size_t count = kernel.size();
  Window window;
  window.kernel = std::move(kernel);
  window.strides = PerDimension(c, "strides", count, 1, 1);
  window.dilations = PerDimension(c, "dilations", count, 1, 1);
  std::vector<int64_t> pads = PerDimension(c, "pads", 2 * count, 0, 0);
  window.pads_begin.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(count));
  window.pads_end.assign(pads.begin() + static_cast<std::ptrdiff_t>(count), pads.end());
  return window;
}

size_t SpatialRank(const OpContext& c) {
  int64_t rank = c.rank() - 2;
  if (rank < 1 || rank > 3) {
    ThrowInput("operand 0 {} needs a batch, channels and 1 to 3 spatial dimensions",
               ToString(c.shape()));
  }
  return static_cast<size_t>(rank);
}

std::vector<int64_t> KernelOfWeight(const OpContext& c) {
  size_t count = SpatialRank(c);
  if (c.shape(1).size() != count + 2) {
    ThrowInput("weight {} does not fit operand {}", ToString(c.shape(1)), ToString(c.shape()));
  }
  std::vector<int64_t> kernel(c.shape(1).begin() + 2, c.shape(1).end());
  for (int64_t size : kernel) {
    if (size < 1) ThrowInput("weight {} has an empty window", ToString(c.shape(1)));
  }
  return kernel;
}

int64_t Extent(int64_t kernel, int64_t dilation) {
  return CheckedAdd(CheckedMul(dilation, kernel - 1, "a window"), 1, "a window");
}

// Sizes p0 p1 ... of the result.
SpecArgs ResultSizes(const std::vector<int64_t>& sizes) {
  SpecArgs args;
  args.lengths["p"] = static_cast<int64_t>(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) args.sizes[fmt::format("p{}", i)] = sizes[i];
  return args;
}

std::vector<int64_t> WindowPositions(const OpContext& c, const Window& window, bool ceil) {
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < window.kernel.size(); ++i) {
    int64_t in = c.dim(0, static_cast<int64_t>(i) + 2);
    int64_t padded = CheckedAdd(in, window.pads_begin[i] + window.pads_end[i], "a padded size");
    int64_t room = padded - Extent(window.kernel[i], window.dilations[i]);
    if (room < 0) {
      ThrowInput("a window of {} does not fit the padded size {}",
                 Extent(window.kernel[i], window.dilations[i]), padded);
    }
    int64_t stride = window.strides[i];
    int64_t last = room / stride;  // the last window, counted from 0
    // A window may not start in the padding at the end.
    bool another = room % stride != 0 && last < (in + window.pads_begin[i] - 1) / stride;
    if (ceil && another) ++last;
    sizes.push_back(CheckedAdd(last, 1, "a result size"));
  }
  return sizes;
}

int64_t GroupCount(const OpContext& c) {
  int64_t group = IntAttr(c.attributes, "group", 1);
  if (group < 1) ThrowInput("group={}", group);
  return group;
}

Rule FinishConvolution(Rule rule, const OpContext& c, bool transposed) {
  // Every multiply-add is a point of batch x group x channels in x channels out x kernel x positions,
  // positions being those of the result, or of the operand where the convolution is transposed.
  SetWork(rule, 2, Factors(rule, {"n", "g", "c", "o", "k*", transposed ? "y*" : "p*"}),
          /*contraction=*/true);
  FinishBiased(rule, c);
  return rule;
}

Rule ConvRule(const OpContext& c) {
  RequireSameTypes(c);
  Window window = ReadWindow(c, KernelOfWeight(c));
  SpecArgs args = ResultSizes(WindowPositions(c, window, false));
  args.sizes["g"] = GroupCount(c);
  return FinishConvolution(Spec("n (g c) y*!, (g o) c+ k*!, (g o) -> n (g o) p*!", c, args), c,
                           false);
}

Rule ConvTransposeRule(const OpContext& c) {
  RequireSameTypes(c);
  Window window = ReadWindow(c, KernelOfWeight(c));
  std::vector<int64_t> extra = PerDimension(c, "output_padding", window.kernel.size(), 0, 0);
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < window.kernel.size(); ++i) {
    int64_t in = c.dim(0, static_cast<int64_t>(i) + 2);
    int64_t size = CheckedMul(in - 1, window.strides[i], "a result size");
    size = CheckedAdd(size, Extent(window.kernel[i], window.dilations[i]), "a result size");
    size = CheckedAdd(size, extra[i], "a result size") - window.pads_begin[i] - window.pads_end[i];
    if (size < 1) ThrowInput("pads leave a result of size {}", size);
    sizes.push_back(size);
  }
  SpecArgs args = ResultSizes(sizes);
  args.sizes["g"] = GroupCount(c);
  return FinishConvolution(Spec("n (g c+) y*!, (g c) o k*!, (g o) -> n (g o) p*!", c, args), c,
                           true);
}

Rule PoolRule(const OpContext& c, bool max) {
  std::vector<int64_t> kernel = PerDimension(c, "kernel", SpatialRank(c), {}, 1);
  Window window = ReadWindow(c, kernel);
  bool ceil = IntAttr(c.attributes, "ceil_mode", 0) != 0;
  Rule rule = Spec("n c y*! -> n c p*!", c, ResultSizes(WindowPositions(c, window, ceil)));
  double points = 1;
  for (int64_t size : window.kernel) points *= static_cast<double>(size);
  SetWork(rule, points, FactorsOf(rule.results[0]));
  rule.keep.operands = {0};
  if (max) {
    rule.keep.extra = {{8, FactorsOf(rule.results[0])}};  // where each maximum came from
  } else {
    rule.linear = {{0}};
  }
  return rule;
}

Rule ResizeRule(const OpContext& c) {
  std::vector<int64_t> sizes = PerDimension(c, "sizes", SpatialRank(c), {}, 1);
  std::string mode = StringAttr(c.attributes, "mode", "nearest");
  if (mode != "nearest" && mode != "linear") ThrowInput("mode=\"{}\"", mode);
  Rule rule = Spec("n c y*! -> n c p*!", c, ResultSizes(sizes));
  rule.linear = {{0}};
  return rule;
}

}  // namespace

std::vector<OpDef> ConvolutionOps() {
  return {
      {"Conv",
       2,
       3,
       {"strides", "pads", "dilations", "group"},
       ConvRule,
       {.kind = OpKind::kConvolution,
        .bias = 2,
        .gradient_factors = {{.operand = 1, .operands = {0}}, {.operand = 2}}}},
      {"ConvTranspose",
       2,
       3,
       {"strides", "pads", "dilations", "group", "output_padding"},
       ConvTransposeRule,
       {.kind = OpKind::kConvolution, .bias = 2}},
      {"MaxPool",
       1,
       1,
       {"kernel", "strides", "pads", "dilations", "ceil_mode"},
       [](const OpContext& c) { return PoolRule(c, true); }},
      {"AveragePool",
       1,
       1,
       {"kernel", "strides", "pads", "ceil_mode", "count_include_pad"},
       [](const OpContext& c) { return PoolRule(c, false); }},
      {"Resize", 1, 1, {"sizes", "mode"}, ResizeRule},
  };
}

}  // namespace heddle
