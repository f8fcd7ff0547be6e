// What predictions of published runs come to: the error of every run and source, what the steps are made of, and how
// well constants predict a source they were not fitted on.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "validate/predict.h"

namespace heddle {

struct SourceErrors {
  std::string source;
  int runs = 0;               // with an error
  double mean = 0, most = 0;  // absolute
  double left_out = 0;        // mean, with constants fitted on all other sources
  Terms share;                // of the predicted steps, on average
};

struct ValidationReport {
  std::vector<Prediction> runs;
  std::vector<SourceErrors> sources;  // by name
  // Means over sources, every one weighing the same; over runs.
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
// The same as a page of documentation.
std::string ToMarkdown(const ValidationReport& report);

}  // namespace heddle
