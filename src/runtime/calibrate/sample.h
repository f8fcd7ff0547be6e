// One thing to measure.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/measured_times.h"
#include "graph/graph.h"
#include "runtime/accelerator.h"

namespace heddle {

constexpr double kLeast = 1e-9;  // seconds: nothing takes less

// What was measured, before it becomes tables: curves by name, in any order of sizes.
struct RawTimes {
  // Seconds of kChain of them forward; of backward through 1, and 1 + kChain.
  struct Chain {
    double forward = 0, one = 0, many = 0;
  };
  Chain kernels, views;
  LoadTimes load;

  static constexpr int kChain = 20;
};

struct Sample {
  std::string_view what;                           // for the progress line
  std::function<std::function<void()>()> prepare;  // makes operands; what it returns is measured
  std::function<void(RawTimes& times, double seconds)> store;
};

// Kernels and views that do nothing, copies, updates.
void AddBasicSamples(at::Device device, bool small, std::vector<Sample>& samples);
// Products and attention, on grids.
void AddProductSamples(at::Device device, DType dtype, bool small, std::vector<Sample>& samples);
// The ops of a graph, but for views, products and attention, and those that were seen with such operands. The graph
// must outlive the samples.
using SeenOps = std::set<std::pair<std::string, std::vector<std::pair<DType, Shape>>>>;
void AddOpSamples(at::Device device, const Graph& graph, SeenOps& seen,
                  std::vector<Sample>& samples);

enum class Clock { kWall, kThread };  // kThread: stands while another process has the core
double SecondsNow(Clock clock);

// Where all of a rank's work is done by its thread it is timed by the clock of that.
Clock ClockOf(at::Device device, int threads);

// What this thread gets of a core while it never waits: the median of a few windows, in so many seconds or somewhat more.
// A window runs from the end of one interruption to the end of another, so that it holds whole periods of a quota. What
// is 1 but for a little counts as 1.
double ShareOfCore(double seconds);

// Times work on a device. Where it is `captured`, the device repeats the calls as one graph and says itself how long
// it took: the host, which has nothing to do in a captured step, is not measured.
class Stopwatch {
 public:
  Stopwatch(at::Device device, int threads);

  // Seconds of one call, after one that does not count: the mean of as many as fit into a moment, and of three
  // moments the shortest. What cannot be captured is called by the host all the same: a step with it is not captured.
  double TimeOf(const std::function<void()>& body, bool captured);

 private:
  double TimeOfCalls(const std::function<void()>& body, int calls) const;
  std::optional<double> TimeOfGraph(const std::function<void()>& body, int calls);
  void Synchronise() const;

  at::Device device_;
  Clock clock_;
  std::optional<c10::Stream> stream_;  // the default one cannot be captured
  StreamScope scope_;
  std::unique_ptr<StepGraph> memory_;  // that all graphs use
};

// Sorted, and points of nearly one size made one.
LoadTimes Finish(RawTimes raw);

}  // namespace heddle
