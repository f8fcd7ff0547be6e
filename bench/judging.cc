// The time of judging a plan by phase, in CPU seconds (the best of five). A plan of `heddle plan -o` is rebatched,
// analysed, lowered, replayed with the model of the allocator on every device of the pipeline, and simulated. The hash
// covers the resulting programs, bytes and seconds: two builds with the same hash judge in the same way.
//
//   heddle plan gpt3-175b --cluster dgx-h100:128 --batch 1536 -o plan.json
//   build/bench/judging plan.json
#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "frontend/load.h"
#include "ops/rebatch.h"
#include "plan/plan_file.h"
#include "program/lower.h"
#include "program/text.h"
#include "sim/simulate.h"
#include "timing.h"

namespace heddle {
namespace {

std::vector<MemoryTimeline> ReplayAll(const Program& program) {
  MemoryModel model(program);
  std::vector<MemoryTimeline> timelines;
  for (const DeviceProgram& run : program.runs) {
    timelines.push_back(Replay(model, run.devices.front(), {.timeline = false, .allocator = true}));
  }
  return timelines;
}

uint64_t HashOf(const Program& program, const std::vector<MemoryTimeline>& timelines,
                const SimResult& result) {
  std::string all;
  for (const DeviceProgram& run : program.runs) all += ToText(program, run.devices.front());
  for (const MemoryTimeline& at : timelines) {
    all += fmt::format("{} {} {} {}\n", at.peak, at.peak_instruction, at.allocated, at.reserved);
  }
  all += fmt::format("{:.17g} {:.17g} {:.17g} {}\n", result.step_seconds, result.bubble,
                     result.flops, result.reserved_memory_bytes);
  for (const DeviceResult& at : result.devices) {
    all += fmt::format("{:.17g} {:.17g} {}\n", at.compute, at.exposed, at.peak_memory);
  }
  return HashString(all);
}

void Show(std::string_view phase, double seconds) {
  fmt::print("{:<22} {:>8.1f} ms\n", phase, 1e3 * seconds);
}

void Judge(const std::string& path) {
  Json json = ParseJson(ReadFile(path, kMaxJsonBytes), path);
  PlanHeader header = ReadPlanHeader(json, path);
  Graph graph = LoadModel(header.model.source);
  auto [analysing, model] = BestOf(5, [&] { return Analyse(Rebatch(graph, header.batch)); });
  Plan plan = FromJson(json, model, path);
  auto [lowering, program] = BestOf(5, [&, &model = model] { return Lower(model, plan); });
  auto [replaying, timelines] = BestOf(5, [&, &program = program] { return ReplayAll(program); });
  auto [preparing, prepared] =
      BestOf(5, [&, &program = program] { return Prepare(program, plan.cluster, {}); });
  auto [engine, timeline] = BestOf(5, [&, &prepared = prepared] { return Execute(prepared); });
  auto [simulating, result] =
      BestOf(5, [&, &program = program] { return Simulate(program, plan.cluster, {}); });
  Show("Rebatch and Analyse", analysing);
  Show("Lower", lowering);
  Show("Replay of all devices", replaying);
  Show("Prepare", preparing);
  Show("Execute", engine);
  Show("rest of Simulate", simulating - preparing - engine);
  Show("all", analysing + lowering + replaying + simulating);
  fmt::print("hash {}\n", HashToHex(HashOf(program, timelines, result)));
}

}  // namespace
}  // namespace heddle

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "judging PLAN.json\n");
    return 2;
  }
  try {
    heddle::Judge(argv[1]);
  } catch (const heddle::InputError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
  return 0;
}
