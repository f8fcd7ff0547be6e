// Trains under a plan on threads and compares the result with one device.
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
  at::Device device = at::kCPU;  // for the plan's ranks; the reference is always on the CPU
  const Mask* mask = nullptr;    // of a pruned model
};

// The reference result: one device with the whole batch.
Curve OneDevice(const Graph& graph, const Batch& batch, const CurveOptions& options);

// Trains with one thread per device. Also checks that the bytes handed to the transport are those of the program, that
// all devices have the same losses, and that parts of parameters on several devices are equal.
Curve OnThreads(const Model& model, const Plan& plan, const Batch& batch,
                const CurveOptions& options);

// Checks losses within the relative `tolerance`, and gradients by their L2 difference / max(norm, 1e-4 x the largest
// norm).
void ExpectSame(const Curve& got, const Curve& expected, double tolerance = 1e-4);

// The bytes that every device of the program hands over in a step, by kind.
std::vector<std::map<std::string, int64_t>> StepBytes(const Program& program);

}  // namespace heddle
