// This machine: the facts that distinguish it from others, and its resources.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cluster/profile.h"

namespace heddle {

struct Processor {
  std::string name;   // "AMD EPYC 7B13"; "unknown" where the system does not say
  int64_t cores = 1;  // cores that run at once, hyperthreads counted
  int64_t memory_bytes = 0;
};

// The first "model name" in the text of /proc/cpuinfo.
std::string ProcessorName(std::string_view cpuinfo);

// The processor of this machine; read once.
const Processor& ThisProcessor();

// The facts "processor" and "cores".
MachineFacts ThisMachine();

}  // namespace heddle
