// When buffers end, and which instructions of other streams an instruction waits for.
#include <algorithm>

#include "base/integers.h"
#include "program/emit.h"

namespace heddle {

void FindLifetimes(DeviceProgram& run) {
  constexpr int kNobody = -1;
  IdVector<BufferId, int> last_touch(run.buffers.size(), kNobody), writer = last_touch;
  for (int i = 0; i < std::ssize(run.instructions); ++i) {
    Instruction& instruction = run.instructions[ToSize(i)];
    auto touch = [&](BufferId id) {
      if (!id.valid()) return;
      int by = writer[id];
      bool other = by != kNobody && run.instructions[ToSize(by)].stream != instruction.stream;
      if (other && std::find(instruction.waits.begin(), instruction.waits.end(), by) ==
                       instruction.waits.end()) {
        instruction.waits.push_back(by);
      }
      last_touch[id] = i;
    };
    for (BufferId id : instruction.reads) touch(id);
    for (BufferId id : instruction.adds) touch(id);
    for (BufferId id : instruction.writes) touch(id);
    for (BufferId id : instruction.adds) writer[id] = i;
    for (BufferId id : instruction.writes) writer[id] = i;
    std::sort(instruction.waits.begin(), instruction.waits.end());
  }
  IdVector<BufferId, bool> persistent(run.buffers.size(), false);
  for (BufferId id : run.persistent) persistent[id] = true;
  for (BufferId id : run.buffers.ids()) {
    if (persistent[id] || last_touch[id] == kNobody) continue;
    run.instructions[ToSize(last_touch[id])].frees.push_back(id);
  }
}

}  // namespace heddle
