#include <fmt/format.h>

#include <chrono>

#include "cluster/load.h"
#include "frontend/load.h"
#include "ops/rebatch.h"
#include "plan/expert.h"
#include "program/lower.h"

namespace heddle {
namespace {
double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
int Main() {
  double t0 = Now();
  Graph graph = Rebatch(LoadModel("gpt3-175b"), 1536);
  double t1 = Now();
  Model model = Analyse(std::move(graph));
  double t2 = Now();
  Plan plan = ExpertPlan(model, LoadCluster("dgx-h100:128"), {.dp = 8, .tp = 8, .pp = 16, .sp = true, .microbatches = 192});
  double t3 = Now();
  Program program = Lower(model, plan);
  double t4 = Now();
  size_t instructions = 0, buffers = 0, steps = 0, locals = 0;
  for (const DeviceProgram& run : program.runs) { instructions += run.instructions.size(); buffers += run.buffers.size(); }
  for (const StageProgram& stage : program.stages) { steps += stage.steps.size(); locals += stage.locals.size(); }
  fmt::print("load {:.3f} analyse {:.3f} plan {:.3f} lower {:.3f}: {} instructions {} buffers {} steps {} locals\n", t1 - t0, t2 - t1, t3 - t2, t4 - t3, instructions, buffers, steps, locals);
  return 0;
}
}  // namespace
}  // namespace heddle
int main() { return heddle::Main(); }
