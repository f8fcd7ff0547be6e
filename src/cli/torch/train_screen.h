// What `heddle train` shows: a header, a line per step in torchtitan's vocabulary, a summary.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "plan/plan.h"
#include "program/step_record.h"
#include "report/step_size.h"
#include "runtime/metrics/metrics.h"
#include "runtime/train.h"

namespace heddle {

double HostMemoryBytes();

StepMetrics MetricsOf(const StepRecord& record, const StepSize& size, double lr);

void PrintHeader(const Model& model, const Plan& plan, const DataSource& data,
                 const std::string& device, bool reference);
// `beside` is a loss to compare with, or NaN.
void PrintStep(const StepMetrics& metrics, double beside, bool reference);
void PrintSummary(const TrainSummary& summary, const StepSize& size);

}  // namespace heddle
