// The growth of lowering: GPT-3 by the expert's rules with 12 to 96 layers on 128 to 2048 devices, and the number of
// instructions. Seconds per instruction should stay constant.
//
//   build/bench/lower
#include "program/lower.h"

#include <fmt/format.h>

#include "cluster/load.h"
#include "frontend/load.h"
#include "plan/expert.h"
#include "timing.h"

namespace heddle {
namespace {

void MeasureLowering(int64_t layers, int64_t pp, int64_t microbatches) {
  Model model = Analyse(
      LoadModel(fmt::format("gpt:layers={},hidden=12288,heads=96,seq=2048,vocab=51200,batch={}",
                            layers, 8 * microbatches)));
  Plan plan = ExpertPlan(model, LoadCluster(fmt::format("dgx-h100:{}", 8 * pp)),
                         {.dp = 8, .tp = 8, .pp = pp, .sp = true, .microbatches = microbatches});
  auto [seconds, program] = BestOf(3, [&] { return Lower(model, plan); });
  size_t instructions = 0;
  for (const DeviceProgram& run : program.runs) instructions += run.instructions.size();
  fmt::print("{:>7} {:>8} {:>13} {:>13} {:>9.1f} ms {:>8.2f} us each\n", layers, 64 * pp,
             microbatches, instructions, 1e3 * seconds,
             1e6 * seconds / static_cast<double>(instructions));
}

}  // namespace
}  // namespace heddle

int main() {
  fmt::print("{:>7} {:>8} {:>13} {:>13} {:>12}\n", "layers", "devices", "micro-batches",
             "instructions", "lowering");
  heddle::MeasureLowering(12, 2, 24);
  heddle::MeasureLowering(24, 4, 48);
  heddle::MeasureLowering(48, 8, 96);
  heddle::MeasureLowering(96, 16, 192);
  heddle::MeasureLowering(96, 32, 192);
  return 0;
}
