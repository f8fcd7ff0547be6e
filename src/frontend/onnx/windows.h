// The windows of convolutions and poolings.
#pragma once

#include <cstdint>
#include <vector>

#include "frontend/import/call_import.h"
#include "graph/tensor.h"

namespace heddle {

// Per spatial dimension. `pads` has all beginnings, then all ends.
struct Windows {
  std::vector<int64_t> strides;
  std::vector<int64_t> pads;
  std::vector<int64_t> dilations;
};

// Reads and checks strides, dilations, pads and auto_pad of operand 0: they have as many entries as the kernel, strides
// and dilations are positive, and pads are not negative.
Windows ReadWindows(CallImport& n, const Shape& kernel);

}  // namespace heddle
