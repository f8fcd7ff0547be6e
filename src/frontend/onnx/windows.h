// The windows of convolutions and poolings.
#pragma once

#include <cstdint>
#include <vector>

#include "frontend/import/call_import.h"
#include "graph/tensor.h"

namespace heddle {

// Per spatial dimension; pads are all begins, then all ends.
struct Windows {
  std::vector<int64_t> strides;
  std::vector<int64_t> pads;
  std::vector<int64_t> dilations;
};

// Reads strides, dilations, pads and auto_pad of operand 0, checked: as long as the kernel, strides
// and dilations positive, pads not negative.
Windows ReadWindows(CallImport& n, const Shape& kernel);

}  // namespace heddle
