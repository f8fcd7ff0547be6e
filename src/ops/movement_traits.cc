#include <algorithm>

#include "ops/movement.h"
#include "ops/spec.h"

namespace heddle {

bool IsAlwaysIdentity(const Attributes&) { return true; }

bool IsIdentityOfTranspose(const Attributes& attributes) {
  std::vector<int64_t> perm = IntsAttr(attributes, "perm");
  for (size_t d = 0; d < perm.size(); ++d) {
    if (perm[d] != static_cast<int64_t>(d)) return false;
  }
  return true;
}

bool IsIdentityOfSlice(const Attributes& attributes) {
  std::vector<int64_t> steps = IntsAttr(attributes, "steps", std::vector<int64_t>{});
  return std::all_of(steps.begin(), steps.end(), [](int64_t step) { return step == 1; });
}

Origin OriginAtFront(const OpContext& c, size_t o, size_t) {
  return std::vector<int64_t>(c.shape(o).size(), 0);
}

Origin OriginOfChoice(const OpContext& c, size_t o, size_t r) {
  if (o == 0) return std::nullopt;
  return OriginAtFront(c, o, r);
}

Origin OriginOfSlice(const OpContext& c, size_t o, size_t) {
  std::vector<int64_t> starts = IntsAttr(c.attributes, "starts");
  std::vector<int64_t> axes = IntsAttr(c.attributes, "axes");
  std::vector<int64_t> origin(c.shape(o).size(), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    origin[static_cast<size_t>(NormaliseAxis(axes[i], c.rank(o)))] = starts[i];
  }
  return origin;
}

Origin OriginOfSplit(const OpContext& c, size_t o, size_t r) {
  std::vector<int64_t> sizes = IntsAttr(c.attributes, "sizes");
  std::vector<int64_t> origin(c.shape(o).size(), 0);
  int64_t& front = origin[static_cast<size_t>(AxisAttr(c, c.rank(o)))];
  for (size_t before = 0; before < r; ++before) front += sizes[before];
  return origin;
}

Origin OriginOfConcat(const OpContext& c, size_t o, size_t) {
  size_t axis = static_cast<size_t>(AxisAttr(c, c.rank(o)));
  std::vector<int64_t> origin(c.shape(o).size(), 0);
  for (size_t before = 0; before < o; ++before) origin[axis] -= c.shape(before)[axis];
  return origin;
}

Origin OriginOfPad(const OpContext& c, size_t o, size_t) {
  std::vector<int64_t> pads = IntsAttr(c.attributes, "pads");
  std::vector<int64_t> origin;
  for (size_t d = 0; d < c.shape(o).size(); ++d) origin.push_back(-pads[d]);
  return origin;
}

}  // namespace heddle
