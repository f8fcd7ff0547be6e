// Why a step's loss is not finite, in words.
#pragma once

#include <cstdint>

#include "runtime/executor/device_state.h"

namespace heddle {

// All devices call it together. Finds the first parameter, in the model's order, of which any device holds weights or
// gradients that are not finite, and throws CommonRunError, the same on every device. `lr` is that of the options.
// Waits for everything.
[[noreturn]] void ThrowNotFinite(const DeviceState& state, int64_t step, double loss, double lr);

}  // namespace heddle
