#include "runtime/executor/step_capture.h"

#include <optional>
#include <utility>

#include "base/log.h"
#include "ops/traits.h"

namespace heddle {
namespace {

constexpr int64_t kEagerSteps = 3;

}  // namespace

bool StepCapture::Run(const std::function<void()>& step, const std::function<void()>& drop) {
  if (!graph_ && why_not_.empty() && eager_steps_ >= kEagerSteps) {
    auto graph = std::make_unique<StepGraph>();
    std::optional<std::string> wrong = graph->Capture(step);
    if (wrong) {
      why_not_ = *wrong;
      drop();
      LogInfo("steps run instruction by instruction: {}", why_not_);
    } else {
      graph_ = std::move(graph);
    }
  }
  if (graph_) {
    graph_->Replay();
    return true;
  }
  step();
  ++eager_steps_;
  return false;
}

std::string WhyNotCaptured(const DeviceState& state, const CaptureOptions& options) {
  if (!state.stream) return "steps on the CPU are not captured";
  if (!options.wanted) return "not wanted";
  if (state.program.device_count() > 1) return "ranks meet on the host during a step";
  if (options.observed) return "instructions are looked at one by one";
  for (const Instruction& i : state.run.instructions) {
    if (i.op == Opcode::kFetch) return "state comes from the host";
  }
  for (const Node& node : state.program.model.graph.nodes) {
    if (TraitsOf(node.op).randomness != Randomness::kNone)
      return "'" + node.op + "' draws other numbers in every step";
  }
  return "";
}

}  // namespace heddle
