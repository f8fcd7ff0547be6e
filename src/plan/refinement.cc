#include "plan/refinement.h"

#include <algorithm>
#include <set>
#include <vector>

namespace heddle {

ShardedDim WithoutAxes(ShardedDim dim) {
  for (Parts& term : dim.terms) {
    for (Part& part : term) part.axes = 0;
  }
  return dim;
}

namespace {

// Adds, for each cut of a product, the size of what is inside of it; 1 and the whole size, too.
void AddCuts(const Parts& parts, std::set<int64_t>* cuts) {
  int64_t inner = 1;
  cuts->insert(inner);
  for (size_t i = parts.size(); i-- > 0;) cuts->insert(inner *= parts[i].size);
}

// A part cut into outer * inner: the axes must split the outer evenly, or split it up exactly and go on with
// the inner.
std::optional<Parts> CutPart(const Mesh& mesh, const Part& part, int64_t inner) {
  if (part.size % inner != 0) return std::nullopt;
  int64_t outer = part.size / inner;
  if (outer % GroupSize(mesh, part.axes) == 0) return Parts{{outer, part.axes}, {inner, 0}};
  AxisMask outer_axes = 0;
  for (size_t a = 0; a < mesh.axes.size(); ++a) {
    if (!Contains(part.axes, a)) continue;
    outer_axes |= AxisSet(a);
    if (GroupSize(mesh, outer_axes) == outer) {
      return Parts{{outer, outer_axes}, {inner, part.axes & ~outer_axes}};
    }
  }
  return std::nullopt;
}

std::optional<Parts> Refine(const Mesh& mesh, const Parts& parts,
                            const std::vector<int64_t>& cuts) {
  Parts refined;
  int64_t inside = SizeOf(parts);
  for (const Part& part : parts) {
    int64_t end = inside / part.size;  // what lies inside this part
    Part rest = part;
    for (size_t c = cuts.size(); c-- > 0;) {
      if (cuts[c] >= inside || cuts[c] <= end) continue;
      std::optional<Parts> two = CutPart(mesh, rest, cuts[c] / end);
      if (!two) return std::nullopt;
      refined.push_back((*two)[0]);
      rest = (*two)[1];
    }
    refined.push_back(rest);
    inside = end;
  }
  return refined;
}

std::optional<RefinedDim> CommonRefinement(const Mesh& mesh, const Parts& from, const Parts& to) {
  if (SizeOf(from) == 0) return std::nullopt;
  std::set<int64_t> sorted;
  AddCuts(from, &sorted);
  AddCuts(to, &sorted);
  std::vector<int64_t> cuts(sorted.begin(), sorted.end());
  for (size_t c = 1; c < cuts.size(); ++c) {
    if (cuts[c] % cuts[c - 1] != 0) return std::nullopt;
  }
  std::optional<Parts> a = Refine(mesh, from, cuts), b = Refine(mesh, to, cuts);
  if (!a || !b) return std::nullopt;
  // A part of size 1 that is split (1/tp*32) is no cut of the other's.
  RefinedDim refined{{{*a}}, {{*b}}};
  if (WithoutAxes(refined.from) != WithoutAxes(refined.to)) return std::nullopt;
  return refined;
}

bool IsSplitDim(const ShardedDim& dim) {
  return std::any_of(dim.terms.begin(), dim.terms.end(), [](const Parts& term) {
    return std::any_of(term.begin(), term.end(), [](const Part& part) { return part.axes != 0; });
  });
}

}  // namespace

std::optional<RefinedDim> CommonRefinement(const Mesh& mesh, const ShardedDim& from,
                                           const ShardedDim& to) {
  if (!IsSplitDim(from)) return RefinedDim{WithoutAxes(to), to};
  if (!IsSplitDim(to)) return RefinedDim{from, WithoutAxes(from)};
  if (from.terms.size() == 1 && to.terms.size() == 1) {
    return CommonRefinement(mesh, from.terms[0], to.terms[0]);
  }
  if (WithoutAxes(from) == WithoutAxes(to)) return RefinedDim{from, to};
  return std::nullopt;
}

bool ShareOutermost(const Mesh& mesh, ShardedDim* from, ShardedDim* to) {
  if (from->terms.size() != 1 || to->terms.size() != 1) return false;
  Part &a = from->terms[0].front(), &b = to->terms[0].front();
  AxisMask shared = 0;
  for (size_t x = 0; x < mesh.axes.size(); ++x) {
    if (!Contains(a.axes | b.axes, x)) continue;
    int64_t ranks = GroupSize(mesh, shared | AxisSet(x));
    bool even = mesh.axes[x].shares.empty() && a.size % ranks == 0 && b.size % ranks == 0;
    if (!even || !Contains(a.axes & b.axes, x)) break;
    shared |= AxisSet(x);
  }
  if (shared == 0) return false;
  for (Parts* parts : {&from->terms[0], &to->terms[0]}) {
    Part& first = parts->front();
    int64_t ranks = GroupSize(mesh, shared);
    first = {first.size / ranks, first.axes & ~shared};
    parts->insert(parts->begin(), {ranks, shared});
  }
  return true;
}

}  // namespace heddle
