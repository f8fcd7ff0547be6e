// The floor of configurations with several stages per device: the least over all even cuts
// (plan/units.h). Every stage has n or n - 1 of the layers that count. Where n divides their
// number, all stages are known. Otherwise a device has any number of layers between v (n - 1) and v
// n, and each of its stages is the cheapest range among the positions where it may begin. X is a
// lower bound if devices that take as many layers as X and memory allow do not take all of them.
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
        memory_(problem_.memory.limited()),
        end_(terms.EvenEnd()) {
    for (int d = 0; d < t_.devices && (memory_ || problem_.traffic.every_microbatch); ++d)
      counts_.push_back(LeastInFlightOfChunks(t_.c, d));
    for (int d = 0; d < t_.devices; ++d) waits_.push_back(t_.FillAndDrain(FirstOf(d), d));
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
  // The first unit that a stage can begin with.
  int FirstOf(int stage) const {
    return UnitOf(std::max(stage * least_, layers_ - (stages_ - stage) * most_));
  }

  // The unit that a counted layer is. An embedding or a head that does not count belongs to its
  // neighbour.
  int UnitOf(int layer) const {
    if (layer == 0) return 0;
    return layer == layers_ ? t_.units : layer + before_;
  }

  // The number of units on a device that has `count` counted layers.
  int UnitsOn(int device, int count) const {
    return count + (HasFirst(device) ? before_ : 0) + (HasLast(device) ? after_ : 0);
  }

  bool HasFirst(int device) const { return device == 0; }
  bool HasLast(int device) const { return device + 1 == t_.devices; }

  // Can the devices take all units within this bound?
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

  // The lower bound on the step by a device with `count` layers; kForbidden where they do not fit.
  // Cached, because the bisection asks repeatedly.
  double Step(int device, int count) {
    int counts = chunks_ * (most_ - least_) + 1;
    double& known = known_[static_cast<size_t>(device * counts + count - chunks_ * least_)];
    if (known == kUnknown) known = FindStep(device, count);
    return known;
  }

  double FindStep(int device, int count) {
    double recomputed = memory_ ? Recomputed(device, count) : 0;
    if (recomputed == kForbidden) return kForbidden;
    double once = t_.scale.own * Seconds(device, count) + t_.scale.memory.recomputed * recomputed;
    for (const MemoryPrice& at : problem_.memory_prices)
      once = std::max(once, PricedSeconds(at, device, count));
    double own = t_.microbatches * (once + 2 * chunks_ * t_.Host());
    double ready = own + waits_[static_cast<size_t>(device)];
    if (least_ == most_) ready = std::max(ready, Reduced(device, own));
    if (problem_.traffic.every_microbatch) ready = std::max(ready, ReducedEach(device, count));
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

  // The gradients of a device's first stage are complete only when its last backward begins.
  double Reduced(int device, double own) {
    int first = UnitOf(device * most_), last = UnitOf((device + 1) * most_);
    double reduction =
        t_.scale.end.reduction *
        (problem_.end.reduce * t_.parameters().Of(first, last) + problem_.end.reduce_latency);
    double before = t_.Fill(first, device) + own;
    if (!problem_.end.reduces_beside_backward) return before + reduction;
    double once = own / t_.microbatches;
    double left = Seconds(device, chunks_ * most_) - problem_.time->ranges.Of(first, last) +
                  t_.plain().forward.Of(first, last);
    left = std::min(once, t_.scale.own * left + (2 * chunks_ - 1) * t_.Host());
    return before - once + left + reduction;
  }

  // ZeRO 2, as in floor_one_stage.cc. Of the computation before the first backward only layers are
  // counted.
  double ReducedEach(int device, int count) {
    double forwards = 0;
    for (const UnitsInFlight& at : AlikeOn(device, count)) {
      forwards += at.in_flight * (at.units * least_forward_);
    }
    for (double in_flight : counts_[static_cast<size_t>(device)]) forwards += in_flight * t_.Host();
    return t_.Fill(FirstOf(device), device) + t_.scale.own * forwards +
           t_.scale.traffic.total * problem_.traffic.per_parameter * Parameters(device, count);
  }

  // Units, except the model's first and last, in chunks that have the same number of micro-batches
  // in flight.
  struct UnitsInFlight {
    double in_flight = 0;
    int units = 0;
  };

  // Chunks with fewer micro-batches in flight get the extra units.
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

  // The Lagrangian bound: the priced costs of the stages less the price of the device's memory.
  double PricedSeconds(const MemoryPrice& price, int device, int count) {
    double sum = LeastOfStages(device, count,
                               [&](int stage) { return price.least[static_cast<size_t>(stage)]; });
    return t_.scale.memory.priced * sum - price.per_byte * problem_.memory.limit;
  }

  // The least cost of a device's stages with `count` layers together. `of` gives the range floors
  // of a stage.
  template <typename Floors>
  double LeastOfStages(int device, int count, const Floors& of) {
    double sum = 0;
    std::vector<double> more;  // what one layer more adds to a stage
    for (int s = device; s < stages_; s += t_.devices) {
      double least = LeastOfStage(of(s), s, least_);
      sum += least;
      if (least_ < most_) more.push_back(LeastOfStage(of(s), s, most_) - least);
    }
    std::sort(more.begin(), more.end());
    for (int k = 0; k < count - chunks_ * least_; ++k) sum += more[static_cast<size_t>(k)];
    return sum;
  }

  // The least cost of a stage with so many layers, over all positions where it may begin.
  double LeastOfStage(const RangeFloors* of, int stage, int layers) {
    if (stage == 0) return of->Of(0, UnitOf(layers));
    if (stage + 1 == stages_) return of->Of(UnitOf(layers_ - layers), t_.units);
    int first = std::max(stage * least_, layers_ - (stages_ - stage) * most_);
    int last = std::min(stage * most_, layers_ - (stages_ - stage) * least_);
    if (first == last) return of->Of(UnitOf(first), UnitOf(first + layers));
    auto [at, fresh] = ranges_.try_emplace({of, layers});
    std::vector<double>& from = at->second;  // by the first layer
    for (int l = 0; fresh && l + layers <= layers_; ++l) {
      from.push_back(of->Of(UnitOf(l), UnitOf(l + layers)));
    }
    last = std::min(last, layers_ - layers);
    return *std::min_element(from.begin() + first, from.begin() + last + 1);
  }

  // Seconds that recomputation adds to a micro-batch on a device, at least, so that memory
  // suffices. By duality, for any price of a byte: the least of (added seconds + price x kept
  // bytes) of its units, less price x the memory that is left.
  double Recomputed(int device, int count) {
    const LeastMemory& least_memory = *problem_.memory.activations;
    const std::vector<double>& counts = counts_[static_cast<size_t>(device)];
    double held = Parameters(device, count);
    double gathered = t_.plain().fewest_parameters.Of(1, false, false);
    double state = t_.StateBytes(device) * held + problem_.memory.gathered * gathered;
    double spare = problem_.memory.limit - t_.scale.memory.state * state;
    const std::vector<UnitsInFlight>& alike = AlikeOn(device, count);
    // Sum over the device's units of a cost that depends on the micro-batches in flight.
    auto sum = [&](const auto& of) {
      double all = 0;
      for (const UnitsInFlight& at : alike) {
        double each = kForbidden;
        for (const LeastMemory::Policies& unit : least_memory.inner) {
          each = std::min(each, of(unit, t_.scale.memory.kept * at.in_flight));
        }
        if (each < kForbidden) all += at.units * each;
      }
      if (HasFirst(device)) all += of(least_memory.first, t_.scale.memory.kept * counts.front());
      if (HasLast(device)) all += of(least_memory.last, t_.scale.memory.kept * counts.back());
      return all;
    };
    auto least = [](const LeastMemory::Policies& unit, double in_flight) {
      return in_flight * unit.least();
    };
    if (sum(least) > spare) return kForbidden;
    double recomputed = 0, last = 0;
    for (double in_flight : counts) {
      if (in_flight == last || in_flight == 0) continue;
      last = in_flight;
      for (const LeastMemory::Level& level : least_memory.levels) {
        double per_byte = level.per_byte / (t_.scale.memory.kept * in_flight);
        double seconds = sum([&](const LeastMemory::Policies& unit, double flight) {
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
  int layers_;          // counted layers
  int most_, least_;    // layers per stage
  int before_, after_;  // units that do not count: the embedding, the head
  bool memory_;
  double end_;
  double least_forward_ = kForbidden;        // of a unit other than the first and the last
  std::vector<std::vector<double>> counts_;  // per device and chunk
  std::vector<double> waits_;                // per device
  std::vector<UnitsInFlight> alike_;         // result of AlikeOn, reused
  static constexpr double kUnknown = -1;
  std::vector<double> known_;  // cached steps, by device and number of layers
  // Cached by LeastOfStage.
  std::map<std::pair<const RangeFloors*, int>, std::vector<double>> ranges_;
  bool alike_units_ = true;  // all units but the first and the last take equally long
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
