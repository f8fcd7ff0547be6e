// Ops that move or repeat elements. Reshape, Split and Concat are where dimensions are products and
// concatenations of parts.
#include "ops/movement.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/checked_math.h"
#include "base/error.h"
#include "ops/families.h"
#include "ops/pieces.h"
#include "ops/spec.h"

namespace heddle {
namespace {

// Starts a rule whose dimensions are laid out by hand. Moving costs no flops, and is linear.
Rule MoveRule(const OpContext& c) {
  Rule rule;
  rule.result_dtypes = {c.operands[0].dtype};
  std::vector<int> together;
  for (size_t o = 0; o < c.operands.size(); ++o) {
    together.push_back(static_cast<int>(o));
    if (IsFloat(c.operands[o].dtype)) rule.differentiable.push_back(static_cast<int>(o));
  }
  rule.linear = {together};
  return rule;
}

Dim Whole(Rule& rule, std::string name, int64_t size) {
  return Dim{{AddFactor(rule, std::move(name), size, FactorKind::kWhole)}};
}
Dim Parallel(Rule& rule, std::string name, int64_t size) {
  return Dim{{AddFactor(rule, std::move(name), size, FactorKind::kParallel)}};
}

// Reshape. Both shapes are cut where their products of leading sizes agree; within such a stretch every
// leading product of either side is a cut of the common refinement, if each divides the next:
//   [8,512,768] -> [4096,12,64]   cuts 8,4096,... and 4096,49152,...   b=8 s=512 h=12 d=64
//   operand [b,s,(h d)]  result [(b s),h,d]
// A stretch without a common refinement ([6,4] -> [4,6]) is whole.
class Refinement {
 public:
  explicit Refinement(Rule& rule) : rule_(rule) {}

  void Match(const Shape& from, const Shape& to, Dims* from_dims, Dims* to_dims) {
    from_dims->assign(from.size(), Dim{});
    to_dims->assign(to.size(), Dim{});
    size_t i = 0, j = 0;
    while (i < from.size() || j < to.size()) {
      size_t i0 = i, j0 = j;
      int64_t left = i < from.size() ? from[i++] : 1;
      int64_t right = j < to.size() ? to[j++] : 1;
      while (left != right) {
        if (left < right) {
          left *= from[i++];
        } else {
          right *= to[j++];
        }
      }
      Stretch(std::span(from).subspan(i0, i - i0), std::span(from_dims->data() + i0, i - i0),
              std::span(to).subspan(j0, j - j0), std::span(to_dims->data() + j0, j - j0));
    }
  }

 private:
  static void Cuts(std::span<const int64_t> sizes, std::vector<int64_t>* cuts) {
    int64_t product = 1;
    for (int64_t size : sizes) cuts->push_back(product *= size);
  }

  void Stretch(std::span<const int64_t> from, std::span<Dim> from_dims, std::span<const int64_t> to,
               std::span<Dim> to_dims) {
    std::vector<int64_t> cuts = {1};
    Cuts(from, &cuts);
    Cuts(to, &cuts);
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    bool refines = true;
    for (size_t i = 1; i < cuts.size(); ++i) refines &= cuts[i] % cuts[i - 1] == 0;
    if (!refines) {
      for (size_t d = 0; d < from.size(); ++d) from_dims[d] = Whole(rule_, Fresh('x'), from[d]);
      for (size_t d = 0; d < to.size(); ++d) to_dims[d] = Whole(rule_, Fresh('y'), to[d]);
      return;
    }
    std::vector<Product> parts;  // part i lies between cuts[i] and cuts[i+1]
    for (size_t i = 1; i < cuts.size(); ++i) {
      parts.push_back(AddFactor(rule_, Fresh('p'), cuts[i] / cuts[i - 1], FactorKind::kParallel));
    }
    Assign(from, from_dims, cuts, parts);
    Assign(to, to_dims, cuts, parts);
  }

  static void Assign(std::span<const int64_t> sizes, std::span<Dim> dims,
                     const std::vector<int64_t>& cuts, const std::vector<Product>& parts) {
    size_t part = 0;
    int64_t product = 1;
    for (size_t d = 0; d < sizes.size(); ++d) {
      product *= sizes[d];
      Product& term = dims[d].terms[0];
      for (; part < parts.size() && cuts[part + 1] <= product; ++part) {
        term.insert(term.end(), parts[part].begin(), parts[part].end());
      }
    }
  }

  std::string Fresh(char letter) { return fmt::format("{}{}", letter, rule_.factors.size()); }

  Rule& rule_;
};

Rule ReshapeRule(const OpContext& c) {
  Shape to = IntsAttr(c.attributes, "shape");
  int64_t count = ElementCount(c.shape(), "operand 0");
  if (ElementCount(to, "attribute shape") != count) {
    ThrowInput("{} cannot become {}", ToString(c.shape()), ToString(to));
  }
  Rule rule = MoveRule(c);
  rule.view = true;
  Dims from_dims, to_dims;
  if (count == 0) {
    for (int64_t size : c.shape())
      from_dims.push_back(Whole(rule, fmt::format("x{}", rule.factors.size()), size));
    for (int64_t size : to)
      to_dims.push_back(Whole(rule, fmt::format("y{}", rule.factors.size()), size));
  } else {
    Refinement(rule).Match(c.shape(), to, &from_dims, &to_dims);
  }
  rule.operands = {from_dims};
  rule.results = {to_dims};
  return rule;
}

Rule TransposeRule(const OpContext& c) {
  std::vector<int64_t> perm = IntsAttr(c.attributes, "perm");
  std::vector<int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  std::vector<int64_t> all(c.shape().size());
  std::iota(all.begin(), all.end(), 0);
  if (sorted != all) ThrowInput("perm {} does not permute {} dimensions", ToString(perm), c.rank());
  Rule rule = MoveRule(c);
  Dims from, to;
  for (size_t d = 0; d < all.size(); ++d) {
    from.push_back(Parallel(rule, fmt::format("d{}", d), c.shape()[d]));
  }
  for (int64_t d : perm) to.push_back(from[static_cast<size_t>(d)]);
  rule.view = true;
  rule.operands = {from};
  rule.results = {to};
  return rule;
}

// New and broadcast dimensions are factors the operand lacks: its gradient sums over them.
Rule ExpandRule(const OpContext& c) {
  Shape to = IntsAttr(c.attributes, "shape");
  ElementCount(to, "attribute shape");
  if (to.size() < c.shape().size()) {
    ThrowInput("{} cannot be broadcast to {}", ToString(c.shape()), ToString(to));
  }
  Rule rule = MoveRule(c);
  rule.view = true;
  Dims operand(c.shape().size()), result;
  size_t added = to.size() - c.shape().size();
  for (size_t d = 0; d < to.size(); ++d) {
    result.push_back(Parallel(rule, fmt::format("d{}", d), to[d]));
    if (d < added) continue;
    int64_t size = c.shape()[d - added];
    if (size != to[d] && size != 1) {
      ThrowInput("{} cannot be broadcast to {}", ToString(c.shape()), ToString(to));
    }
    if (size == to[d]) operand[d - added] = result.back();
  }
  rule.operands = {operand};
  rule.results = {result};
  return rule;
}

Rule TileRule(const OpContext& c) {
  std::vector<int64_t> repeats = IntsAttr(c.attributes, "repeats");
  if (repeats.size() != c.shape().size()) {
    ThrowInput("{} repeats for {} dimensions", repeats.size(), c.rank());
  }
  Rule rule = MoveRule(c);
  Dims operand, result;
  for (size_t d = 0; d < repeats.size(); ++d) {
    if (repeats[d] < 0) ThrowInput("repeats has {}", repeats[d]);
    Dim dim = Parallel(rule, fmt::format("d{}", d), c.shape()[d]);
    Dim tiled{{AddFactor(rule, fmt::format("r{}", d), repeats[d], FactorKind::kParallel)}};
    tiled.terms[0].insert(tiled.terms[0].end(), dim.terms[0].begin(), dim.terms[0].end());
    operand.push_back(std::move(dim));
    result.push_back(std::move(tiled));
  }
  rule.operands = {operand};
  rule.results = {result};
  return rule;
}

// Other dimensions of ops that work along one axis.
Dims SharedDims(Rule& rule, const OpContext& c, int64_t axis) {
  Dims dims;
  for (int64_t d = 0; d < c.rank(); ++d) {
    dims.push_back(d == axis ? Dim{} : Parallel(rule, fmt::format("d{}", d), c.dim(0, d)));
  }
  return dims;
}

Rule ConcatRule(const OpContext& c) {
  int64_t axis = AxisAttr(c, c.rank());
  Rule rule = MoveRule(c);
  Dims dims = SharedDims(rule, c, axis);
  std::vector<int64_t> sizes;
  for (size_t o = 0; o < c.operands.size(); ++o) {
    bool fits = c.rank(o) == c.rank() && c.operands[o].dtype == c.operands[0].dtype;
    for (int64_t d = 0; fits && d < c.rank(); ++d) fits = d == axis || c.dim(o, d) == c.dim(0, d);
    if (!fits) {
      ThrowInput("operand {} {} does not fit operand 0 {} along axis {}", o,
                 ToString(c.operands[o]), ToString(c.operands[0]), axis);
    }
    sizes.push_back(c.dim(o, axis));
  }
  std::vector<Product> pieces = Pieces(rule, sizes);
  for (const Product& piece : pieces) {
    dims[static_cast<size_t>(axis)] = Dim{{piece}};
    rule.operands.push_back(dims);
  }
  dims[static_cast<size_t>(axis)] = Dim{pieces};
  rule.results = {dims};
  return rule;
}

Rule SplitRule(const OpContext& c) {
  int64_t axis = AxisAttr(c, c.rank());
  std::vector<int64_t> sizes = IntsAttr(c.attributes, "sizes");
  RequireSum("sizes", sizes, c.dim(0, axis));
  Rule rule = MoveRule(c);
  Dims dims = SharedDims(rule, c, axis);
  std::vector<Product> pieces = Pieces(rule, sizes);
  for (const Product& piece : pieces) {
    dims[static_cast<size_t>(axis)] = Dim{{piece}};
    rule.results.push_back(dims);
  }
  dims[static_cast<size_t>(axis)] = Dim{pieces};
  rule.operands = {dims};
  rule.result_dtypes.assign(pieces.size(), c.operands[0].dtype);
  rule.view = true;
  return rule;
}

// One dimension of a slice with step 1: [before | taken | after].
void SliceDim(Rule& rule, size_t axis, int64_t size, int64_t start, int64_t end, Dim* from,
              Dim* to) {
  std::vector<int64_t> sizes;
  if (start > 0) sizes.push_back(start);
  size_t taken = sizes.size();
  sizes.push_back(end - start);
  if (end < size) sizes.push_back(size - end);
  std::vector<Product> pieces = Pieces(rule, sizes, fmt::format("_{}", axis));
  *from = Dim{pieces};
  *to = Dim{{pieces[taken]}};
}

Rule SliceRule(const OpContext& c) {
  std::vector<int64_t> starts = IntsAttr(c.attributes, "starts");
  std::vector<int64_t> ends = IntsAttr(c.attributes, "ends");
  std::vector<int64_t> axes = IntsAttr(c.attributes, "axes");
  std::vector<int64_t> steps =
      IntsAttr(c.attributes, "steps", std::vector<int64_t>(axes.size(), 1));
  if (starts.size() != axes.size() || ends.size() != axes.size() || steps.size() != axes.size()) {
    ThrowInput("starts, ends, axes and steps differ in length");
  }
  Rule rule = MoveRule(c);
  rule.view = true;
  Dims from(c.shape().size()), to(c.shape().size());
  std::vector<bool> sliced(c.shape().size(), false);
  for (size_t i = 0; i < axes.size(); ++i) {
    size_t d = static_cast<size_t>(NormaliseAxis(axes[i], c.rank()));
    int64_t size = c.shape()[d], start = starts[i], end = ends[i], step = steps[i];
    if (sliced[d]) ThrowInput("axis {} is sliced twice", axes[i]);
    sliced[d] = true;
    bool forward = step > 0 && start >= 0 && start <= end && end <= size;
    bool backward = step < 0 && step > -(int64_t{1} << 31) && start >= -1 && start < size &&
                    end >= -1 && end <= start;
    if (!forward && !backward) {
      ThrowInput("slice {}:{}:{} of a dimension of size {}", start, end, step, size);
    }
    if (step == 1) {
      SliceDim(rule, d, size, start, end, &from[d], &to[d]);
      continue;
    }
    int64_t taken = forward ? (end - start) / step + ((end - start) % step != 0)
                            : (start - end) / -step + ((start - end) % -step != 0);
    if (backward) rule.view = false;  // libtorch has no negative strides
    from[d] = Whole(rule, fmt::format("x{}", d), size);
    to[d] = Whole(rule, fmt::format("y{}", d), taken);
  }
  for (size_t d = 0; d < sliced.size(); ++d) {
    if (!sliced[d]) from[d] = to[d] = Parallel(rule, fmt::format("d{}", d), c.shape()[d]);
  }
  rule.operands = {from};
  rule.results = {to};
  return rule;
}

Rule PadRule(const OpContext& c) {
  std::vector<int64_t> pads = IntsAttr(c.attributes, "pads");
  std::string mode = StringAttr(c.attributes, "mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge") ThrowInput("mode=\"{}\"", mode);
  size_t rank = c.shape().size();
  if (pads.size() != 2 * rank) ThrowInput("{} pads for {} dimensions", pads.size(), rank);
  Rule rule = MoveRule(c);
  Dims from, to;
  for (size_t d = 0; d < rank; ++d) {
    int64_t begin = pads[d], end = pads[rank + d], size = c.shape()[d];
    if (begin < 0 || end < 0) ThrowInput("pads has {}", std::min(begin, end));
    if (mode == "reflect" && std::max(begin, end) >= std::max<int64_t>(size, 1)) {
      ThrowInput("reflecting {} of a dimension of size {}", std::max(begin, end), size);
    }
    if (begin == 0 && end == 0) {
      from.push_back(Parallel(rule, fmt::format("d{}", d), size));
      to.push_back(from.back());
    } else {
      from.push_back(Whole(rule, fmt::format("x{}", d), size));
      int64_t padded = CheckedAdd(CheckedAdd(size, begin, "a padded size"), end, "a padded size");
      to.push_back(Whole(rule, fmt::format("y{}", d), padded));
    }
  }
  if (FloatAttr(c.attributes, "value", 0.0) != 0) rule.linear.clear();
  rule.operands = {from};
  rule.results = {to};
  return rule;
}

Rule TriluRule(const OpContext& c) {
  Rule rule = Spec("b* i j -> b* i j", c);
  rule.work.clear();
  rule.linear = {{0}};
  return rule;
}

}  // namespace

std::vector<OpDef> MovementOps() {
  OpTraits reshape = {
      .elements = ResultElements::kReshaped, .identity = IsAlwaysIdentity, .origin = OriginAtFront};
  OpTraits transpose = {.elements = ResultElements::kPermuted,
                        .identity = IsIdentityOfTranspose,
                        .origin = OriginAtFront};
  OpTraits slice = {
      .elements = ResultElements::kPart, .identity = IsIdentityOfSlice, .origin = OriginOfSlice};
  OpTraits split = {
      .elements = ResultElements::kPart, .identity = IsAlwaysIdentity, .origin = OriginOfSplit};
  OpTraits expand = {.identity = IsAlwaysIdentity, .origin = OriginAtFront};
  OpTraits tile = {.identity = IsAlwaysIdentity};
  OpTraits concat = {.identity = IsAlwaysIdentity, .origin = OriginOfConcat};
  OpTraits pad = {.identity = IsAlwaysIdentity, .origin = OriginOfPad};
  return {
      {"Reshape", 1, 1, {"shape"}, ReshapeRule, reshape},
      {"Transpose", 1, 1, {"perm"}, TransposeRule, transpose},
      {"Expand", 1, 1, {"shape"}, ExpandRule, expand},
      {"Tile", 1, 1, {"repeats"}, TileRule, tile},
      {"Concat", 1, -1, {"axis"}, ConcatRule, concat},
      {"Split", 1, 1, {"axis", "sizes"}, SplitRule, split},
      {"Slice", 1, 1, {"starts", "ends", "axes", "steps"}, SliceRule, slice},
      {"Pad", 1, 1, {"pads", "mode", "value"}, PadRule, pad},
      {"Trilu", 1, 1, {"upper", "k"}, TriluRule},
  };
}

}  // namespace heddle
