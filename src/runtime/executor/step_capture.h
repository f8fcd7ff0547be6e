// A steady step on an accelerator, captured once and then repeated as one graph.
//
//   StepCapture capture(WhyNotCaptured(state, options));
//   bool replayed = capture.Run([&] { RunInstructions(); }, [&] { DropWhatWasMade(); });
//
// The first steps run instruction by instruction: libraries choose kernels, make handles and take workspaces in them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "runtime/accelerator.h"
#include "runtime/executor/device_state.h"

namespace heddle {

class StepCapture {
 public:
  // `why_not`: why steps cannot be captured; empty: they can.
  explicit StepCapture(std::string why_not) : why_not_(std::move(why_not)) {}

  // Runs a step on the current stream, and returns whether that was by a graph. `step` starts its work; where a
  // capture of it fails, `drop` gives up what it has made, and it is called again.
  bool Run(const std::function<void()>& step, const std::function<void()>& drop);

  // Empty where steps are captured, or will be.
  const std::string& why_not() const { return why_not_; }

 private:
  std::string why_not_;
  std::unique_ptr<StepGraph> graph_;
  int64_t eager_steps_ = 0;
};

struct CaptureOptions {
  bool wanted = true;
  bool observed = false;  // instructions are traced, or their gradients kept
};
std::string WhyNotCaptured(const DeviceState& state, const CaptureOptions& options);

}  // namespace heddle
