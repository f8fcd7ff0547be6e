#include "report/break_even.h"

#include <cmath>

#include "base/parallel.h"
#include "sim/engine.h"

namespace heddle {
namespace {

void ScaleLinks(Cluster& cluster, bool inner, double factor) {
  for (Group& group : cluster.groups) {
    if (IsInside(group.kind) == inner) group.link.bandwidth *= factor;
    // The uplink of a group belongs to the network around the group.
    if ((group.kind == GroupKind::kPart) == inner) {
      group.uplink.bandwidth *= factor;
      group.uplink.per_device *= factor;
    }
  }
}

class StepComparison {
 public:
  StepComparison(Knob knob, const Program& a, const Program& b, const Cluster& cluster,
                 const SimOptions& options)
      : knob_(knob), programs_{&a, &b}, cluster_(cluster), options_(options) {}

  // Returns by how many seconds b is slower than a.
  double Difference(double factor) const {
    Cluster scaled = Scaled(cluster_, knob_, factor);
    std::array<double, 2> seconds = {};
    InParallel(seconds.size(), [&](size_t i) {
      seconds[i] = Execute(Prepare(*programs_[i], scaled, options_)).seconds;
    });
    return seconds[1] - seconds[0];
  }

 private:
  Knob knob_;
  std::array<const Program*, 2> programs_;
  const Cluster& cluster_;
  const SimOptions& options_;
};

// Goes through powers of two away from 1, up or down. Returns the first one at which the order of the plans has
// changed, with the one before it.
std::optional<std::pair<double, double>> FindBracket(const StepComparison& comparison,
                                                     bool first_leads, bool up) {
  double before = 1;
  for (double factor = 2; factor <= kMostScaled; factor *= 2) {
    double at = up ? factor : 1 / factor;
    if ((comparison.Difference(at) > 0) != first_leads) return std::pair(before, at);
    before = at;
  }
  return std::nullopt;
}

}  // namespace

Cluster Scaled(Cluster cluster, Knob knob, double factor) {
  switch (knob) {
    case Knob::kInnerLinks:
    case Knob::kOuterLinks:
      ScaleLinks(cluster, knob == Knob::kInnerLinks, factor);
      break;
    case Knob::kProducts:
      for (DeviceType& type : cluster.device_types) {
        for (const RateName& rate : kRateNames) type.peak.*rate.rate *= factor;
      }
      break;
    case Knob::kMemory:
      for (DeviceType& type : cluster.device_types) type.memory_bandwidth *= factor;
      break;
  }
  return cluster;
}

std::optional<double> FindFlip(Knob knob, const Program& a, const Program& b,
                               const Cluster& cluster, const SimOptions& options) {
  StepComparison comparison(knob, a, b, cluster, options);
  double lead = comparison.Difference(1);
  // Neither of the two plans depends on this knob.
  if (comparison.Difference(kMostScaled) == lead && comparison.Difference(1 / kMostScaled) == lead)
    return std::nullopt;
  bool first_leads = lead > 0;
  std::optional<double> nearest;
  for (bool up : {true, false}) {
    auto bracket = FindBracket(comparison, first_leads, up);
    if (!bracket) continue;
    auto [unchanged, changed] = *bracket;
    while (std::abs(std::log(changed / unchanged)) > 0.01) {
      double middle = std::sqrt(unchanged * changed);
      ((comparison.Difference(middle) > 0) == first_leads ? unchanged : changed) = middle;
    }
    if (!nearest || std::abs(std::log(changed)) < std::abs(std::log(*nearest))) nearest = changed;
  }
  return nearest;
}

}  // namespace heddle
