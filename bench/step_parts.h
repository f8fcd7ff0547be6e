// The parts of a simulated step, mean over all devices.
#pragma once

#include "sim/simulate.h"

namespace heddle {

// Seconds; they add up to the step.
struct StepParts {
  double work = 0;
  double messages = 0;     // exposed messages between stages
  double collectives = 0;  // exposed collectives
  double bubble = 0;       // waits for other devices
  double step = 0;

  double communication() const { return messages + collectives; }
  double waits() const { return communication() + bubble; }
};

inline StepParts PartsOf(const SimResult& result) {
  StepParts parts;
  double devices = 0;
  for (const DeviceResult& device : result.devices) {
    auto count = static_cast<double>(device.count);
    parts.work += count * device.compute;
    parts.messages += count * device.exposed_messages;
    parts.collectives += count * (device.exposed - device.exposed_messages);
    parts.bubble += count * device.bubble;
    devices += count;
  }
  for (double* seconds : {&parts.work, &parts.messages, &parts.collectives, &parts.bubble}) {
    *seconds /= devices;
  }
  parts.step = result.step_seconds;
  return parts;
}

}  // namespace heddle
