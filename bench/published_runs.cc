// The time of planning, lowering and verifying each bundled published run.
//
//   build/bench/published_runs [part of an id]
#include <fmt/format.h>

#include "program/lower.h"
#include "program/verify.h"
#include "timing.h"
#include "validate/configure.h"

namespace heddle {
namespace {

void Print(const PublishedRun& run) {
  double start = CpuSeconds();
  RunSetup setup = Configure(run);
  if (!setup.reason.empty()) {
    fmt::print("{:<60} {}\n", run.id, setup.reason);
    return;
  }
  double planned = CpuSeconds();
  Program program = Lower(setup.model, setup.plan);
  double lowered = CpuSeconds();
  size_t findings = Verify(program).size();
  double verified = CpuSeconds();
  size_t instructions = 0;
  for (const DeviceProgram& list : program.runs) instructions += list.instructions.size();
  fmt::print("{:<60} {:>6} {:>6} {:>5} {:>10} {:>8.2f} {:>8.2f} {:>8.2f}{}\n", run.id,
             run.hardware.gpus, setup.plan.microbatches, setup.plan.stages.size(), instructions,
             planned - start, lowered - planned, verified - lowered,
             findings == 0 ? "" : fmt::format("  {} findings", findings));
  std::fflush(stdout);
}

}  // namespace
}  // namespace heddle

int main(int argc, char** argv) {
  using namespace heddle;
  fmt::print("{:<60} {:>6} {:>6} {:>5} {:>10} {:>8} {:>8} {:>8}\n", "run", "gpus", "micro",
             "stages", "instrs", "plan s", "lower s", "verify s");
  for (const PublishedRun& run : BundledRuns()) {
    if (argc < 2 || run.id.find(argv[1]) != std::string::npos) Print(run);
  }
}
