// A report on predictions of published runs: the error of every run and source, the terms of the steps, and the error
// of constants on sources that they were not fitted on.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "validate/predict.h"

namespace heddle {

struct SourceErrors {
  std::string source;
  int runs = 0;               // number of runs with an error
  double mean = 0, most = 0;  // of the absolute error
  double left_out = 0;        // mean error with constants fitted on all other sources
  Terms share;                // mean fractions of the predicted steps
};

struct ValidationReport {
  std::vector<Prediction> runs;
  std::vector<SourceErrors> sources;  // sorted by name
  // Means over sources with equal weights, and the mean over runs.
  double mean = 0, most = 0, mean_of_runs = 0;
  double left_out = 0;
  int predicted = 0, complete = 0;
  int memory_runs = 0;
  double memory_mean = 0;
  int constants = 0;
};

ValidationReport MakeReport(std::vector<Prediction> runs);

Json ToJson(const ValidationReport& report);
std::string ToText(const ValidationReport& report);
// The report as a page of documentation.
std::string ToMarkdown(const ValidationReport& report);

}  // namespace heddle
