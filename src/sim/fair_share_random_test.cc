// Random systems of links and flows: compares rates with those of a simple progressive filling, checks that volume is
// conserved and that the order of insertion does not matter, and compares folded systems with whole ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/rng.h"
#include "sim/fair_share.h"

namespace heddle {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();
using Loads = std::vector<Load>;

// A random history: flows with their start times.
struct Arrival {
  double time;
  double volume;
  Loads loads;
};
struct System {
  std::vector<double> capacities;
  std::vector<Arrival> arrivals;  // by time
};

struct Random {
  std::uint64_t seed;
  std::uint64_t counter = 0;
  int Below(int bound) {
    return static_cast<int>(RandomBelow(static_cast<std::uint64_t>(bound), seed, 1, counter++));
  }
  double Uniform() { return RandomUniform(seed, 2, counter++); }
};

// Weights of 1/8 .. 2 if dyadic, thirds and sevenths otherwise.
System MakeSystem(std::uint64_t seed, bool dyadic) {
  Random random{seed};
  System system;
  const int links = 1 + random.Below(8);
  for (int i = 0; i < links; ++i) {
    system.capacities.push_back(random.Below(2) == 0 ? 1 + random.Below(3)
                                                     : 0.1 + random.Uniform());
  }
  const int flows = 1 + random.Below(20);
  double time = 0;
  for (int i = 0; i < flows; ++i) {
    if (random.Below(3) == 0) time += random.Uniform();
    Arrival arrival{time, random.Below(10) == 0 ? 0 : 0.1 + random.Uniform(), {}};
    for (int link = 0; link < links; ++link) {
      if (random.Below(3) != 0) continue;
      const double weight = dyadic ? (1 + random.Below(16)) / 8.0
                                   : (1 + random.Below(5)) / (random.Below(2) == 0 ? 3.0 : 7.0);
      arrival.loads.push_back({link, weight});
    }
    system.arrivals.push_back(arrival);
  }
  return system;
}

// Runs a history and returns the end of every flow. `check` is called after every change.
template <class Check>
std::vector<double> Play(const System& system, Check check) {
  FairShare net(system.capacities);
  std::vector<double> ends(system.arrivals.size(), -1);
  std::vector<std::size_t> number(system.arrivals.size());  // the number of the arrival, by id
  std::vector<int> ended, running;
  std::size_t next = 0;
  while (next < system.arrivals.size() || net.active() > 0) {
    const double end = net.NextEnd();
    if (next < system.arrivals.size() && system.arrivals[next].time <= end) {
      const double time = system.arrivals[next].time;
      for (; next < system.arrivals.size() && system.arrivals[next].time == time; ++next) {
        const Arrival& arrival = system.arrivals[next];
        const int id = net.Start(time, arrival.volume, arrival.loads);
        number[static_cast<std::size_t>(id)] = next;
        running.push_back(id);
      }
    } else {
      net.Advance(end, ended);
      EXPECT_FALSE(ended.empty());
      for (const int id : ended) {
        ends[number[static_cast<std::size_t>(id)]] = end;
        running.erase(std::find(running.begin(), running.end(), id));
      }
    }
    check(net, running, number);
  }
  return ends;
}

std::vector<double> Play(const System& system) {
  return Play(system, [](FairShare&, const auto&, const auto&) {});
}

// Progressive filling as the book describes it, without regard to speed or to the last bit.
std::vector<double> ReferenceRates(const std::vector<double>& capacities,
                                   const std::vector<Loads>& flows) {
  std::vector<double> rates(flows.size(), kUnlimited);
  std::vector<bool> frozen(flows.size());
  for (std::size_t i = 0; i < flows.size(); ++i) frozen[i] = flows[i].empty();
  for (;;) {
    double lowest = kUnlimited;
    std::vector<double> shares(capacities.size(), kUnlimited);
    for (std::size_t link = 0; link < capacities.size(); ++link) {
      double left = capacities[link];
      double weight = 0;
      for (std::size_t i = 0; i < flows.size(); ++i) {
        for (const Load& load : flows[i]) {
          if (static_cast<std::size_t>(load.link) != link) continue;
          if (frozen[i]) left -= load.weight * rates[i];
          if (!frozen[i]) weight += load.weight;
        }
      }
      if (weight > 0) shares[link] = left / weight;
      lowest = std::min(lowest, shares[link]);
    }
    if (lowest == kUnlimited) return rates;
    std::vector<std::size_t> freeze;
    for (std::size_t i = 0; i < flows.size(); ++i) {
      if (frozen[i]) continue;
      for (const Load& load : flows[i]) {
        if (shares[static_cast<std::size_t>(load.link)] <= lowest * (1 + 1e-12)) {
          freeze.push_back(i);
          break;
        }
      }
    }
    for (const std::size_t i : freeze) {
      frozen[i] = true;
      rates[i] = lowest;
    }
  }
}

TEST(FairShare, RatesAreThoseOfTheReference) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const System system = MakeSystem(seed, seed % 2 == 0);
    Play(system, [&](FairShare& net, const std::vector<int>& running,
                     const std::vector<std::size_t>& number) {
      std::vector<Loads> flows;
      for (const int id : running) {
        const Arrival& arrival = system.arrivals[number[static_cast<std::size_t>(id)]];
        flows.push_back(arrival.volume > 0 ? arrival.loads : Loads{});
      }
      const std::vector<double> rates = ReferenceRates(system.capacities, flows);
      for (std::size_t i = 0; i < running.size(); ++i) {
        if (rates[i] == kUnlimited) {
          EXPECT_EQ(net.Rate(running[i]), kUnlimited);
        } else {
          EXPECT_NEAR(net.Rate(running[i]), rates[i], 1e-9 * rates[i]) << seed;
        }
      }
    });
  }
}

TEST(FairShare, VolumeIsConserved) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const System system = MakeSystem(seed, false);
    FairShare net(system.capacities);
    std::vector<double> moved(system.arrivals.size()), rates(system.arrivals.size());
    std::vector<int> ended, running;
    std::vector<std::size_t> number(system.arrivals.size());
    double now = 0;
    std::size_t next = 0;
    while (next < system.arrivals.size() || net.active() > 0) {
      const double arrival =
          next < system.arrivals.size() ? system.arrivals[next].time : kUnlimited;
      const double time = std::min(arrival, net.NextEnd());
      for (const int id : running) {
        const double rate = net.Rate(id);
        if (rate < kUnlimited) moved[number[static_cast<std::size_t>(id)]] += rate * (time - now);
      }
      now = time;
      if (arrival == time) {
        const int id = net.Start(time, system.arrivals[next].volume, system.arrivals[next].loads);
        number[static_cast<std::size_t>(id)] = next++;
        running.push_back(id);
        continue;
      }
      net.Advance(time, ended);
      for (const int id : ended) {
        const std::size_t i = number[static_cast<std::size_t>(id)];
        if (!system.arrivals[i].loads.empty()) {
          EXPECT_NEAR(moved[i], system.arrivals[i].volume, 1e-9);
        }
        running.erase(std::find(running.begin(), running.end(), id));
      }
    }
  }
}

TEST(FairShare, TheOrderOfInsertionDoesNotMatter) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const System system = MakeSystem(seed, false);
    const std::vector<double> ends = Play(system);
    // The same flows, with those that arrive together, and the loads of each flow, in another order.
    Random random{seed + 1000};
    std::vector<std::size_t> order(system.arrivals.size());
    std::iota(order.begin(), order.end(), 0);
    std::vector<int> keys;
    for (std::size_t i = 0; i < order.size(); ++i) keys.push_back(random.Below(1000));
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      const double ta = system.arrivals[a].time, tb = system.arrivals[b].time;
      return ta != tb ? ta < tb : keys[a] < keys[b];
    });
    System permuted{system.capacities, {}};
    for (const std::size_t i : order) {
      permuted.arrivals.push_back(system.arrivals[i]);
      std::reverse(permuted.arrivals.back().loads.begin(), permuted.arrivals.back().loads.end());
    }
    const std::vector<double> again = Play(permuted);
    for (std::size_t i = 0; i < order.size(); ++i) EXPECT_EQ(again[i], ends[order[i]]) << seed;
  }
}

// A folded system and the whole system with `copies` times every flow. `sharing` gives for each link how many
// consecutive copies share it.
struct Replicated {
  System folded, whole;
};

enum class Fold { kCopies, kWeight };

Replicated Replicate(const System& system, int copies, const std::vector<int>& sharing, Fold fold) {
  Replicated result{system, {}};
  std::vector<int> first;  // the first of the links that replace each link
  for (std::size_t link = 0; link < sharing.size(); ++link) {
    first.push_back(static_cast<int>(result.whole.capacities.size()));
    result.whole.capacities.insert(result.whole.capacities.end(),
                                   static_cast<std::size_t>(copies / sharing[link]),
                                   system.capacities[link]);
  }
  for (Arrival& arrival : result.folded.arrivals) {
    for (Load& load : arrival.loads) {
      const int shared = sharing[static_cast<std::size_t>(load.link)];
      if (fold == Fold::kCopies) load.copies = shared;
      if (fold == Fold::kWeight) load.weight *= shared;
    }
  }
  for (const Arrival& arrival : system.arrivals) {
    for (int copy = 0; copy < copies; ++copy) {
      Arrival replica = arrival;
      for (Load& load : replica.loads) {
        const auto link = static_cast<std::size_t>(load.link);
        load.link = first[link] + copy / sharing[link];
      }
      result.whole.arrivals.push_back(replica);
    }
  }
  return result;
}

void ExpectSameEnds(const System& system, int copies, const std::vector<int>& sharing, Fold fold) {
  const Replicated both = Replicate(system, copies, sharing, fold);
  const std::vector<double> folded = Play(both.folded);
  const std::vector<double> whole = Play(both.whole);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    ASSERT_EQ(whole[i], folded[i / static_cast<std::size_t>(copies)]) << "flow " << i;
  }
}

TEST(FairShare, AFoldedSystemEqualsTheWholeBitForBit) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    for (const int copies : {2, 3, 4, 8}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << copies << " copies");
      const System dyadic = MakeSystem(seed, true);
      const System other = MakeSystem(seed, false);
      const auto sharing_of = [&](const System& system) {
        Random random{seed + 5000};
        std::vector<int> sharing;
        for (std::size_t i = 0; i < system.capacities.size(); ++i) {
          const int choices[] = {1, copies % 2 == 0 ? 2 : 1, copies};
          sharing.push_back(choices[random.Below(3)]);
        }
        return sharing;
      };
      ExpectSameEnds(dyadic, copies, std::vector<int>(dyadic.capacities.size(), 1), Fold::kCopies);
      ExpectSameEnds(dyadic, copies, sharing_of(dyadic), Fold::kWeight);
      ExpectSameEnds(dyadic, copies, sharing_of(dyadic), Fold::kCopies);
      ExpectSameEnds(other, copies, sharing_of(other), Fold::kCopies);
    }
  }
}

}  // namespace
}  // namespace heddle
