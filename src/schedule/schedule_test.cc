// Conformance: what every schedule of the list must do, over devices, micro-batches, chunks and times.
#include "schedule/schedule.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/rng.h"

namespace heddle {
namespace {

using ::testing::IsEmpty;

constexpr double kClose = 1e-9;

// F, B and W alike; W short; B long; W long; numbers that do not add up exactly.
const HalfTimes kEqualTimes[] = {{1, 1, 1}, {1, 1, .5}, {1, 2, .5},
                                 {2, 1, 1}, {1, 1, 3},  {.1, .1, .1}};

std::vector<HalfTimes> RandomTimes(int stages, uint64_t seed) {
  std::vector<HalfTimes> times;
  for (int s = 0; s < stages; ++s) {
    const auto draw = [&](uint64_t i) { return .2 + 2 * RandomUniform(seed, uint64_t(s), i); };
    times.push_back({draw(0), draw(1), draw(2)});
  }
  return times;
}

// Executed, with a check of everything that can be seen of times from outside.
Execution CheckedRun(const Timetable& timetable, const PipelineShape& shape) {
  const Execution run = Execute(timetable, shape);
  std::map<std::tuple<Half, int, int>, double> ends;  // BW as B
  const auto half_of = [](Half half) { return half == Half::kBW ? Half::kB : half; };
  for (size_t d = 0; d < timetable.size(); ++d) {
    for (size_t i = 0; i < timetable[d].size(); ++i) {
      const Task& task = timetable[d][i];
      ends[{half_of(task.half), task.stage, task.microbatch}] = run.end[d][i];
    }
  }
  const double hop = shape.devices > 1 ? shape.transfer : 0;
  for (size_t d = 0; d < timetable.size(); ++d) {
    double free = 0;
    for (size_t i = 0; i < timetable[d].size(); ++i) {
      const auto [half, s, m] = timetable[d][i];
      double ready = free;  // one thing at a time
      const auto needs = [&](Half needed, int stage, double transfer) {
        ready = std::max(ready, ends.at({needed, stage, m}) + transfer);
      };
      if (half == Half::kF && s > 0) needs(Half::kF, s - 1, hop);
      if (half == Half::kW) needs(Half::kB, s, 0);
      if (half_of(half) == Half::kB) needs(Half::kF, s, 0);
      if (half_of(half) == Half::kB && s + 1 < shape.stages()) needs(Half::kB, s + 1, hop);
      EXPECT_DOUBLE_EQ(run.start[d][i], ready);
      EXPECT_DOUBLE_EQ(run.end[d][i], ready + Duration(shape, timetable[d][i]));
      free = run.end[d][i];
    }
  }
  return run;
}

class Conformance : public ::testing::TestWithParam<std::tuple<size_t, int>> {
 protected:
  const ScheduleDef& def() const { return AllSchedules()[std::get<0>(GetParam())]; }
  int devices() const { return std::get<1>(GetParam()); }

  // Calls f(shape) for every shape the schedule takes.
  template <class F>
  void ForShapes(F f) const {
    const int p = devices();
    for (int m : std::set<int>{1, 2, 3, p, 2 * p - 1, 2 * p, 4 * p, 17}) {
      if (def().full_rounds && m % p != 0) continue;
      for (int chunks : {1, 2, 3, 5}) {
        if (chunks > 1 && !def().takes_chunks) continue;
        SCOPED_TRACE(fmt::format("{} microbatches, {} chunks", m, chunks));
        f(PipelineShape{.devices = p, .chunks = chunks, .microbatches = m});
      }
    }
  }

  Execution MakeAndRun(const PipelineShape& shape) const {
    const Timetable timetable = MakeTimetable(def(), shape);
    EXPECT_THAT(Verify(timetable, shape), IsEmpty());
    for (const auto& tasks : timetable) {
      for (const Task& task : tasks) {
        const bool split = task.half == Half::kB || task.half == Half::kW;
        EXPECT_TRUE(task.half == Half::kF || split == def().splits_backward);
      }
    }
    const Execution run = CheckedRun(timetable, shape);
    for (int d = 0; d < shape.devices; ++d) {
      EXPECT_LE(run.peak_in_flight[size_t(d)], def().peak_in_flight(shape, d));
      EXPECT_LE(run.peak_weight_pending[size_t(d)], def().peak_weight_pending(shape, d));
      if (!def().splits_backward) {
        EXPECT_EQ(run.peak_in_flight[size_t(d)], def().peak_in_flight(shape, d));
      }
    }
    EXPECT_LE(def().lower_bound(shape), run.makespan * (1 + 1e-12));
    return run;
  }
};

// Of the timetable itself: when the device's peak is first reached.
TEST_P(Conformance, StagesHaveTheirPartOfThePeak) {
  if (def().splits_backward) return;
  ForShapes([&](const PipelineShape& shape) {
    const Timetable timetable = MakeTimetable(def(), shape);
    for (int d = 0; d < shape.devices; ++d) {
      std::vector<int> in_flight(size_t(shape.stages()), 0);
      int sum = 0;
      for (const Task& task : timetable[size_t(d)]) {
        const int change = task.half == Half::kF ? 1 : -1;
        in_flight[size_t(task.stage)] += change;
        sum += change;
        if (sum == def().peak_in_flight(shape, d)) break;
      }
      for (int s = d; s < shape.stages(); s += shape.devices) {
        EXPECT_EQ(PeakInFlightOfStage(def(), shape, s), in_flight[size_t(s)]) << "stage " << s;
      }
    }
  });
}

TEST_P(Conformance, EqualStagesHaveTheBubbleStated) {
  ForShapes([&](PipelineShape shape) {
    for (const HalfTimes& times : kEqualTimes) {
      SCOPED_TRACE(fmt::format("{} {} {}", times.forward, times.backward, times.weight));
      shape.times.assign(size_t(shape.stages()), times);
      const Execution run = MakeAndRun(shape);
      const std::optional<double> bubble = def().bubble(shape);
      EXPECT_TRUE(bubble || def().splits_backward);
      if (!bubble) continue;
      EXPECT_NEAR(run.bubble, *bubble, kClose);
      EXPECT_NEAR(run.makespan, def().lower_bound(shape), kClose * run.makespan);
    }
  });
}

TEST_P(Conformance, UnequalStagesAndTransfersAreValid) {
  ForShapes([&](PipelineShape shape) {
    for (uint64_t seed : {1, 2, 3, 4}) {
      shape.times = RandomTimes(shape.stages(), seed);
      shape.transfer = seed % 2 == 0 ? .3 : 0;
      MakeAndRun(shape);
      if (shape.stages() > 1) {
        EXPECT_EQ(def().bubble(shape), std::nullopt);
      }
    }
  });
}

TEST_P(Conformance, TasksThatTakeNoTime) {
  ForShapes([&](PipelineShape shape) {
    for (const HalfTimes& times : {HalfTimes{0, 0, 0}, {1, 1, 0}, {0, 1, 1}}) {
      shape.times.assign(size_t(shape.stages()), times);
      const Execution run = MakeAndRun(shape);
      EXPECT_TRUE(run.bubble >= 0 && run.bubble < 1) << run.bubble;
    }
  });
}

TEST_P(Conformance, TheSameTwice) {
  ForShapes([&](PipelineShape shape) {
    shape.times = RandomTimes(shape.stages(), 7);
    EXPECT_EQ(MakeTimetable(def(), shape), MakeTimetable(def(), shape));
  });
}

INSTANTIATE_TEST_SUITE_P(Schedules, Conformance,
                         ::testing::Combine(::testing::Range(size_t{0}, AllSchedules().size()),
                                            ::testing::Range(1, 9)),
                         [](const auto& info) {
                           std::string name(AllSchedules()[std::get<0>(info.param)].name);
                           std::erase_if(name, [](unsigned char c) { return !std::isalnum(c); });
                           return fmt::format("{}_{}", name, std::get<1>(info.param));
                         });

const ScheduleDef& Named(std::string_view name) {
  const ScheduleDef* def = FindSchedule(name);
  EXPECT_NE(def, nullptr) << name;
  return *def;
}

Execution RunOf(std::string_view name, const PipelineShape& shape) {
  return Execute(MakeTimetable(Named(name), shape), shape);
}

TEST(Schedule, TheFormulasOfThePapers) {
  const double f = 1, b = 1.5, w = .75;
  for (int p : {1, 2, 4, 8}) {
    for (int m : {p, 2 * p, 5 * p}) {
      PipelineShape shape{.devices = p, .microbatches = m};
      shape.times.assign(size_t(p), {f, b, w});
      const double work = m * (f + b + w);
      const double fill = p - 1;
      EXPECT_NEAR(RunOf("gpipe", shape).bubble, fill / (m + fill), kClose);
      EXPECT_NEAR(RunOf("1f1b", shape).makespan, work + fill * (f + b + w), kClose);
      EXPECT_NEAR(RunOf("zb-h1", shape).makespan, work + fill * (f + b - w), kClose);
      PipelineShape chunked{.devices = p, .chunks = 4, .microbatches = m};
      EXPECT_NEAR(RunOf("interleaved", chunked).bubble, fill / (4 * m + fill), kClose);
    }
  }
}

TEST(Schedule, ZbNeverPausesInsideAStep) {
  for (int p = 1; p <= 8; ++p) {
    for (int m : {2 * p - 1, 2 * p, 4 * p, 50}) {
      for (double t : {1.0, .1}) {
        PipelineShape shape{.devices = p, .microbatches = m};
        shape.times.assign(size_t(p), {t, t, t});
        for (double idle : RunOf("zb", shape).idle) EXPECT_NEAR(idle, 0, kClose) << p << " " << m;
      }
    }
  }
}

TEST(Schedule, MoreMemoryIsNeverSlower) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    PipelineShape shape{.devices = 1 + int(seed % 8), .microbatches = 1 + int(seed * 7 % 23)};
    shape.times = RandomTimes(shape.stages(), seed);
    shape.transfer = seed % 3 == 0 ? .2 : 0;
    const double slack = 1 + 1e-12;
    EXPECT_LE(RunOf("zb-h1", shape).makespan, RunOf("1f1b", shape).makespan * slack) << seed;
    EXPECT_LE(RunOf("zb", shape).makespan, RunOf("zb-h1", shape).makespan * slack) << seed;
  }
}

// All orders of one device's tasks in which every micro-batch goes F, B, W.
std::vector<std::vector<Task>> AllOrders(int stage, int microbatches) {
  std::vector<std::vector<Task>> orders;
  std::vector<Task> order;
  std::vector<uint8_t> next(size_t(microbatches), 0);
  const auto extend = [&](auto&& self) -> void {
    if (order.size() == 3 * next.size()) orders.push_back(order);
    for (size_t m = 0; m < next.size(); ++m) {
      if (next[m] == 3) continue;
      order.push_back({static_cast<Half>(next[m]++), stage, int(m)});
      self(self);
      order.pop_back();
      --next[m];
    }
  };
  extend(extend);
  return orders;
}

TEST(Schedule, NoOrderWithinTheMemoryBeatsTheBound) {
  const std::vector<std::vector<Task>> orders[] = {AllOrders(0, 2), AllOrders(1, 2),
                                                   AllOrders(2, 2)};
  for (uint64_t seed = 0; seed < 8; ++seed) {
    PipelineShape shape{.devices = 3, .microbatches = 2, .transfer = seed % 2 == 0 ? .25 : 0};
    shape.times = RandomTimes(shape.stages(), seed);
    std::map<std::string_view, double> best{{"zb-h1", 1e9}, {"zb", 1e9}};
    for (const auto& first : orders[0]) {
      for (const auto& second : orders[1]) {
        for (const auto& third : orders[2]) {
          const Timetable timetable{first, second, third};
          if (!Verify(timetable, shape).empty()) continue;
          const Execution run = Execute(timetable, shape);
          for (auto& [name, makespan] : best) {
            bool fits = true;
            for (int d = 0; d < shape.devices; ++d) {
              fits &= run.peak_in_flight[size_t(d)] <= Named(name).peak_in_flight(shape, d);
              fits &=
                  run.peak_weight_pending[size_t(d)] <= Named(name).peak_weight_pending(shape, d);
            }
            if (fits) makespan = std::min(makespan, run.makespan);
          }
        }
      }
    }
    for (const auto& [name, makespan] : best) {
      EXPECT_LE(Named(name).lower_bound(shape), makespan * (1 + 1e-12)) << name << " " << seed;
      EXPECT_GE(RunOf(name, shape).makespan, makespan * (1 - 1e-12)) << name << " " << seed;
      EXPECT_LE(RunOf(name, shape).makespan, makespan * 1.05) << name << " " << seed;
    }
  }
}

TEST(Schedule, Names) {
  std::set<std::string_view> names;
  for (const ScheduleDef& def : AllSchedules()) {
    EXPECT_TRUE(names.insert(def.name).second) << def.name;
    EXPECT_EQ(FindSchedule(def.name), &def);
    EXPECT_FALSE(def.summary.empty());
  }
  EXPECT_EQ(names, (std::set<std::string_view>{"gpipe", "1f1b", "interleaved", "zb-h1", "zb"}));
  EXPECT_EQ(FindSchedule("2f2b"), nullptr);
  EXPECT_EQ(FindSchedule(""), nullptr);
}

void ExpectRefused(std::string_view name, const PipelineShape& shape, const std::string& message) {
  try {
    MakeTimetable(Named(name), shape);
    ADD_FAILURE() << "taken: " << message;
  } catch (const InputError& error) {
    EXPECT_EQ(std::string(error.what()), "schedule " + std::string(name) + ": " + message);
  }
}

TEST(Schedule, BadShapesAreRefused) {
  ExpectRefused("1f1b", {.devices = 0}, "devices is 0, must be at least 1");
  ExpectRefused("1f1b", {.chunks = -1}, "chunks is -1, must be at least 1");
  ExpectRefused("gpipe", {.microbatches = 0}, "microbatches is 0, must be at least 1");
  ExpectRefused("zb", {.devices = 2, .chunks = 3, .microbatches = 2},
                "chunks is 3, but it takes one stage per device; give 1, or choose interleaved");
  ExpectRefused("interleaved", {.devices = 4, .chunks = 2, .microbatches = 6},
                "microbatches is 6, must be a multiple of the 4 devices; give 4 or 8");
  ExpectRefused("interleaved", {.devices = 4, .chunks = 2, .microbatches = 3},
                "microbatches is 3, must be a multiple of the 4 devices; give 4");
  ExpectRefused("interleaved", {.devices = 2, .chunks = 2, .microbatches = 2, .times = {{}, {}}},
                "there are times for 2 stages, must be 4 (devices x chunks) or none");
  ExpectRefused("1f1b", {.devices = 2, .times = {{}, {1, -2, 1}}},
                "backward time of stage 1 is -2, must be finite and not negative");
  ExpectRefused("zb-h1", {.times = {{1, 1, std::numeric_limits<double>::infinity()}}},
                "weight time of stage 0 is inf, must be finite and not negative");
  ExpectRefused("1f1b", {.transfer = std::numeric_limits<double>::quiet_NaN()},
                "transfer is nan, must be finite and not negative");
  ExpectRefused(
      "interleaved", {.devices = 1 << 20, .chunks = 1 << 20, .microbatches = 1 << 20},
      "1048576 devices x 1048576 chunks x 1048576 microbatches are too many, at most 67108864");
}

}  // namespace
}  // namespace heddle
