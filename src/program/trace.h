// When what ran where.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "program/program.h"

namespace heddle {

struct TraceEvent {
  int64_t device = 0;
  Stream stream = Stream::kCompute;
  std::string name;
  std::string category;
  double start = 0, end = 0;  // seconds
};

struct Trace {
  std::vector<TraceEvent> events;
};

}  // namespace heddle
