// Lifetimes of buffers, and what instructions wait for.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/integers.h"
#include "program/text.h"
#include "program/verify_parts.h"

namespace heddle {
namespace {

class BufferCheck {
 public:
  BufferCheck(const Program& program, size_t run, Findings& findings)
      : program_(program),
        run_(program.runs[run]),
        r_(run),
        findings_(findings),
        states_(run_.buffers.size()) {}

  void Run() {
    for (BufferId id : run_.persistent) states_[id].persistent = true;
    for (BufferId b : states_.ids()) {
      if (states_[b].persistent == IsPersistent(program_, run_.buffers[b])) continue;
      findings_.Add(fmt::format("devices {}: {} is {}persistent", DevicesText(run_.devices, "-"),
                                BufferName(program_, run_.buffers[b]),
                                states_[b].persistent ? "" : "not "));
    }
    for (i_ = 0; i_ < std::ssize(run_.instructions); ++i_) {
      CheckWaits();
      Step();
    }
    for (BufferId b : states_.ids()) {
      const State& at = states_[b];
      if (at.persistent || !at.there() || at.freed) continue;
      findings_.Add(Place() +
                    fmt::format("{} is never freed", BufferName(program_, run_.buffers[b])));
    }
  }

 private:
  struct State {
    bool persistent = false, written = false, added = false, read = false, freed = false;
    int writer = -1, last = -1;  // the last that touches it
    bool there() const { return written || added; }
  };

  std::string Place() const { return fmt::format("devices {}: ", DevicesText(run_.devices, "-")); }
  void Wrong(BufferId id, std::string_view verb, std::string_view why) {
    findings_.Add(program_, r_, ToSize(i_),
                  fmt::format("{} {} {}", verb, BufferName(program_, run_.buffers[id]), why));
  }
  const Instruction& now() const { return run_.instructions[ToSize(i_)]; }
  static bool Contains(const BufferIds& list, BufferId id) {
    return std::find(list.begin(), list.end(), id) != list.end();
  }

  void Step() {
    for (BufferId id : now().reads) {
      if (id.valid()) Read(id);
    }
    for (BufferId id : now().adds) Add(id);
    for (BufferId id : now().writes) Write(id);
    for (BufferId id : now().frees) Free(id);
  }

  void Read(BufferId id) {
    State& at = states_[id];
    at.read = true;
    at.last = i_;
    if (at.persistent) return;
    if (!at.there()) Wrong(id, "reads", "before it is written");
    if (at.freed) Wrong(id, "reads", "after it was freed");
  }

  void Add(BufferId id) {
    State& at = states_[id];
    at.writer = at.last = i_;
    if (at.persistent) return;
    bool in_place = Contains(now().reads, id);
    if (!in_place && at.written) Wrong(id, "adds to", "which was written");
    if (!in_place && at.read) Wrong(id, "adds to", "after it was read");
    if (at.freed) Wrong(id, "adds to", "after it was freed");
    at.added = true;
  }

  void Write(BufferId id) {
    State& at = states_[id];
    at.writer = at.last = i_;
    if (at.persistent) return Wrong(id, "writes", "which is persistent");
    if (at.written) Wrong(id, "writes", "a second time");
    if (at.added) Wrong(id, "writes", "which was added to");
    if (at.freed) Wrong(id, "writes", "after it was freed");
    at.written = true;
    const Buffer& buffer = run_.buffers[id];
    if (buffer.kind != BufferKind::kGathered) return;
    auto [held, fresh] = gathered_.try_emplace({buffer.stage, buffer.group()}, id);
    if (!fresh && !states_[held->second].freed) {
      Wrong(id, "writes", "while the weights gathered before are there");
    }
    held->second = id;
  }

  void Free(BufferId id) {
    State& at = states_[id];
    if (at.persistent) return Wrong(id, "frees", "which is persistent");
    if (!at.there()) Wrong(id, "frees", "before it is written");
    if (at.freed) Wrong(id, "frees", "a second time");
    at.freed = true;
    if (!at.there() || IsOver(at.last)) return;
    Wrong(id, "frees",
          fmt::format("and does not wait for instruction {}, of another stream", at.last));
  }

  // Has that instruction ended where this one begins, or is it this one?
  bool IsOver(int other) const {
    Stream stream = run_.instructions[ToSize(other)].stream;
    return stream == now().stream ||
           std::any_of(now().waits.begin(), now().waits.end(), [&](int wait) {
             return wait >= other && run_.instructions[ToSize(wait)].stream == stream;
           });
  }

  void CheckWaits() {
    for (int wait : now().waits) {
      if (wait < 0 || wait >= i_) {
        findings_.Add(program_, r_, ToSize(i_),
                      fmt::format("waits for instruction {}, which is not before it", wait));
      }
    }
    for (const BufferIds* list : {&now().reads, &now().adds, &now().writes}) {
      for (BufferId id : *list) {
        if (id.valid()) CheckWait(id);
      }
    }
  }

  void CheckWait(BufferId id) {
    int writer = states_[id].writer;
    if (writer < 0 || run_.instructions[ToSize(writer)].stream == now().stream) return;
    const SmallVector<int, 2>& waits = now().waits;
    if (std::find(waits.begin(), waits.end(), writer) != waits.end()) return;
    Wrong(id, "does not wait for", fmt::format("from instruction {}, of another stream", writer));
  }

  const Program& program_;
  const DeviceProgram& run_;
  size_t r_;
  Findings& findings_;
  IdVector<BufferId, State> states_;
  std::map<std::pair<StageId, ParameterGroupId>, BufferId> gathered_;  // the last
  int i_ = 0;
};

}  // namespace

void CheckBuffers(const Program& program, Findings& findings) {
  for (size_t r = 0; r < program.runs.size(); ++r) BufferCheck(program, r, findings).Run();
}

}  // namespace heddle
