// The floor of configurations with one stage per device: the least bound under which stages, each
// with as many units as the bound and its memory allow, take all units.
#include <algorithm>
#include <array>
#include <cmath>

#include "search/explore/floor_terms.h"

namespace heddle {
namespace {

// Device d has the units [first, last).
class OneStageBound {
 public:
  explicit OneStageBound(const FloorTerms& terms)
      : t_(terms), problem_(terms.problem), end_(terms.EvenEnd()), layer_(LeastLayer(terms)) {}

  double Run(double known) const {
    double even = std::max(known, t_.Even());
    if (t_.devices > 1) return Bisect(even);
    if (!FitsMemory(0, t_.units, 0)) return kForbidden;
    return std::max(even, Step(0, t_.units, 0));
  }

 private:
  double Kept(int device, double activations) const {
    return t_.scale.memory.kept * t_.in_flight[static_cast<size_t>(device)].most * activations;
  }

  // A moment at which memory is checked: the device keeps the activations of its units before
  // `last` and holds `bytes` besides.
  struct Moment {
    int last = 0;
    double bytes = 0;
  };

  // The moments that are checked: the end of a forward, and with ZeRO 3 also the begin and the end
  // of the last layer's backward. Then the weights of that layer and of the one before it are
  // whole, and at the end so are its gradients.
  struct Moments {
    std::array<Moment, 3> all;
    size_t count = 0;
    const Moment* begin() const { return all.data(); }
    const Moment* end() const { return all.data() + count; }
    void Add(Moment moment) { all[count++] = moment; }
  };
  Moments MomentsOf(int first, int last, int device) const {
    double state = t_.StateBytes(device) * t_.parameters().Of(first, last) +
                   problem_.memory.outside_layers * t_.OutsideLayersOf(first, last);
    Moments moments;
    moments.Add({last, t_.scale.memory.state * state});
    int begin = std::max(first, problem_.units.embedding ? 1 : 0);
    int end = std::min(last, t_.units - (problem_.units.head ? 1 : 0));
    if (begin >= end) return moments;
    // No gradients are counted before the first backward has ended.
    bool all = first == 0 && last == t_.units && !t_.schedule->splits_backward;
    bool counted = t_.in_flight[static_cast<size_t>(device)].with_gradients;
    if (all && !counted) state += problem_.memory.tied;
    if (problem_.memory.gathered == 0) {
      if (all && !counted && problem_.memory.tied > 0)
        moments.Add({end, t_.scale.memory.state * state});
      return moments;
    }
    double gathered = problem_.memory.gathered * (end - begin > 1 ? 2 : 1);
    // With a split backward (W apart from B) the gradients may come later.
    double unreduced = t_.schedule->splits_backward ? 0 : problem_.memory.unreduced;
    moments.Add({end, t_.scale.memory.state * (state + gathered * layer_)});
    moments.Add({end - 1, t_.scale.memory.state * (state + (gathered + unreduced) * layer_)});
    return moments;
  }

  bool FitsMemory(int first, int last, int device) const {
    if (!problem_.memory.limited() || first == last) return true;
    for (const Moment& at : MomentsOf(first, last, device)) {
      double least = problem_.memory.activations->least.Of(first, at.last);
      if (Kept(device, least) + at.bytes > problem_.memory.limit) return false;
    }
    return true;
  }

  // Seconds that the device computes and waits in all micro-batches, given its memory limit.
  double OwnSeconds(int first, int last, int device) const {
    if (first == last) return 0;
    const LeastTime& time = *problem_.time;
    bool all = first == 0 && last == t_.units;
    double once = t_.scale.own * (all ? time.whole : time.ranges.Of(first, last));
    if (all) once += t_.scale.statistics * problem_.statistics;
    double with_memory = once;
    if (problem_.memory.limited()) {
      for (const Moment& at : MomentsOf(first, last, device)) {
        double recomputed = t_.scale.memory.recomputed * Recomputed(at, first, device);
        with_memory =
            std::max({with_memory, once + recomputed, PricedSeconds(at, first, last, device)});
      }
    }
    double gathered = all ? t_.scale.traffic.first_and_last_gather * WithGathers() : 0;
    return t_.microbatches * std::max(with_memory + 2 * t_.Host(), gathered);
  }

  // Seconds that recomputation adds to a micro-batch so that memory suffices at this moment.
  double Recomputed(const Moment& at, int first, int device) const {
    double in_flight = Kept(device, 1), spare = problem_.memory.limit - at.bytes, recomputed = 0;
    for (const LeastMemory::Level& level : problem_.memory.activations->levels) {
      double kept = level.sums.Of(first, at.last) - level.per_byte * spare / in_flight;
      recomputed = std::max(recomputed, kept);
    }
    return recomputed;
  }

  // The Lagrangian bound at this moment, in seconds of a micro-batch. The priced costs include the
  // state of the units before at.last; the units after it count with their time only.
  double PricedSeconds(const Moment& at, int first, int last, int device) const {
    double counted =
        t_.scale.memory.state * t_.StateBytes(device) * t_.parameters().Of(first, at.last);
    double spare = problem_.memory.limit - (at.bytes - counted), seconds = 0;
    double rest = t_.scale.own * problem_.time->ranges.Of(at.last, last);
    for (const MemoryPrice& price : problem_.memory_prices) {
      double both = price.least[static_cast<size_t>(device)]->Of(first, at.last);
      seconds = std::max(seconds, t_.scale.memory.priced * both + rest - price.per_byte * spare);
    }
    return seconds;
  }

  // Seconds of a micro-batch with ZeRO 3 on one stage. While the first layer is gathered for its
  // forward only the embedding computes and the host launches kernels; while the last layer is
  // gathered for its backward only the head computes.
  double WithGathers() const {
    if (!problem_.layer_gather.known || t_.c.schedule != "1f1b") return 0;
    int begin = problem_.units.embedding ? 1 : 0, end = t_.units - (problem_.units.head ? 1 : 0);
    if (begin == end) return 0;
    auto gather = [&](int unit) {
      return problem_.layer_gather.latency +
             problem_.layer_gather.per_parameter *
                 std::max(0.0, t_.parameters().at(unit) - problem_.layer_gather.shared);
    };
    const RangeFloors& ranges = problem_.time->ranges;
    double first = std::max(0.0, gather(begin) - t_.Host()), last = gather(end - 1);
    double least = std::max({first + ranges.Of(begin, end) + last,
                             first + ranges.Of(begin, t_.units), ranges.Of(0, end) + last});
    return least + 2 * t_.Host();
  }

  // When the last of a device's gradients is reduced. The gradients of the units before k are
  // complete only when the last backward of unit k - 1 begins, and are reduced one after the other.
  // The bound holds for every k; it is evaluated at powers of two and at the end of the range.
  double Reduced(int first, int last, int device, double own) const {
    if (problem_.end.reduce == 0 || first == last) return 0;
    double fill = t_.Fill(first, device), once = own / t_.microbatches;
    double per_parameter = t_.scale.end.reduction * problem_.end.reduce;
    double latency = t_.scale.end.reduction * problem_.end.reduce_latency;
    if (!problem_.end.reduces_beside_backward) {
      return fill + own + latency + per_parameter * t_.parameters().Of(first, last);
    }
    auto until = [&](int k) {
      double left = problem_.time->ranges.Of(k, last) + t_.plain().forward.Of(first, k);
      left = std::min(once, t_.scale.own * left + t_.Host());
      return fill + own - once + left + latency + per_parameter * t_.parameters().Of(first, k);
    };
    double reduced = until(last);
    for (int k = 1; k < last; k *= 2) {
      if (k > first) reduced = std::max(reduced, until(k));
    }
    return reduced;
  }

  // ZeRO 2: the gradients of all micro-batches are reduced one after the other. The first reduction
  // follows a backward, and before that the device has done as many forwards as are ever in flight.
  double ReducedEach(int first, int last, int device) const {
    if (!problem_.traffic.every_microbatch || first == last) return 0;
    double forward = t_.plain().forward.Of(first, last) + t_.Host();
    return t_.Fill(first, device) +
           t_.scale.own * t_.in_flight[static_cast<size_t>(device)].most * forward +
           t_.scale.traffic.total * problem_.traffic.per_parameter *
               t_.parameters().Of(first, last);
  }

  // The lower bound on the step by this device.
  double Step(int first, int last, int device) const {
    double own = OwnSeconds(first, last, device);
    double backward = own + t_.FillAndDrain(first, device);
    double ready = std::max({backward, WithFirstBackward(first, last, device),
                             Reduced(first, last, device, own), ReducedEach(first, last, device)});
    double held = t_.parameters().Of(first, last), outside_layers = t_.OutsideLayersOf(first, last);
    double step = ready + std::max(end_, t_.End(held, outside_layers));
    if (InGroups(first, last)) {
      step = std::max(step, StepInGroups(first, last, device, own, ready));
    }
    return problem_.with_end == nullptr ? step : std::max(step, WithEnd(first, last, device));
  }

  // A device's first backward comes after a forward of all units and the backward of those after
  // its own. Then come all of its backwards, and one backward of the units before its own. With few
  // micro-batches this exceeds the device's own time.
  double WithFirstBackward(int first, int last, int device) const {
    if (first == last || t_.devices == 1) return 0;
    const LeastTime& plain = t_.plain();
    bool splits = t_.schedule->splits_backward;
    const UnitSums& way_back = splits ? plain.activation_gradients : plain.backward;
    double tail = splits ? 0 : plain.backward.Of(0, first);
    double once = t_.scale.pipeline.first_backward *
                  (plain.forward.total() + way_back.Of(last, t_.units) + tail);
    double own = t_.scale.pipeline.first_backward * plain.backward.Of(first, last) + t_.Host();
    int hops = 2 * (t_.devices - 1) - (splits ? device : 0);
    return once + t_.microbatches * own + hops * t_.Transfer();
  }

  // The bound for gradients that are reduced in groups one after the other, each as soon as its
  // last gradient is complete. The updated weights are gathered in as many collectives. Many groups
  // cost many latencies; few groups begin late. The result is the least over all ways to divide the
  // units into groups, from the last unit on.
  bool InGroups(int first, int last) const {
    bool close = t_.devices == 1 || problem_.close;
    bool known = problem_.end.gather_outside_layers == 0 || problem_.layer_gather.known;
    return close && known && problem_.end.one_communicator &&
           problem_.end.reduces_beside_backward && problem_.end.reduce_latency > 0 && first < last;
  }

  double StepInGroups(int first, int last, int device, double own, double ready) const {
    constexpr int kMost = 8;  // groups; a larger number is bounded as a whole
    double fill = t_.Fill(first, device), once = own / t_.microbatches;
    double held = t_.parameters().Of(first, last), outside_layers = t_.OutsideLayersOf(first, last);
    double latency = t_.scale.end.groups * problem_.end.reduce_latency;
    double per_parameter = t_.scale.end.groups * problem_.end.reduce;
    // When the last backward of a unit begins.
    auto begins = [&](int unit) {
      double left =
          problem_.time->ranges.Of(unit + 1, last) + t_.plain().forward.Of(first, unit + 1);
      return fill + own - once + std::min(once, t_.scale.own * left + t_.Host());
    };
    auto seconds = [&](int from, int to) {
      return latency + per_parameter * t_.parameters().Of(from, to);
    };
    size_t count = static_cast<size_t>(last - first);
    std::vector<double> begin(count), reduced(count + 1, 0), fewer(count + 1);
    for (size_t u = 0; u < count; ++u) begin[u] = begins(first + static_cast<int>(u));
    // ZeRO 3: each layer is a group; units that are no layer may be one
    if (problem_.layer_gather.known) {
      double done = 0;
      for (size_t u = count; u-- > 0;) {
        int unit = first + static_cast<int>(u);
        bool head = unit + 1 == t_.units && problem_.units.head;
        done = std::max(done, begin[u]) + seconds(unit, unit + 1) - (head ? latency : 0);
      }
      return std::max(ready, done) + std::max(end_, t_.End(held, outside_layers));
    }
    double least = kForbidden;
    for (int groups = 1; groups <= kMost; ++groups) {
      std::swap(reduced, fewer);
      for (size_t u = 0; u < count; ++u) {
        int from = first + static_cast<int>(u);
        reduced[u] = begin[u] + seconds(from, last);
        for (size_t next = u + 1; groups > 1 && next < count; ++next) {
          double after = std::max(fewer[next], begin[u]);
          reduced[u] = std::min(reduced[u], after + seconds(from, first + static_cast<int>(next)));
        }
      }
      double end = t_.End(held, outside_layers, groups);
      least = std::min(least, std::max(ready, reduced[0]) + std::max(end_, end));
    }
    double many = begin[count - 1] + (kMost + 1) * latency + per_parameter * held;
    return std::min(least, std::max(ready, many) + t_.End(held, outside_layers, kMost + 1));
  }

  // The same with strategies that are best for the device's own time and the step's end together.
  double WithEnd(int first, int last, int device) const {
    double once = t_.scale.end.priced * problem_.with_end->Of(first, last) + 2 * t_.Host();
    double latency = problem_.end.gather > problem_.end.update ? problem_.end.gather_latency : 0;
    return t_.microbatches * once + t_.FillAndDrain(first, device) +
           t_.scale.end.report * problem_.end.report + t_.scale.end.gather * latency;
  }

  double Bisect(double low) const {
    if (low == kForbidden) return low;
    double high = low * (1 + kFloorExact);
    if (Holds(high)) return low;
    double step = 0.06;
    for (int i = 0; !Holds(high = low * (1 + step)); ++i, step *= 2) {
      if (i == 24) return kForbidden;
      low = high;
    }
    for (int i = 0; i < 40 && high - low > kFloorExact * high; ++i) {
      double middle = (low + high) / 2;
      (Holds(middle) ? high : low) = middle;
    }
    return low;
  }

  bool Holds(double bound) const {
    int first = 0;
    for (int s = 0; s < t_.devices; ++s) {
      auto fits = [&](int last) {
        return FitsMemory(first, last, s) && Step(first, last, s) <= bound;
      };
      int low = first, high = t_.units;
      if (!fits(low)) return false;
      while (low < high) {
        int middle = (low + high + 1) / 2;
        if (fits(middle)) {
          low = middle;
        } else {
          high = middle - 1;
        }
      }
      first = low;
      if (first == t_.units) return true;
    }
    return false;
  }

  // Parameters of the layer that has fewest.
  static double LeastLayer(const FloorTerms& terms) {
    double least = kForbidden;
    int first = terms.problem.units.embedding ? 1 : 0;
    int last = terms.units - (terms.problem.units.head ? 1 : 0);
    for (int u = first; u < last; ++u) least = std::min(least, terms.parameters().at(u));
    return least;
  }

  const FloorTerms& t_;
  const FloorProblem& problem_;
  double end_;
  double layer_;
};

}  // namespace

double OneStageFloor(const FloorTerms& terms, double known) {
  return OneStageBound(terms).Run(known);
}

}  // namespace heddle
