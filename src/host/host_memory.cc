#include "host/host_memory.h"

#include <unistd.h>

#include "base/error.h"
#include "base/units.h"

namespace heddle {

double HostMemoryBytes() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
}

void RequireMemory(const Program& program) {
  double bytes = 0;
  double moments = program.precision.moments_kept;
  for (const StageProgram& stage : program.stages) {
    for (const ParameterGroup& group : stage.groups) {
      double flat =
          static_cast<double>(FlatElements(stage, group, Position(stage.mesh.axes.size(), 0)));
      double shard = flat / static_cast<double>(GroupSize(stage.mesh, group.zero_axes));
      double state = 4 * moments * shard + 4 * (group.zero >= 2 ? shard : flat);
      state +=
          static_cast<double>(SizeOf(program.precision.compute)) * (group.zero == 3 ? shard : flat);
      bytes += state * static_cast<double>(stage.mesh.size());
    }
  }
  double memory = HostMemoryBytes();
  if (bytes <= memory) return;
  ThrowInput(
      "weights, gradients and optimizer state of {} ranks take {}, this machine has {}: use a "
      "smaller model or "
      "more machines (mpirun, srun)",
      program.device_count(), FormatBytes(Bytes{static_cast<int64_t>(bytes)}),
      FormatBytes(Bytes{static_cast<int64_t>(memory)}));
}

}  // namespace heddle
