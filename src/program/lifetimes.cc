// When buffers end, and which instructions of other streams an instruction waits for.
#include <algorithm>

#include "program/emit.h"

namespace heddle {

void FindLifetimes(DeviceProgram& run) {
  constexpr int kNobody = -1;
  std::vector<int> last_touch(run.buffers.size(), kNobody), writer(run.buffers.size(), kNobody);
  for (size_t i = 0; i < run.instructions.size(); ++i) {
    Instruction& instruction = run.instructions[i];
    auto touch = [&](BufferId id) {
      if (!id.valid()) return;
      int by = writer[id.index()];
      bool other =
          by != kNobody && run.instructions[static_cast<size_t>(by)].stream != instruction.stream;
      if (other && std::find(instruction.waits.begin(), instruction.waits.end(), by) ==
                       instruction.waits.end()) {
        instruction.waits.push_back(by);
      }
      last_touch[id.index()] = static_cast<int>(i);
    };
    for (BufferId id : instruction.reads) touch(id);
    for (BufferId id : instruction.adds) touch(id);
    for (BufferId id : instruction.writes) touch(id);
    for (BufferId id : instruction.adds) writer[id.index()] = static_cast<int>(i);
    for (BufferId id : instruction.writes) writer[id.index()] = static_cast<int>(i);
    std::sort(instruction.waits.begin(), instruction.waits.end());
  }
  std::vector<bool> persistent(run.buffers.size(), false);
  for (BufferId id : run.persistent) persistent[id.index()] = true;
  for (size_t b = 0; b < run.buffers.size(); ++b) {
    if (persistent[b] || last_touch[b] == kNobody) continue;
    run.instructions[static_cast<size_t>(last_touch[b])].frees.push_back(BufferId::FromIndex(b));
  }
}

}  // namespace heddle
