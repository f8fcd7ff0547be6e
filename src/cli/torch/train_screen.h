// What `heddle train` shows: a header, a line per step in torchtitan's vocabulary, a summary.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "plan/plan.h"
#include "program/step_record.h"
#include "runtime/metrics/metrics.h"
#include "runtime/train.h"

namespace heddle {

double HostMemoryBytes();

// What a step amounts to, from which rates follow.
struct StepSize {
  double tokens = 0;  // or samples, where inputs are no tokens
  bool is_tokens = false;
  double flops = 0;       // of matrix products, forward and backward
  double peak_flops = 0;  // of all devices per second; 0: not known
  int64_t devices = 1;
};
StepSize SizeOfStep(const Model& model, const Plan& plan);

// The type of the plan's first device whose rates nobody measured (those of the preset `local`); empty: none.
std::string NominalDevice(const Plan& plan);

StepMetrics MetricsOf(const StepRecord& record, const StepSize& size, double lr);

// "dp 2 x tp 2, 4 devices, 2 micro-batches, 1f1b".
std::string Describe(const Plan& plan);

void PrintHeader(const Model& model, const Plan& plan, const DataSource& data, bool reference);
// `beside` is a loss to compare with, or NaN.
void PrintStep(const StepMetrics& metrics, double beside, bool reference);
void PrintSummary(const TrainSummary& summary, const StepSize& size);

}  // namespace heddle
