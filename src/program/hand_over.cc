// Fetched buffers take over the memory of evicted ones.
//
// A device copies in both directions at the same time. An evicted buffer needs its memory until its copy has ended, and
// the next to need that memory is a later fetch. Therefore the fetch frees the buffer, after waiting for its eviction: the
// oldest evictions first, as many bytes as are fetched. The device never holds more than if evictions took no time, and a
// fetch waits only for evictions whose memory it takes:
//
//   in     | a  | b  |    | c  | d  | e  |     c waits for a to be out and takes its memory, d for b, ...
//   out              | a  | b  | c  | d  |
//
// The last fetch of a visit frees all that visits before it have left. Without prefetching, evictions free their buffers
// themselves, and the next fetch waits for them.
#include <algorithm>
#include <deque>
#include <map>

#include "base/integers.h"
#include "program/emit.h"
#include "program/text.h"

namespace heddle {
namespace {

class Handover {
 public:
  Handover(const Program& program, DeviceProgram& run) : program_(program), run_(run) {
    for (size_t i = 0; i < run.instructions.size(); ++i) {
      const Instruction& at = run.instructions[i];
      if (at.op == Opcode::kFetch) last_fetch_[at.visit] = i;
      if (at.op == Opcode::kEvict) last_evict_ = i;
    }
  }

  void Run() {
    for (size_t i = 0; i < run_.instructions.size(); ++i) {
      if (run_.instructions[i].op == Opcode::kFetch) Take(i);
      if (run_.instructions[i].op == Opcode::kEvict) Leave(i);
    }
    for (const Leaving& rest : leaving_)  // behind all of them on their stream
      run_.instructions[last_evict_].frees.push_back(rest.buffer);
  }

  // Without handing over.
  void WaitOnly() {
    int evicted = -1;
    for (size_t i = 0; i < run_.instructions.size(); ++i) {
      Instruction& at = run_.instructions[i];
      if (at.op == Opcode::kFetch && evicted >= 0) AddWait(at, evicted);
      if (at.op == Opcode::kEvict) evicted = ToInt(i);
    }
  }

 private:
  struct Leaving {
    BufferId buffer;
    int evict = -1;
    VisitId visit;
  };

  int64_t BytesOf(BufferId id) const {
    return BufferBytes(program_, run_.buffers[id], run_.devices.front());
  }

  static void AddWait(Instruction& at, int other) {
    auto place = std::lower_bound(at.waits.begin(), at.waits.end(), other);
    if (place == at.waits.end() || *place != other) at.waits.insert(place, other);
  }

  void Leave(size_t i) {
    Instruction& at = run_.instructions[i];
    for (BufferId id : at.frees) leaving_.push_back({id, ToInt(i), at.visit});
    at.frees.clear();
  }

  void Take(size_t i) {
    Instruction& at = run_.instructions[i];
    if (at.visit != visit_) room_ = 0;
    visit_ = at.visit;
    int64_t wanted = BytesOf(at.writes.empty() ? at.adds[0] : at.writes[0]);
    bool last = last_fetch_[at.visit] == i;
    while (!leaving_.empty() && (room_ < wanted || (last && leaving_.front().visit < at.visit))) {
      const Leaving& oldest = leaving_.front();
      at.frees.push_back(oldest.buffer);
      AddWait(at, oldest.evict);
      room_ += BytesOf(oldest.buffer);
      leaving_.pop_front();
    }
    room_ = std::max(int64_t{0}, room_ - wanted);
  }

  const Program& program_;
  DeviceProgram& run_;
  std::map<VisitId, size_t> last_fetch_;  // by visit
  size_t last_evict_ = 0;
  std::deque<Leaving> leaving_;
  int64_t room_ = 0;  // that was freed and nothing has taken
  VisitId visit_;
};

}  // namespace

void HandOver(const Program& program, bool ahead, DeviceProgram& run) {
  Handover handover(program, run);
  if (ahead) {
    handover.Run();
  } else {
    handover.WaitOnly();
  }
}

}  // namespace heddle
