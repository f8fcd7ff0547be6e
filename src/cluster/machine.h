// This machine: what tells it from others, and what it has.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cluster/profile.h"

namespace heddle {

struct Processor {
  std::string name;   // "AMD EPYC 7B13"; "unknown" where nothing says
  int64_t cores = 1;  // that run at once, hyperthreads counted
  int64_t memory_bytes = 0;
};

// As /proc/cpuinfo has it: the first "model name".
std::string ProcessorName(std::string_view cpuinfo);

// Of the machine this runs on; asked once.
const Processor& ThisProcessor();

// "processor" and "cores".
MachineFacts ThisMachine();

}  // namespace heddle
