// ONNX ops that move data: shapes, permutations, slices, padding.
#include <algorithm>
#include <limits>
#include <numeric>

#include "base/checked_math.h"
#include "frontend/onnx/ops.h"

namespace heddle {
namespace {

// A setting that is an operand, or an attribute in older opsets; empty where neither is given.
std::optional<std::vector<int64_t>> OperandOrAttr(CallImport& n, size_t operand,
                                                  std::string_view name) {
  if (n.Has(operand)) return n.Ints(operand, name);
  if (n.HasAttr(name)) return n.IntList(name);
  return std::nullopt;
}

void ImportReshape(CallImport& n) {
  Shape shape = n.Ints(1, "shape");
  const Shape& from = n.shape(0);
  const bool allow_zero = n.Int("allowzero", 0) != 0;
  std::optional<size_t> open;
  int64_t known = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0 && !allow_zero) {
      if (i >= from.size())
        n.Fail("shape {} keeps dimension {}, which the operand lacks", ToString(shape), i);
      shape[i] = from[i];
    }
    if (shape[i] == -1 && !open) {
      open = i;
    } else if (shape[i] < 0) {
      n.Fail("shape {} has a negative dimension", ToString(shape));
    } else {
      known = CheckedMul(known, shape[i], "shape");
    }
  }
  const int64_t count = ElementCount(from, "operand");
  if (open) {
    if (known == 0 || count % known != 0) {
      n.Fail("cannot reshape {} to {}", ToString(from), ToString(shape));
    }
    shape[*open] = count / known;
  }
  n.Return(n.Reshape(n.In(0), shape));
}

void ImportFlatten(CallImport& n) {
  const Shape& from = n.shape(0);
  const int64_t axis =
      n.Int("axis", 1) == n.rank(0) ? n.rank(0) : n.Axis(n.Int("axis", 1), n.rank(0));
  const auto middle = from.begin() + axis;
  n.Return(n.Reshape(n.In(0), {ElementCount(Shape(from.begin(), middle)),
                               ElementCount(Shape(middle, from.end()))}));
}

void ImportSqueeze(CallImport& n) {
  const Shape& from = n.shape(0);
  std::vector<int64_t> axes;
  if (const auto given = OperandOrAttr(n, 1, "axes")) {
    axes = n.Axes(*given, n.rank(0));
  } else {
    for (int64_t i = 0; i < n.rank(0); ++i) {
      if (from[static_cast<size_t>(i)] == 1) axes.push_back(i);
    }
  }
  Shape shape = from;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    if (from[static_cast<size_t>(*axis)] != 1) {
      n.Fail("dimension {} of {} is not 1", *axis, ToString(from));
    }
    shape.erase(shape.begin() + *axis);
  }
  n.Return(n.Reshape(n.In(0), shape));
}

void ImportUnsqueeze(CallImport& n) {
  const auto given = OperandOrAttr(n, 1, "axes");
  if (!given) n.Fail("axes are missing");
  Shape shape = n.shape(0);
  for (const int64_t axis : n.Axes(*given, n.rank(0) + std::ssize(*given))) {
    shape.insert(shape.begin() + axis, 1);
  }
  n.Return(n.Reshape(n.In(0), shape));
}

void ImportTranspose(CallImport& n) {
  std::vector<int64_t> perm(n.shape(0).size());
  std::iota(perm.rbegin(), perm.rend(), 0);
  perm = n.IntList("perm", perm);
  for (int64_t& axis : perm) axis = n.Axis(axis, n.rank(0));
  n.Return(n.Emit("Transpose", {{"perm", perm}}, {n.In(0)}));
}

void ImportExpand(CallImport& n) {
  const Shape to = n.Ints(1, "shape");
  ElementCount(to, "shape");
  const auto shape = BroadcastShapes({n.shape(0), to});
  if (!shape) n.Fail("cannot expand {} to {}", ToString(n.shape(0)), ToString(to));
  n.Return(n.Emit("Expand", {{"shape", *shape}}, {n.In(0)}));
}

void ImportSplit(CallImport& n) {
  const int64_t axis = n.Axis(n.Int("axis", 0), n.rank(0));
  const int64_t size = n.shape(0)[static_cast<size_t>(axis)];
  const int64_t parts = n.Int("num_outputs", static_cast<int64_t>(n.outputs()));
  std::vector<int64_t> sizes;
  if (const auto given = OperandOrAttr(n, 1, "split")) {
    sizes = *given;
  } else {
    if (parts < 1 || parts != static_cast<int64_t>(n.outputs())) {
      n.Fail("num_outputs is {}, {} outputs are named", parts, n.outputs());
    }
    const int64_t chunk = size / parts + (size % parts != 0);
    for (int64_t i = 0, left = size; i < parts; ++i) {
      sizes.push_back(std::min(chunk, left));
      left -= sizes.back();
    }
  }
  if (sizes.size() != n.outputs()) n.Fail("has {} sizes and {} outputs", sizes.size(), n.outputs());
  auto results = n.EmitAll("Split", {{"axis", axis}, {"sizes", sizes}}, {n.In(0)});
  for (size_t i = 0; i < results.size(); ++i) n.Return(i, std::move(results[i]));
}

void ImportSlice(CallImport& n) {
  auto starts = n.Ints(1, "starts"), ends = n.Ints(2, "ends");
  std::vector<int64_t> axes(starts.size()), steps(starts.size(), 1);
  std::iota(axes.begin(), axes.end(), 0);
  if (n.Has(3)) axes = n.Ints(3, "axes");
  if (n.Has(4)) steps = n.Ints(4, "steps");
  if (ends.size() != starts.size() || axes.size() != starts.size() ||
      steps.size() != starts.size()) {
    n.Fail("starts, ends, axes and steps differ in length");
  }
  n.Axes(axes, n.rank(0));  // each axis may occur once
  for (size_t i = 0; i < axes.size(); ++i) {
    axes[i] = n.Axis(axes[i], n.rank(0));
    const int64_t dim = n.shape(0)[static_cast<size_t>(axes[i])];
    if (steps[i] == 0 || steps[i] == std::numeric_limits<int64_t>::min()) {
      n.Fail("step is {}", steps[i]);
    }
    const bool forward = steps[i] > 0;
    const auto wrap = [dim](int64_t at) { return at < 0 ? (at < -dim ? -1 : at + dim) : at; };
    starts[i] =
        std::clamp<int64_t>(wrap(starts[i]), 0, forward ? dim : std::max<int64_t>(dim - 1, 0));
    ends[i] = forward ? std::clamp<int64_t>(wrap(ends[i]), starts[i], dim)
                      : std::clamp<int64_t>(wrap(ends[i]), -1, std::max<int64_t>(dim - 1, -1));
    if (!forward) ends[i] = std::min(ends[i], starts[i]);
  }
  n.Return(n.Emit("Slice", {{"starts", starts}, {"ends", ends}, {"axes", axes}, {"steps", steps}},
                  {n.In(0)}));
}

void ImportPad(CallImport& n) {
  const std::vector<int64_t> given = n.Has(1) ? n.Ints(1, "pads") : n.IntList("pads");
  std::vector<int64_t> axes(n.shape(0).size());
  std::iota(axes.begin(), axes.end(), 0);
  if (n.Has(3)) {
    axes = n.Ints(3, "axes");
    n.Axes(axes, n.rank(0));
  }
  if (given.size() != 2 * axes.size()) n.Fail("has {} pads for {} axes", given.size(), axes.size());
  std::vector<int64_t> pads(2 * n.shape(0).size(), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(n.Axis(axes[i], n.rank(0)));
    pads[axis] = given[i];
    pads[axis + n.shape(0).size()] = given[i + axes.size()];
  }
  const double value = n.Has(2) ? n.Scalar(2, "value") : n.Float("value", 0);
  n.Return(n.Emit("Pad", {{"pads", pads}, {"mode", n.String("mode", "constant")}, {"value", value}},
                  {n.In(0)}));
}

void ImportTrilu(CallImport& n) {
  const int64_t k = n.Has(1) ? n.ScalarInt(1, "k") : 0;
  n.Return(n.Emit("Trilu", {{"upper", n.Int("upper", 1)}, {"k", k}}, {n.In(0)}));
}

// Reshapes [b, c, h, w] to six dimensions, two of them the block, permutes these, and reshapes back.
void ImportDepthToSpace(CallImport& n) {
  const int64_t block = n.Int("blocksize");
  const std::string mode = n.String("mode", "DCR");
  const Shape x = n.shape(0);
  if (x.size() != 4 || block < 1 || block > INT32_MAX || x[1] % (block * block) != 0) {
    n.Fail("cannot take blocks of {} from {}", block, ToString(x));
  }
  if (mode != "DCR" && mode != "CRD") n.Fail("mode '{}' is not DCR or CRD", mode);
  const int64_t depth = x[1] / (block * block);
  const bool first = mode == "DCR";
  const Imported six = n.Reshape(n.In(0), first ? Shape{x[0], block, block, depth, x[2], x[3]}
                                                : Shape{x[0], depth, block, block, x[2], x[3]});
  const std::vector<int64_t> perm =
      first ? std::vector<int64_t>{0, 3, 4, 1, 5, 2} : std::vector<int64_t>{0, 1, 4, 2, 5, 3};
  n.Return(n.Reshape(
      n.Emit("Transpose", {{"perm", perm}}, {six}),
      {x[0], depth, CheckedMul(x[2], block, "height"), CheckedMul(x[3], block, "width")}));
}

void ImportSpaceToDepth(CallImport& n) {
  const int64_t block = n.Int("blocksize");
  const Shape x = n.shape(0);
  if (x.size() != 4 || block < 1 || x[2] % block != 0 || x[3] % block != 0) {
    n.Fail("cannot make blocks of {} from {}", block, ToString(x));
  }
  const int64_t h = x[2] / block, w = x[3] / block;
  const Imported six = n.Reshape(n.In(0), {x[0], x[1], h, block, w, block});
  const Imported moved =
      n.Emit("Transpose", {{"perm", std::vector<int64_t>{0, 3, 5, 1, 2, 4}}}, {six});
  const int64_t depth = CheckedMul(x[1], CheckedMul(block, block, "block"), "depth");
  n.Return(n.Reshape(moved, {x[0], depth, h, w}));
}

}  // namespace

std::span<const OpImport> OnnxMovementOps() {
  static const OpImport ops[] = {
      {"Reshape", 2, 2, ImportReshape},
      {"Flatten", 1, 1, ImportFlatten},
      {"Squeeze", 1, 2, ImportSqueeze},
      {"Unsqueeze", 1, 2, ImportUnsqueeze},
      {"Transpose", 1, 1, ImportTranspose},
      {"Expand", 2, 2, ImportExpand},
      {"Concat", 1, -1,
       [](CallImport& n) {
         n.Return(n.Emit("Concat", {{"axis", n.Axis(n.Int("axis"), n.rank(0))}}, n.All()));
       }},
      {"Split", 1, 2, ImportSplit},
      {"Slice", 3, 5, ImportSlice},
      {"Pad", 1, 4, ImportPad},
      {"Tile", 2, 2,
       [](CallImport& n) {
         n.Return(n.Emit("Tile", {{"repeats", n.Ints(1, "repeats")}}, {n.In(0)}));
       }},
      {"Trilu", 1, 2, ImportTrilu},
      {"DepthToSpace", 1, 1, ImportDepthToSpace},
      {"SpaceToDepth", 1, 1, ImportSpaceToDepth},
  };
  return ops;
}

}  // namespace heddle
