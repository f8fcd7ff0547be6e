// The case studies of the survey of model parallelism (Brakel, Odyurt and Varbanescu, 2024, its table of published
// large language models), simulated in their published configuration.
#pragma once

#include <string>
#include <vector>

namespace heddle {

struct CaseStudy {
  std::string system;          // "Megatron-LM 2020"
  std::string parameters;      // "8.3B"
  std::string devices;         // "512 V100"
  std::string degrees;         // "tp 8, pp 1, dp 64"
  std::string published_step;  // "2.42 s", or "-"
  std::string published_use;   // "23.6 % (HW)"
  std::string remark;          // what was not published, or differs from the publication
  double step_seconds = 0, mfu = 0, hfu = 0;  // simulated
};

std::vector<CaseStudy> RunCaseStudies();

// The text of docs/case-studies.md.
std::string CaseStudiesPage();

}  // namespace heddle
