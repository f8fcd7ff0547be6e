// The time of predicting device memory: GPT-3 by the expert's rules on 1024 GPUs, one device of each stage, without and
// with the model of PyTorch's allocator; and the allocator by itself.
//
//   build/bench/memory
#include "sim/memory.h"

#include <fmt/format.h>

#include <random>

#include "base/units.h"
#include "cluster/load.h"
#include "frontend/load.h"
#include "plan/expert.h"
#include "program/lower.h"
#include "sim/allocator.h"
#include "timing.h"

namespace heddle {
namespace {

std::string Gigabytes(int64_t bytes) { return FormatBytes(Bytes{bytes}); }

void MeasurePrograms() {
  Model model = Analyse(LoadModel("gpt3-175b:batch=1536"));
  Plan plan = ExpertPlan(
      model, LoadCluster("dgx-h100:128"),
      {.dp = 8, .tp = 8, .pp = 16, .sp = true, .microbatches = 192, .precision = DType::kBF16});
  Program program = Lower(model, plan);
  MemoryModel memory(program);
  for (bool allocator : {false, true}) {
    auto [seconds, instructions] = BestOf(3, [&] {
      size_t count = 0;
      for (const DeviceProgram& run : program.runs) {
        Replay(memory, run.devices.front(), {.allocator = allocator});
        count += run.instructions.size();
      }
      return count;
    });
    fmt::print("gpt3-175b, {} stages{}: {} instructions in {:.1f} ms, {:.2f} us each\n",
               program.runs.size(), allocator ? " with allocator" : "", instructions, 1e3 * seconds,
               1e6 * seconds / static_cast<double>(instructions));
  }
  for (size_t r : {size_t{0}, program.runs.size() / 2, program.runs.size() - 1}) {
    MemoryTimeline t =
        Replay(memory, program.runs[r].devices.front(), {.timeline = false, .allocator = true});
    const MemoryKinds& k = t.peak_kinds;
    fmt::print(
        "  stage {:>2}: peak {} (weights {}, gradients {}, optimizer {}, activations {}, buffers "
        "{}); reserved {}\n",
        r, Gigabytes(t.peak), Gigabytes(k.weights), Gigabytes(k.gradients), Gigabytes(k.optimizer),
        Gigabytes(k.activations), Gigabytes(k.buffers), Gigabytes(t.reserved));
  }
}

void MeasureAllocator() {
  constexpr int kOperations = 1'000'000;
  auto work = [] {
    std::mt19937_64 rng(1);
    CachingAllocator allocator;
    std::vector<CachingAllocator::Handle> live;
    for (int i = 0; i < kOperations; ++i) {
      if (live.size() < 200 || (live.size() < 2000 && rng() % 2 == 0)) {
        live.push_back(
            allocator.Allocate(1 + static_cast<int64_t>(rng() % (1 << (8 + rng() % 18)))));
      } else {
        std::swap(live[rng() % live.size()], live.back());
        allocator.Free(live.back());
        live.pop_back();
      }
    }
    return live.size();
  };
  double seconds = BestOf(3, work).first;
  fmt::print("allocator: {} operations in {:.1f} ms\n", kOperations, 1e3 * seconds);
}

}  // namespace
}  // namespace heddle

int main() {
  heddle::MeasurePrograms();
  heddle::MeasureAllocator();
  return 0;
}
