// Trains under a plan on threads and compares with one device.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "program/program.h"
#include "runtime/executor.h"
#include "runtime/optimizer.h"

namespace heddle {

struct Curve {
  std::vector<double> losses;
  std::map<std::string, at::Tensor> gradients;  // of the first step
  std::map<std::string, at::Tensor> weights;    // after the last
};

struct CurveOptions {
  int64_t steps = 10;
  double clip_norm = 0;
  uint64_t seed = 3;
  OptimizerOptions optimizer;
  at::Device device = at::kCPU;  // of the plan's ranks; the meaning is always the CPU's
  const Mask* mask = nullptr;    // of a plan that prunes
};

// The meaning: one device, the whole batch.
Curve OneDevice(const Graph& graph, const Batch& batch, const CurveOptions& options);

// One thread per device. Checks on the way that the bytes handed to the transport are the program's, that all devices
// agree on losses, and that parts of parameters held by several devices are the same.
Curve OnThreads(const Model& model, const Plan& plan, const Batch& batch,
                const CurveOptions& options);

// Losses within `tolerance`, relative; gradients likewise in L2 over max(norm, 1e-4 x the largest norm).
void ExpectSame(const Curve& got, const Curve& expected, double tolerance = 1e-4);

// What every device of the program hands over in a step, by kind.
std::vector<std::map<std::string, int64_t>> StepBytes(const Program& program);

}  // namespace heddle
