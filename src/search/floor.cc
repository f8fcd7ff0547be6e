#include "search/floor.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "schedule/schedule.h"

namespace heddle {
namespace {

// How far below the bound that could be given the one given may be.
constexpr double kExact = 1e-4;

class Bound {
 public:
  Bound(const Configuration& c, const FloorProblem& problem)
      : c_(c),
        problem_(problem),
        schedule_(FindSchedule(c.schedule)),
        devices_(static_cast<int>(c.pp)),
        units_(problem.time->ranges.units()),
        microbatches_(static_cast<double>(c.microbatches)) {
    for (int d = 0; d < devices_; ++d) in_flight_.push_back(LeastInFlight(c, d));
  }

  double Run() const {
    double even = Even();
    if (devices_ == 1 && c_.chunks == 1) {
      if (!HasRoom(0, units_, 0)) return kForbidden;
      return std::max({even, OwnSeconds(0, units_, 0) + Update(0, units_), Ending(0, units_, 0)});
    }
    if (units_ < c_.stages()) return kForbidden;
    return std::max(even, c_.chunks > 1 ? Interleaved() : Packed());
  }

 private:
  // All devices busy all the time; the traffic of parameters; the way of one micro-batch through all stages and back, the
  // others' backwards following at the slowest of them.
  double Even() const {
    double devices = devices_;
    double all = All();
    double busy = microbatches_ * (all + 2 * problem_.host * c_.stages()) / devices;
    double held = problem_.room != nullptr ? problem_.room->parameters.total() / devices : 0;
    double once = plain().whole;
    if (c_.stages() > 1) {
      once = std::max(plain().whole - (c_.stages() - 1) * plain().seam,
                      plain().ranges.Alone(0, units_));
    }
    double path = schedule_->splits_backward ? plain().without_weights.total() : once;
    double layers = problem_.room != nullptr ? problem_.room->layers / devices : 0;
    double traffic = problem_.traffic * held + problem_.layer_traffic * layers;
    return std::max({busy + problem_.update * held, traffic, path});
  }

  // Seconds of a micro-batch on all stages together.
  double All() const {
    const LeastTime& time = *problem_.time;
    if (c_.stages() == 1) return time.whole;
    return std::max(time.whole - (c_.stages() - 1) * time.seam, time.ranges.Alone(0, units_));
  }

  // What neighbours wait for: a device recomputes while it waits for gradients.
  const LeastTime& plain() const { return *problem_.plain; }

  // ---- One stage per device: units [first, last) on device d.

  double Bytes(int first, int last, int device, double activations) const {
    const UnitSums& parameters = problem_.room->parameters;
    const InFlight& flight = in_flight_[static_cast<size_t>(device)];
    double each = problem_.bytes_per_parameter +
                  (flight.with_gradients ? problem_.gradient_bytes : 0);
    double gathered = kForbidden;
    if (problem_.gathered_bytes > 0) {
      for (int u = first; u < last; ++u) gathered = std::min(gathered, parameters.at(u));
    }
    if (gathered == kForbidden) gathered = 0;
    return flight.most * activations + each * parameters.Of(first, last) +
           problem_.gathered_bytes * gathered;
  }

  bool HasRoom(int first, int last, int device) const {
    if (problem_.room == nullptr || first == last) return true;
    double least = problem_.room->least.Of(first, last);
    return Bytes(first, last, device, least) <= problem_.limit;
  }

  // Computed and waited for by all micro-batches, with what memory makes of it.
  double OwnSeconds(int first, int last, int device) const {
    if (first == last) return 0;
    const LeastTime& time = *problem_.time;
    bool all = first == 0 && last == units_;
    double once = all ? time.whole : time.ranges.Of(first, last);
    double recomputed = 0, worth = 0;
    if (problem_.room != nullptr) {
      double in_flight = in_flight_[static_cast<size_t>(device)].most;
      double spare = problem_.limit - Bytes(first, last, device, 0);
      for (const LeastRoom::Level& level : problem_.room->levels) {
        recomputed = std::max(recomputed, level.sums.Of(first, last) -
                                              level.per_byte * spare / in_flight);
      }
    }
    for (const MemoryWorth& at : problem_.worths) {
      worth = std::max(worth, at.least[static_cast<size_t>(device)]->Of(first, last) -
                                  at.per_byte * problem_.limit);
    }
    return microbatches_ * (std::max(once + recomputed, worth) + 2 * problem_.host);
  }

  double Update(int first, int last) const {
    if (problem_.room == nullptr) return 0;
    return problem_.update * problem_.room->parameters.Of(first, last);
  }

  // The reduction begins with the last backward, and what was updated is gathered after it.
  double Ending(int first, int last, int device) const {
    if (problem_.room == nullptr || first == last) return 0;
    double own = OwnSeconds(first, last, device);
    double backward = own / microbatches_ - plain().forward.Of(first, last);
    return own - std::max(0.0, backward) +
           (problem_.reduce + problem_.gather) * problem_.room->parameters.Of(first, last);
  }

  double Packed() const {
    double low = Even(), high = low * (1 + kExact);
    if (Holds(high)) return low;
    high = 2 * low + 1;
    for (int i = 0; i < 8 && !Holds(high); ++i) high *= 4;
    if (!Holds(high)) return kForbidden;
    for (int i = 0; i < 40 && high - low > kExact * high; ++i) {
      double middle = (low + high) / 2;
      (Holds(middle) ? high : low) = middle;
    }
    return low;
  }

  // Before a stage's first forward, and after its last backward, at least.
  double Head(int first) const { return plain().forward.Of(0, first); }
  double HeadAndTail(int first) const {
    // Gradients of parameters that come apart fill a device's wait at the end: only the start is sure.
    return schedule_->splits_backward ? Head(first) : plain().ranges.Alone(0, first);
  }

  bool Holds(double bound) const {
    int first = 0;
    for (int s = 0; s < devices_; ++s) {
      auto fits = [&](int last) {
        if (!HasRoom(first, last, s)) return false;
        double own = OwnSeconds(first, last, s);
        return own + HeadAndTail(first) <= bound && own + Head(first) + Update(first, last) <= bound &&
               Head(first) + Ending(first, last, s) <= bound;
      };
      int low = first, high = units_;
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
      if (first == units_) return true;
    }
    return false;
  }

  // ---- Several stages per device, cut evenly.

  double Interleaved() const {
    double least = kForbidden;
    for (const EvenCut& cut : EvenCuts(problem_.units, c_.stages())) {
      least = std::min(least, InterleavedAs(cut));
    }
    return least;
  }

  double InterleavedAs(const EvenCut& cut) const {
    // Stages 0 to d - 1 have at least so many units.
    auto before = [&](int d) {
      int layers = std::max(d * (cut.most - 1), d * cut.most - cut.smaller);
      bool more = layers > 0 && problem_.units.embedding && !cut.embedding_counts;
      return layers + (more ? 1 : 0);
    };
    double waits = 0;
    for (int d = 0; d < devices_; ++d) waits += plain().ranges.Alone(0, before(d));
    double all = All() + 2 * problem_.host * c_.stages();
    double bound = (microbatches_ * all + waits) / devices_;
    if (problem_.room == nullptr) return bound;
    for (int d = 0; d < devices_; ++d) {
      double own = OfAny(cut, d);
      if (own == kForbidden) return kForbidden;
      bound = std::max(bound, own + plain().ranges.Alone(0, before(d)));
    }
    return bound;
  }

  // The units of a device: stages of `most` layers, less so many; the embedding on the first, the head on the last.
  struct DeviceUnits {
    int most = 0, smaller = 0;
    bool embedding = false, head = false;                // are here
    bool embedding_counts = false, head_counts = false;  // ... in place of a layer
  };
  DeviceUnits UnitsOn(const EvenCut& cut, int device) const {
    DeviceUnits at{cut.most, std::min(c_.chunks, cut.smaller)};
    at.embedding = problem_.units.embedding && device == 0;
    at.head = problem_.units.head && device + 1 == devices_;
    at.embedding_counts = at.embedding && cut.embedding_counts;
    at.head_counts = at.head && cut.head_counts;
    return at;
  }

  // The least sum of the device's layers, each as often as its stage's weight says, whichever stages have one less.
  static double LayersBy(const DeviceUnits& at, const std::vector<double>& weights) {
    std::vector<double> heaviest = weights;
    std::sort(heaviest.rbegin(), heaviest.rend());
    double sum = 0;
    for (double weight : weights) sum += at.most * weight;
    for (int i = 0; i < at.smaller; ++i) sum -= heaviest[static_cast<size_t>(i)];
    if (at.embedding_counts) sum -= weights.front();
    if (at.head_counts) sum -= weights.back();
    return std::max(0.0, sum);
  }

  // Of the layer that has least.
  template <typename Number>
  double LeastLayer(const Number& of) const {
    int first = problem_.units.embedding ? 1 : 0, last = units_ - (problem_.units.head ? 1 : 0);
    double least = kForbidden;
    for (int u = first; u < last; ++u) least = std::min(least, of(u));
    return first < last ? least : 0;
  }

  template <typename Number>
  double LeastSum(const DeviceUnits& at, const Number& of) const {
    double layers = LayersBy(at, std::vector<double>(static_cast<size_t>(c_.chunks), 1.0));
    return layers * LeastLayer(of) + (at.embedding ? of(0) : 0) + (at.head ? of(units_ - 1) : 0);
  }

  double OfAny(const EvenCut& cut, int device) const {
    const LeastRoom& room = *problem_.room;
    DeviceUnits at = UnitsOn(cut, device);
    auto of_parameters = [&](int u) { return room.parameters.at(u); };
    double seconds = LeastSum(at, [&](int u) { return problem_.time->ranges.Alone(u, u + 1); });
    double parameters = LeastSum(at, of_parameters);
    std::vector<double> in_flight = ChunksInFlight(device);
    bool with_gradients = in_flight_[static_cast<size_t>(device)].with_gradients;
    double each = problem_.bytes_per_parameter + (with_gradients ? problem_.gradient_bytes : 0);
    double state = each * parameters + problem_.gathered_bytes * LeastLayer(of_parameters);
    double least = LeastLayer([&](int u) { return room.least.at(u); });
    if (LayersBy(at, in_flight) * least + state > problem_.limit) return kForbidden;
    double recomputed = 0;
    for (const LeastRoom::Level& level : room.levels) {
      double layer = LeastLayer([&](int u) { return level.sums.at(u); });
      for (double reference : std::set<double>(in_flight.begin(), in_flight.end())) {
        if (reference <= 0) continue;
        // A price q for a byte is q f for a layer of which f micro-batches are in flight. The least of a layer is concave
        // in its price: at a lower one it is at least that share.
        std::vector<double> shares;
        for (double f : in_flight) shares.push_back(std::min(1.0, f / reference));
        recomputed = std::max(recomputed, LayersBy(at, shares) * layer -
                                              level.per_byte * (problem_.limit - state) / reference);
      }
    }
    return microbatches_ * (seconds + recomputed + 2 * problem_.host * c_.chunks) +
           problem_.update * parameters;
  }

  // By chunk of a device, when those of the device are most.
  std::vector<double> ChunksInFlight(int device) const {
    PipelineShape shape{.devices = devices_, .chunks = c_.chunks};
    shape.microbatches = static_cast<int>(c_.microbatches);
    std::vector<double> in_flight;
    for (int s = device; s < c_.stages(); s += devices_) {
      in_flight.push_back(PeakInFlightOfStage(*schedule_, shape, s));
    }
    return in_flight;
  }

  const Configuration& c_;
  const FloorProblem& problem_;
  const ScheduleDef* schedule_;
  int devices_, units_;
  double microbatches_;
  std::vector<InFlight> in_flight_;  // per device
};

}  // namespace

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

double FloorOf(const Configuration& configuration, const FloorProblem& problem) {
  double floor = Bound(configuration, problem).Run();
  if (floor == kForbidden || problem.host_update <= problem.update) return floor;
  FloorProblem copies = problem;
  copies.update = problem.host_update;
  return std::max(floor, Bound(configuration, copies).Run() - problem.early);
}

}  // namespace heddle
