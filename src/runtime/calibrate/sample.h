// One thing to measure.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/measured_times.h"
#include "graph/graph.h"

namespace heddle {

// What was measured, before it becomes tables: curves by name, in any order of sizes.
struct RawTimes {
  double chain = 0, one = 0,
         many = 0;  // seconds of kChain kernels forward; of backward through 1, and 1 + kChain
  LoadTimes load;

  static constexpr int kChain = 20;
};

struct Sample {
  std::string_view what;                           // for the progress line
  std::function<std::function<void()>()> prepare;  // makes operands; what it returns is measured
  std::function<void(RawTimes& times, double seconds)> store;
};

// Kernels that do nothing, copies, updates.
void AddBasicSamples(at::Device device, bool small, std::vector<Sample>& samples);
// Products and attention, on grids.
void AddProductSamples(at::Device device, DType dtype, bool small, std::vector<Sample>& samples);
// The ops of a graph, but for views, products and attention. The graph must outlive the samples.
void AddOpSamples(at::Device device, const Graph& graph, std::vector<Sample>& samples);

enum class Clock { kWall, kThread };  // kThread: stands while another process has the core
double SecondsNow(Clock clock);
// Seconds of one call, after one that does not count: the mean of as many as fit into a moment, and of three moments
// the shortest.
double TimeOf(const std::function<void()>& body, at::Device device, Clock clock);
// Waits for what has been given to the device.
void Synchronise(at::Device device);

// Sorted, and points of nearly one size made one.
LoadTimes Finish(RawTimes raw);

}  // namespace heddle
