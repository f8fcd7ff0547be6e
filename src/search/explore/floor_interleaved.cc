// The bound of configurations with several stages per device: the least of those of all even cuts (plan/units.h). Stages are
// of n or n - 1 of the layers that count. Where n divides these all stages are known. Else a device may have any number of
// them between v (n - 1) and v n, each stage those that take least of where it may begin: X is a bound if devices that take as
// many as X and memory allow do not take them all.
#include <algorithm>
#include <cmath>
#include <map>

#include "search/explore/floor_terms.h"

namespace heddle {
namespace {

class InterleavedBound {
 public:
  InterleavedBound(const FloorTerms& terms, const EvenCut& cut)
      : t_(terms),
        problem_(terms.problem),
        stages_(terms.c.stages()),
        chunks_(terms.c.chunks),
        layers_(cut.layers),
        most_(cut.most),
        least_(cut.layers / stages_),
        before_(problem_.units.embedding && !cut.embedding_counts ? 1 : 0),
        after_(problem_.units.head && !cut.head_counts ? 1 : 0),
        memory_(problem_.room != nullptr && problem_.limit < kForbidden),
        end_(terms.EvenEnd()) {
    for (int d = 0; d < t_.devices && (memory_ || problem_.reduces_each); ++d)
      counts_.push_back(LeastInFlightOfChunks(t_.c, d));
    for (int d = 0; d < t_.devices; ++d) waits_.push_back(t_.HeadAndTail(FirstOf(d), d));
    size_t counts = static_cast<size_t>(chunks_ * (most_ - least_)) + 1;
    known_.assign(static_cast<size_t>(t_.devices) * counts, kUnknown);
    double least = kForbidden, most = 0;
    for (int u = 1; u + 1 < t_.units; ++u) {
      least_forward_ = std::min(least_forward_, t_.plain().forward.at(u));
      least = std::min(least, problem_.time->ranges.Of(u, u + 1));
      most = std::max(most, problem_.time->ranges.Of(u, u + 1));
    }
    alike_units_ = most <= least * (1 + 1e-9);
  }

  double Run(double known) {
    double low = std::max(known, t_.Even());
    if (least_ == most_) {
      for (int d = 0; d < t_.devices; ++d) low = std::max(low, Step(d, chunks_ * most_));
      return low;
    }
    if (Holds(low * (1 + kFloorExact))) return low;
    double high = low, step = 0.03;
    for (int i = 0; !Holds(high = low * (1 + step)); ++i, step *= 2) {
      if (i == 24) return kForbidden;
      low = high;
    }
    while (high - low > kFloorExact * high) {
      double middle = (low + high) / 2;
      (Holds(middle) ? high : low) = middle;
    }
    return low;
  }

 private:
  // The first unit of a stage, at least.
  int FirstOf(int stage) const {
    return UnitOf(std::max(stage * least_, layers_ - (stages_ - stage) * most_));
  }

  // Where the unit of a layer that counts begins; the embedding and the head that do not count are with their neighbours.
  int UnitOf(int layer) const {
    if (layer == 0) return 0;
    return layer == layers_ ? t_.units : layer + before_;
  }

  // Of so many layers that count.
  int UnitsOn(int device, int count) const {
    return count + (HasFirst(device) ? before_ : 0) + (HasLast(device) ? after_ : 0);
  }

  bool HasFirst(int device) const { return device == 0; }
  bool HasLast(int device) const { return device + 1 == t_.devices; }

  // Can the devices take all units?
  bool Holds(double bound) {
    int taken = 0;
    for (int d = 0; d < t_.devices; ++d) {
      int low = chunks_ * least_, high = chunks_ * most_;
      if (Step(d, low) > bound) return false;
      while (low < high) {
        int middle = (low + high + 1) / 2;
        if (Step(d, middle) <= bound) {
          low = middle;
        } else {
          high = middle - 1;
        }
      }
      taken += low;
    }
    return taken >= layers_;
  }

  // The step, as far as a device with so many units decides it; kForbidden where they do not fit. Asked for again and again.
  double Step(int device, int count) {
    int counts = chunks_ * (most_ - least_) + 1;
    double& known = known_[static_cast<size_t>(device * counts + count - chunks_ * least_)];
    if (known == kUnknown) known = FindStep(device, count);
    return known;
  }

  double FindStep(int device, int count) {
    double recomputed = memory_ ? Recomputed(device, count) : 0;
    if (recomputed == kForbidden) return kForbidden;
    double once = t_.scale.own * Seconds(device, count) + t_.scale.recomputed * recomputed;
    for (const MemoryPrice& at : problem_.memory_prices)
      once = std::max(once, PricedSeconds(at, device, count));
    double own = t_.microbatches * (once + 2 * chunks_ * t_.Host());
    double ready = own + waits_[static_cast<size_t>(device)];
    if (least_ == most_) ready = std::max(ready, Reduced(device, own));
    if (problem_.reduces_each) ready = std::max(ready, ReducedEach(device, count));
    return ready + std::max(end_, t_.End(Parameters(device, count), 0));
  }

  double Seconds(int device, int count) {
    if (least_ < most_ && alike_units_) {
      return problem_.time->fewest_seconds.Of(UnitsOn(device, count), HasFirst(device),
                                              HasLast(device));
    }
    if (least_ < most_) {
      return LeastOfStages(device, count, [&](int) { return &problem_.time->ranges; });
    }
    double sum = 0;
    for (int s = device; s < stages_; s += t_.devices) {
      sum += problem_.time->ranges.Of(UnitOf(s * most_), UnitOf((s + 1) * most_));
    }
    return sum;
  }

  double Parameters(int device, int count) const {
    if (least_ < most_) {
      return t_.plain().fewest_parameters.Of(UnitsOn(device, count), HasFirst(device),
                                             HasLast(device));
    }
    double sum = 0;
    for (int s = device; s < stages_; s += t_.devices) {
      sum += t_.parameters().Of(UnitOf(s * most_), UnitOf((s + 1) * most_));
    }
    return sum;
  }

  // The gradients of a device's first stage cannot be reduced before its last backward begins.
  double Reduced(int device, double own) {
    int first = UnitOf(device * most_), last = UnitOf((device + 1) * most_);
    double reduction = t_.scale.reduction * (problem_.reduce * t_.parameters().Of(first, last) +
                                             problem_.reduce_latency);
    double before = t_.Head(first, device) + own;
    if (!problem_.reduces_beside) return before + reduction;
    double once = own / t_.microbatches;
    double left = Seconds(device, chunks_ * most_) - problem_.time->ranges.Of(first, last) +
                  t_.plain().forward.Of(first, last);
    left = std::min(once, t_.scale.own * left + (2 * chunks_ - 1) * t_.Host());
    return before - once + left + reduction;
  }

  // As in PackedFloor. Of what is computed before the first backward only layers count.
  double ReducedEach(int device, int count) {
    double forwards = 0;
    for (const UnitsInFlight& at : AlikeOn(device, count)) {
      forwards += at.in_flight * (at.units * least_forward_);
    }
    for (double in_flight : counts_[static_cast<size_t>(device)]) forwards += in_flight * t_.Host();
    return t_.Head(FirstOf(device), device) + t_.scale.own * forwards +
           t_.scale.traffic * problem_.traffic * Parameters(device, count);
  }

  // Units, but for the first and the last of the model, in chunks with as many micro-batches in flight.
  struct UnitsInFlight {
    double in_flight = 0;
    int units = 0;
  };

  // Chunks with fewer micro-batches in flight have a unit more, if any.
  const std::vector<UnitsInFlight>& AlikeOn(int device, int count) {
    const std::vector<double>& counts = counts_[static_cast<size_t>(device)];
    int more = count - chunks_ * least_;
    std::vector<UnitsInFlight>& alike = alike_;
    alike.clear();
    for (int k = 0; k < chunks_; ++k) {
      double in_flight = counts[static_cast<size_t>(k)];
      int size = least_ + (chunks_ - k <= more ? 1 : 0);
      if (k == 0 && HasFirst(device)) size -= 1 - before_;
      if (k + 1 == chunks_ && HasLast(device)) size -= 1 - after_;
      if (alike.empty() || alike.back().in_flight != in_flight) alike.push_back({in_flight, 0});
      alike.back().units += std::max(0, size);
    }
    return alike;
  }

  // Seconds of a micro-batch with what memory is worth: that of the stages, less that of the device's memory.
  double PricedSeconds(const MemoryPrice& price, int device, int count) {
    double sum = LeastOfStages(device, count,
                               [&](int stage) { return price.least[static_cast<size_t>(stage)]; });
    return t_.scale.priced_memory * sum - price.per_byte * problem_.limit;
  }

  // What the stages of a device add up to, at least, with so many layers that count. `of`: the floors of a stage's ranges.
  template <typename Floors>
  double LeastOfStages(int device, int count, const Floors& of) {
    double sum = 0;
    std::vector<double> more;  // what a layer more adds to a stage
    for (int s = device; s < stages_; s += t_.devices) {
      double least = LeastOfStage(of(s), s, least_);
      sum += least;
      if (least_ < most_) more.push_back(LeastOfStage(of(s), s, most_) - least);
    }
    std::sort(more.begin(), more.end());
    for (int k = 0; k < count - chunks_ * least_; ++k) sum += more[static_cast<size_t>(k)];
    return sum;
  }

  // Of so many layers that count, from where the stage may begin.
  double LeastOfStage(const RangeFloors* of, int stage, int layers) {
    if (stage == 0) return of->Of(0, UnitOf(layers));
    if (stage + 1 == stages_) return of->Of(UnitOf(layers_ - layers), t_.units);
    int first = std::max(stage * least_, layers_ - (stages_ - stage) * most_);
    int last = std::min(stage * most_, layers_ - (stages_ - stage) * least_);
    if (first == last) return of->Of(UnitOf(first), UnitOf(first + layers));
    auto [at, fresh] = ranges_.try_emplace({of, layers});
    std::vector<double>& from = at->second;  // by the layer it begins with
    for (int l = 0; fresh && l + layers <= layers_; ++l) {
      from.push_back(of->Of(UnitOf(l), UnitOf(l + layers)));
    }
    last = std::min(last, layers_ - layers);
    return *std::min_element(from.begin() + first, from.begin() + last + 1);
  }

  // Seconds that recomputation adds to a micro-batch on a device, at least, so that its memory suffices: for any price of a
  // byte what its units keep and add at that price, less what memory is price.
  double Recomputed(int device, int count) {
    const LeastRoom& room = *problem_.room;
    const std::vector<double>& counts = counts_[static_cast<size_t>(device)];
    double held = Parameters(device, count);
    double gathered = t_.plain().fewest_parameters.Of(1, false, false);
    double state = t_.StateBytes(device) * held + problem_.gathered_bytes * gathered;
    double spare = problem_.limit - t_.scale.state * state;
    const std::vector<UnitsInFlight>& alike = AlikeOn(device, count);
    auto sum = [&](const auto& of) {  // of a unit in a chunk with so many in flight
      double all = 0;
      for (const UnitsInFlight& at : alike) {
        double each = kForbidden;
        for (const LeastRoom::Policies& unit : room.inner) {
          each = std::min(each, of(unit, t_.scale.kept * at.in_flight));
        }
        if (each < kForbidden) all += at.units * each;
      }
      if (HasFirst(device)) all += of(room.first, t_.scale.kept * counts.front());
      if (HasLast(device)) all += of(room.last, t_.scale.kept * counts.back());
      return all;
    };
    auto least = [](const LeastRoom::Policies& unit, double in_flight) {
      return in_flight * unit.least();
    };
    if (sum(least) > spare) return kForbidden;
    double recomputed = 0, last = 0;
    for (double in_flight : counts) {
      if (in_flight == last || in_flight == 0) continue;
      last = in_flight;
      for (const LeastRoom::Level& level : room.levels) {
        double per_byte = level.per_byte / (t_.scale.kept * in_flight);
        double seconds = sum([&](const LeastRoom::Policies& unit, double flight) {
          return unit.At(per_byte * flight);
        });
        recomputed = std::max(recomputed, seconds - per_byte * spare);
      }
    }
    return recomputed;
  }

  const FloorTerms& t_;
  const FloorProblem& problem_;
  int stages_, chunks_;
  int layers_;          // that count
  int most_, least_;    // of a stage
  int before_, after_;  // units that do not count: the embedding, the head
  bool memory_;
  double end_;
  double least_forward_ = kForbidden;        // of a unit but the first and the last
  std::vector<std::vector<double>> counts_;  // per device and chunk
  std::vector<double> waits_;                // per device
  std::vector<UnitsInFlight> alike_;         // of AlikeOn, until it is asked for again
  static constexpr double kUnknown = -1;
  std::vector<double> known_;  // steps, per device and number of its units
  std::map<std::pair<const RangeFloors*, int>, std::vector<double>> ranges_;  // of LeastOfStage
  bool alike_units_ = true;  // all but the first and the last take as long
};

}  // namespace

double InterleavedFloor(const FloorTerms& terms, double known) {
  double least = kForbidden;
  for (const EvenCut& cut : EvenCuts(terms.problem.units, terms.c.stages())) {
    least = std::min(least, InterleavedBound(terms, cut).Run(known));
  }
  return least;
}

}  // namespace heddle
