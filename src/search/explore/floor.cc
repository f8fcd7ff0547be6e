#include "search/explore/floor.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "search/explore/floor_terms.h"

namespace heddle {
namespace {

// One stage per device: units [first, last) on device d.
class PackedFloor {
 public:
  explicit PackedFloor(const FloorTerms& terms)
      : t_(terms), problem_(terms.problem), end_(terms.EvenEnd()), layer_(LeastLayer(terms)) {}

  double Run(double known) const {
    double even = std::max(known, t_.Even());
    if (t_.devices > 1) return Bisect(even);
    if (!HasRoom(0, t_.units, 0)) return kForbidden;
    return std::max(even, Step(0, t_.units, 0));
  }

 private:
  double Kept(int device, double activations) const {
    return t_.scale.kept * t_.in_flight[static_cast<size_t>(device)].most * activations;
  }

  // When a device holds the activations of its units before `last`, and how many bytes beside them.
  struct Moment {
    int last = 0;
    double bytes = 0;
  };

  // The end of a forward. With ZeRO 3 also the begin and the end of the last layer's backward: its weights and those of the
  // layer before it are whole, and in the end so are its gradients.
  struct Moments {
    std::array<Moment, 3> all;
    size_t count = 0;
    const Moment* begin() const { return all.data(); }
    const Moment* end() const { return all.data() + count; }
    void Add(Moment moment) { all[count++] = moment; }
  };
  Moments MomentsOf(int first, int last, int device) const {
    double state = t_.StateBytes(device) * t_.parameters().Of(first, last) +
                   problem_.loose_bytes * t_.LooseOf(first, last);
    Moments moments;
    moments.Add({last, t_.scale.state * state});
    int begin = std::max(first, problem_.units.embedding ? 1 : 0);
    int end = std::min(last, t_.units - (problem_.units.head ? 1 : 0));
    if (begin >= end) return moments;
    // Before the first backward has ended no gradients are counted.
    bool all = first == 0 && last == t_.units && !t_.schedule->splits_backward;
    bool counted = t_.in_flight[static_cast<size_t>(device)].with_gradients;
    if (all && !counted) state += problem_.tied_bytes;
    if (problem_.gathered_bytes == 0) {
      if (all && !counted && problem_.tied_bytes > 0) moments.Add({end, t_.scale.state * state});
      return moments;
    }
    double gathered = problem_.gathered_bytes * (end - begin > 1 ? 2 : 1);
    // Where W comes apart from B its gradients may come later.
    double unreduced = t_.schedule->splits_backward ? 0 : problem_.unreduced_bytes;
    moments.Add({end, t_.scale.state * (state + gathered * layer_)});
    moments.Add({end - 1, t_.scale.state * (state + (gathered + unreduced) * layer_)});
    return moments;
  }

  bool HasRoom(int first, int last, int device) const {
    if (problem_.room == nullptr || problem_.limit == kForbidden || first == last) return true;
    for (const Moment& at : MomentsOf(first, last, device)) {
      double least = problem_.room->least.Of(first, at.last);
      if (Kept(device, least) + at.bytes > problem_.limit) return false;
    }
    return true;
  }

  // Computed and waited for by all micro-batches, with what memory makes of it.
  double OwnSeconds(int first, int last, int device) const {
    if (first == last) return 0;
    const LeastTime& time = *problem_.time;
    bool all = first == 0 && last == t_.units;
    double once = t_.scale.own * (all ? time.whole : time.ranges.Of(first, last));
    if (all) once += t_.scale.statistics * problem_.statistics;
    double with_memory = once;
    if (problem_.room != nullptr && problem_.limit < kForbidden) {
      for (const Moment& at : MomentsOf(first, last, device)) {
        double recomputed = t_.scale.recomputed * Recomputed(at, first, device);
        with_memory =
            std::max({with_memory, once + recomputed, PricedSeconds(at, first, last, device)});
      }
    }
    double gathered = all ? t_.scale.gathers * WithGathers() : 0;
    return t_.microbatches * std::max(with_memory + 2 * t_.Host(), gathered);
  }

  // Seconds that recomputing adds to a micro-batch, so that the device's memory suffices at this moment.
  double Recomputed(const Moment& at, int first, int device) const {
    double in_flight = Kept(device, 1), spare = problem_.limit - at.bytes, recomputed = 0;
    for (const LeastRoom::Level& level : problem_.room->levels) {
      double kept = level.sums.Of(first, at.last) - level.per_byte * spare / in_flight;
      recomputed = std::max(recomputed, kept);
    }
    return recomputed;
  }

  // Seconds of a micro-batch with what memory is worth at this moment. The state of the units before at.last is in the worth
  // of these; those after it have their time.
  double PricedSeconds(const Moment& at, int first, int last, int device) const {
    double counted = t_.scale.state * t_.StateBytes(device) * t_.parameters().Of(first, at.last);
    double spare = problem_.limit - (at.bytes - counted), seconds = 0;
    double rest = t_.scale.own * problem_.time->ranges.Of(at.last, last);
    for (const MemoryPrice& price : problem_.memory_prices) {
      double both = price.least[static_cast<size_t>(device)]->Of(first, at.last);
      seconds = std::max(seconds, t_.scale.priced_memory * both + rest - price.per_byte * spare);
    }
    return seconds;
  }

  // Seconds of a micro-batch with ZeRO 3 on one stage: only the embedding computes, and the host launches a forward, while the
  // first layer's weights are gathered for its forward; and only the head computes while those of the last layer are gathered
  // for its backward.
  double WithGathers() const {
    if (!problem_.gathers_layers || t_.c.schedule != "1f1b") return 0;
    int begin = problem_.units.embedding ? 1 : 0, end = t_.units - (problem_.units.head ? 1 : 0);
    if (begin == end) return 0;
    auto gather = [&](int unit) {
      return problem_.layer_gather_latency +
             problem_.layer_gather * std::max(0.0, t_.parameters().at(unit) - problem_.shared);
    };
    const RangeFloors& ranges = problem_.time->ranges;
    double first = std::max(0.0, gather(begin) - t_.Host()), last = gather(end - 1);
    double least = std::max({first + ranges.Of(begin, end) + last,
                             first + ranges.Of(begin, t_.units), ranges.Of(0, end) + last});
    return least + 2 * t_.Host();
  }

  // When the last of a device's gradients is reduced. Those of the units up to k cannot be reduced before the last
  // backward of k - 1 begins, and pass one after the other; k is the end of the range, or a power of two.
  double Reduced(int first, int last, int device, double own) const {
    if (problem_.reduce == 0 || first == last) return 0;
    double head = t_.Head(first, device), once = own / t_.microbatches;
    double per_parameter = t_.scale.reduction * problem_.reduce;
    double latency = t_.scale.reduction * problem_.reduce_latency;
    if (!problem_.reduces_beside) {
      return head + own + latency + per_parameter * t_.parameters().Of(first, last);
    }
    auto until = [&](int k) {
      double left = problem_.time->ranges.Of(k, last) + t_.plain().forward.Of(first, k);
      left = std::min(once, t_.scale.own * left + t_.Host());
      return head + own - once + left + latency + per_parameter * t_.parameters().Of(first, k);
    };
    double reduced = until(last);
    for (int k = 1; k < last; k *= 2) {
      if (k > first) reduced = std::max(reduced, until(k));
    }
    return reduced;
  }

  // ZeRO 2: gradients of all micro-batches pass one after the other, the first of them once a backward has begun. Before that
  // as many forwards were done as are ever in flight.
  double ReducedEach(int first, int last, int device) const {
    if (!problem_.reduces_each || first == last) return 0;
    double forward = t_.plain().forward.Of(first, last) + t_.Host();
    return t_.Head(first, device) +
           t_.scale.own * t_.in_flight[static_cast<size_t>(device)].most * forward +
           t_.scale.traffic * problem_.traffic * t_.parameters().Of(first, last);
  }

  // The step, as far as this device decides it.
  double Step(int first, int last, int device) const {
    double own = OwnSeconds(first, last, device);
    double backward = own + t_.HeadAndTail(first, device);
    double ready = std::max({backward, Turn(first, last, device), Reduced(first, last, device, own),
                             ReducedEach(first, last, device)});
    double held = t_.parameters().Of(first, last), loose = t_.LooseOf(first, last);
    double step = ready + std::max(end_, t_.End(held, loose));
    if (InGroups(first, last)) {
      step = std::max(step, StepInGroups(first, last, device, own, ready));
    }
    return problem_.ended == nullptr ? step : std::max(step, WithEnd(first, last, device));
  }

  // A device's first backward comes after a forward of all units and the backward of those after its own; then come all of its
  // backwards, and that of the units before its own. More than its own time where micro-batches are few.
  double Turn(int first, int last, int device) const {
    if (first == last || t_.devices == 1) return 0;
    const LeastTime& plain = t_.plain();
    bool splits = t_.schedule->splits_backward;
    const UnitSums& way_back = splits ? plain.activation_gradients : plain.backward;
    double tail = splits ? 0 : plain.backward.Of(0, first);
    double once = t_.scale.turn * (plain.forward.total() + way_back.Of(last, t_.units) + tail);
    double own = t_.scale.turn * plain.backward.Of(first, last) + t_.Host();
    int hops = 2 * (t_.devices - 1) - (splits ? device : 0);
    return once + t_.microbatches * own + hops * t_.Transfer();
  }

  // Gradients are reduced in groups one after the other, each once its last gradient is there, and as many collectives gather
  // weights at the end: many groups have many latencies, few begin late. The least over all ways to make groups of the units,
  // from the last on.
  bool InGroups(int first, int last) const {
    bool close = t_.devices == 1 || problem_.close;
    bool known = problem_.loose_gather == 0 || problem_.gathers_layers;
    return close && known && problem_.reduces_in_line && problem_.reduces_beside &&
           problem_.reduce_latency > 0 && first < last;
  }

  double StepInGroups(int first, int last, int device, double own, double ready) const {
    constexpr int kMost = 8;  // groups; of more no more is known than of so many
    double head = t_.Head(first, device), once = own / t_.microbatches;
    double held = t_.parameters().Of(first, last), loose = t_.LooseOf(first, last);
    double latency = t_.scale.groups * problem_.reduce_latency;
    double per_parameter = t_.scale.groups * problem_.reduce;
    // When the last backward of a unit begins.
    auto begins = [&](int unit) {
      double left =
          problem_.time->ranges.Of(unit + 1, last) + t_.plain().forward.Of(first, unit + 1);
      return head + own - once + std::min(once, t_.scale.own * left + t_.Host());
    };
    auto seconds = [&](int from, int to) {
      return latency + per_parameter * t_.parameters().Of(from, to);
    };
    size_t count = static_cast<size_t>(last - first);
    std::vector<double> begin(count), reduced(count + 1, 0), fewer(count + 1);
    for (size_t u = 0; u < count; ++u) begin[u] = begins(first + static_cast<int>(u));
    if (problem_.gathers_layers) {  // of ZeRO 3 each layer is a group; what is no layer may be one
      double done = 0;
      for (size_t u = count; u-- > 0;) {
        int unit = first + static_cast<int>(u);
        bool head = unit + 1 == t_.units && problem_.units.head;
        done = std::max(done, begin[u]) + seconds(unit, unit + 1) - (head ? latency : 0);
      }
      return std::max(ready, done) + std::max(end_, t_.End(held, loose));
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
      double end = t_.End(held, loose, groups);
      least = std::min(least, std::max(ready, reduced[0]) + std::max(end_, end));
    }
    double many = begin[count - 1] + (kMost + 1) * latency + per_parameter * held;
    return std::min(least, std::max(ready, many) + t_.End(held, loose, kMost + 1));
  }

  // The same with strategies that are best for the device's own time and the end of its step together.
  double WithEnd(int first, int last, int device) const {
    double once = t_.scale.ended * problem_.ended->Of(first, last) + 2 * t_.Host();
    double latency = problem_.gather > problem_.update ? problem_.gather_latency : 0;
    return t_.microbatches * once + t_.HeadAndTail(first, device) +
           t_.scale.report * problem_.report + t_.scale.gather * latency;
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
        return HasRoom(first, last, s) && Step(first, last, s) <= bound;
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

FloorTerms::FloorTerms(const Configuration& of, const FloorProblem& with)
    : c(of),
      problem(with),
      scale(with.scale),
      schedule(FindSchedule(of.schedule)),
      devices(static_cast<int>(of.pp)),
      units(with.time->ranges.units()),
      microbatches(static_cast<double>(of.microbatches)) {
  bool memory = with.room != nullptr && with.limit < kForbidden;
  for (int d = 0; d < devices && (memory || with.reduces_each); ++d)
    in_flight.push_back(LeastInFlight(of, d));
}

double FloorTerms::All() const {
  const LeastTime& time = *problem.time;
  if (c.stages() == 1) return scale.own * time.whole + scale.statistics * problem.statistics;
  return scale.own *
         std::max(time.whole - (c.stages() - 1) * time.seam, time.ranges.Alone(0, units));
}

double FloorTerms::Even() const {
  double stages = c.stages(), held = parameters().total() / devices;
  double busy = microbatches * (All() + 2 * Host() * stages) / devices;
  double once = plain().whole;
  if (stages > 1) {
    once = std::max(once - (stages - 1) * plain().seam, plain().ranges.Alone(0, units));
  }
  if (schedule->splits_backward) once = plain().without_weights.total();
  double last_forward = LastForward();
  double path = scale.path * (once + scale.statistics * problem.statistics) + 2 * Host() +
                2 * (stages - 1) * Transfer();
  double traffic =
      scale.traffic * (problem.traffic * held + problem.layer_traffic * plain().layers / devices) +
      scale.layers * problem.layer_seconds / devices;
  // What is no gather for a forward waits for gradients, and these for a forward of all units.
  double first = (scale.traffic * problem.first_gathers * plain().layers +
                  scale.layers * problem.first_latency) /
                 devices;
  double after = scale.wait * plain().forward.total() + traffic - first;
  double mixed = 0;
  for (const TrafficPrice& at : problem.traffic_prices) {
    double least = stages > 1 ? at.least->Alone(0, units) : at.least->Of(0, units);
    double both = at.own * microbatches * (least + 2 * Host() * stages) - at.apart;
    double forward = at.after_forward ? (1 - at.own) * scale.wait * plain().forward.total() : 0;
    mixed = std::max(mixed, scale.mixed * both / devices + forward);
  }
  return std::max({busy, path, mixed, traffic + last_forward, after}) + EvenEnd();
}

// Gathers for the forward are done before the last layer's forward, and those for the backward begin after it.
double FloorTerms::LastForward() const {
  if (!problem.gathers_layers || c.microbatches > 1 || c.stages() > 1) return 0;
  int layers_end = units - (problem.units.head ? 1 : 0);
  return scale.wait * plain().forward.at(layers_end - 1);
}

double FloorTerms::AllLoose() const { return parameters().total() - plain().layers; }

double FloorTerms::LooseOf(int first, int last) const {
  double loose = 0;
  if (first == last) return loose;
  if (first == 0 && problem.units.embedding) loose += parameters().at(0);
  if (last == units && problem.units.head) loose += parameters().at(units - 1);
  return loose;
}

double FloorTerms::End(double held, double loose, int groups) const {
  double gathered = problem.gather * held + problem.loose_gather * loose;
  if (gathered > 0) gathered += groups * problem.gather_latency;
  return scale.report * problem.report +
         std::max(scale.update * problem.update * held, scale.gather * gathered);
}

double FloorTerms::HeadAndTail(int first, int stages) const {
  // Gradients of parameters that come apart fill a device's wait at the end: only the start is sure.
  if (schedule->splits_backward) return Head(first, stages);
  return scale.wait * plain().ranges.Alone(0, first) + 2 * stages * Transfer();
}

double FloorTerms::StateBytes(int device) const {
  bool gradients = in_flight[static_cast<size_t>(device)].with_gradients;
  return problem.bytes_per_parameter + (gradients ? problem.gradient_bytes : 0);
}

InFlight LeastInFlight(const Configuration& c, int device) {
  const ScheduleDef* schedule = FindSchedule(c.schedule);
  PipelineShape shape;
  shape.devices = static_cast<int>(c.pp);
  shape.chunks = c.chunks;
  shape.microbatches = static_cast<int>(c.microbatches);
  // Gradients of parameters that come apart may wait for the end.
  if (schedule->splits_backward) {
    return {static_cast<double>(std::min(c.microbatches, c.pp - device)), false};
  }
  int most = schedule->peak_in_flight(shape, device);
  int tasks = shape.microbatches * shape.chunks;
  int round = shape.chunks > 1 ? shape.devices * shape.chunks : 1;
  return {static_cast<double>(most), most + round <= tasks};
}

// Forwards go in rounds of as many micro-batches as there are devices, through all chunks (schedule/interleaved.cc).
std::vector<double> LeastInFlightOfChunks(const Configuration& c, int device) {
  InFlight of_all = LeastInFlight(c, device);
  if (c.chunks == 1) return {of_all.most};
  int devices = static_cast<int>(c.pp), most = static_cast<int>(of_all.most);
  int round = devices * c.chunks, rest = most % round;
  std::vector<double> counts;
  for (int k = 0; k < c.chunks; ++k) {
    counts.push_back(most / round * devices + std::clamp(rest - k * devices, 0, devices));
  }
  return counts;  // falling
}

double EvenFloorOf(const Configuration& configuration, const FloorProblem& problem) {
  FloorTerms terms(configuration, problem);
  return terms.units < configuration.stages() ? kForbidden : std::max(0.0, terms.Even());
}

double FloorOf(const Configuration& configuration, const FloorProblem& problem, double known) {
  FloorTerms terms(configuration, problem);
  if (terms.units < configuration.stages()) return kForbidden;
  double floor =
      configuration.chunks > 1 ? InterleavedFloor(terms, known) : PackedFloor(terms).Run(known);
  if (floor == kForbidden || problem.host_update <= problem.update) return floor;
  FloorProblem copies = problem;
  copies.update = problem.host_update;
  return std::max(floor, FloorOf(configuration, copies, known) - problem.early);
}

}  // namespace heddle
