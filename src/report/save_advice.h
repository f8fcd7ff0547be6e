// How often to save a checkpoint of the training that a plan describes.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "search/interface/proposal.h"

namespace heddle {

// Training pauses while the state of a device is copied to the host.
struct SaveAdvice {
  int64_t bytes = 0;
  double seconds = 0;   // of one save
  double interval = 0;  // seconds, by Young's formula; 0: devices have no link to the host
};

// `mtbf`: mean seconds between failures.
SaveAdvice AdviceOf(const JudgedPlan& best, double mtbf);

// A line of the screen of `heddle plan`, and an object of its JSON.
std::string SaveText(const JudgedPlan& best, double mtbf);
Json SaveJson(const JudgedPlan& best, double mtbf);

}  // namespace heddle
