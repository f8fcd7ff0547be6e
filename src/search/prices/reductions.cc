#include "search/prices/reductions.h"

#include <algorithm>

namespace heddle {

GradientGroups::GradientGroups(const Model& model) {
  for (ValueId id : model.graph.ValuesOf(ValueKind::kParameter)) {
    sizes_.push_back(static_cast<double>(ElementCount(model.graph.value(id).type.shape)));
  }
  std::sort(sizes_.begin(), sizes_.end());
  for (double size : sizes_) {
    sums_.push_back(total_);
    total_ += size;
  }
  sums_.push_back(total_);
}

double GradientGroups::PerElement(double bucket_elements, double parts) const {
  if (total_ == 0) return 0;
  double whole = bucket_elements * parts;  // in elements of the unsplit model
  auto large = std::lower_bound(sizes_.begin(), sizes_.end(), whole);
  double alone = static_cast<double>(sizes_.end() - large);
  double together = sums_[static_cast<size_t>(large - sizes_.begin())];
  return (alone + together / whole) * parts / total_;
}

double ExposedReduction(const PipelineShape& shape, int device, const std::vector<double>& reduce) {
  int rounds = std::min(shape.devices, shape.microbatches);
  double exposed = 0, left = 0, earlier = 0;  // `left`: reductions of this chunk and earlier ones
  for (size_t k = 0; k < reduce.size(); ++k) {
    HalfTimes times = shape.times_of(device + static_cast<int>(k) * shape.devices);
    double backward = times.backward + times.weight;
    left += reduce[k];
    exposed = std::max(exposed, left - backward - earlier);
    earlier += rounds * backward;
  }
  return exposed;
}

}  // namespace heddle
