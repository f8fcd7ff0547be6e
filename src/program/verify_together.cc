// All devices run together: each takes its list in order, issues communication without waiting for it, and waits
// before any instruction for the communication that made what the instruction touches.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "base/integers.h"
#include "program/text.h"
#include "program/verify.h"
#include "program/verify_parts.h"

namespace heddle {
namespace {

struct Waiter {
  size_t actor = 0;
  size_t instruction = 0;
};

// The n-th collective of a group.
struct Call {
  const Instruction* instruction = nullptr;  // as the first to issue it has it
  CollectiveKind kind = CollectiveKind::kAllReduce;
  int64_t bytes = 0;
  size_t first = 0;  // actor
  std::vector<Waiter> issued;
};
struct Group {
  std::vector<size_t> members;      // actors
  std::map<size_t, size_t> issued;  // by actor: how many
  std::vector<Call> calls;
};

// One (transfer, micro-batch) between two actors.
struct Parcel {
  int sent = 0, received = 0;
  bool waited = false;
  Waiter waiter;
};

bool Communicates(const Instruction& instruction) {
  return instruction.stream == Stream::kCommunication;
}

// Per instruction of a list, the communication that made what it touches.
std::vector<std::vector<int>> FindNeeds(const DeviceProgram& run) {
  std::vector<std::vector<int>> needs(run.instructions.size());
  IdVector<BufferId, int> writer(run.buffers.size(), -1);
  for (int i = 0; i < std::ssize(run.instructions); ++i) {
    const Instruction& at = run.instructions[ToSize(i)];
    for (const BufferIds* list : {&at.reads, &at.adds, &at.writes}) {
      for (BufferId id : *list) {
        int by = id.valid() ? writer[id] : -1;
        if (by >= 0 && Communicates(run.instructions[ToSize(by)])) needs[ToSize(i)].push_back(by);
      }
    }
    for (BufferId id : at.adds) writer[id] = i;
    for (BufferId id : at.writes) writer[id] = i;
  }
  return needs;
}

// An actor is a device, or (in large programs) the first device of a run.
struct Actor {
  int64_t device = 0;
  size_t run = 0;
  size_t next = 0;        // instruction
  int waits_for = -1;     // instruction
  std::vector<int> open;  // per instruction: messages or collectives it still needs to be complete
};

class Together {
 public:
  Together(const Program& program, Findings& findings)
      : program_(program), findings_(findings), whole_(program.device_count() <= kJointDevices) {
    for (size_t r = 0; r < program.runs.size(); ++r) {
      const DeviceProgram& run = program.runs[r];
      needs_.push_back(FindNeeds(run));
      for (size_t d = 0; d < (whole_ ? run.devices.size() : 1); ++d) {
        actors_.push_back({run.devices[d], r, 0, -1, std::vector<int>(run.instructions.size(), 0)});
      }
    }
    actor_of_.resize(ToSize(program.device_count()));
    for (size_t r = 0, a = 0; r < program.runs.size(); ++r) {
      const DeviceProgram& run = program.runs[r];
      for (int64_t device : run.devices) {
        actor_of_[ToSize(device)] = whole_ ? a++ : a;
      }
      if (!whole_) ++a;
    }
  }

  void Run() {
    if (whole_) {
      for (TransferId t : program_.transfers.ids()) CompareMessages(t);
    }
    for (size_t a = 0; a < actors_.size(); ++a) ready_.push_back(a);
    while (!ready_.empty()) {
      size_t a = ready_.front();
      ready_.pop_front();
      Advance(a);
    }
    ReportParcels();
    ReportCalls();
    for (const Actor& actor : actors_) ReportWait(actor);
  }

 private:
  const std::vector<Instruction>& list(const Actor& actor) const {
    return program_.runs[actor.run].instructions;
  }
  std::string NameOf(const Actor& actor, size_t i) const {
    return fmt::format("device {}, instruction {} ({})", actor.device, i,
                       InstructionName(program_, list(actor)[i]));
  }

  // Runs an actor until it must wait.
  void Advance(size_t a) {
    Actor& actor = actors_[a];
    actor.waits_for = -1;
    for (; actor.next < list(actor).size(); ++actor.next) {
      for (int need : needs_[actor.run][actor.next]) {
        if (actor.open[ToSize(need)] == 0) continue;
        actor.waits_for = need;
        return;
      }
      const Instruction& at = list(actor)[actor.next];
      if (at.op == Opcode::kSend) {
        IssueSend(a, at);
      } else if (at.op == Opcode::kRecv) {
        IssueRecv(a, at);
      } else if (Communicates(at)) {
        IssueCollective(a, at);
      }
    }
  }

  void Complete(const Waiter& waiter) {
    Actor& actor = actors_[waiter.actor];
    if (--actor.open[waiter.instruction] > 0) return;
    if (std::cmp_equal(actor.waits_for, waiter.instruction)) ready_.push_back(waiter.actor);
  }

  // ---- Messages.

  using ParcelKey = std::tuple<TransferId, int, size_t, size_t>;  // micro-batch, from, to

  struct PeerShape {
    int64_t peer;
    Shape shape;
    bool operator==(const PeerShape&) const = default;
  };

  const std::vector<PeerShape>& PeersOf(const Instruction& at, int64_t device) {
    auto [found, fresh] = peers_.try_emplace({at.op == Opcode::kSend, at.transfer(), device});
    if (!fresh) return found->second;
    for (const PeerMessage& message : MessagesOf(program_, at, device)) {
      bool sends = at.op == Opcode::kSend;
      found->second.push_back(
          {message.peer, ShapeOf(sends ? message.message.give : message.message.get)});
    }
    return found->second;
  }

  // Both ends of every transfer must see the same messages, and a receiver gets all it holds.
  void CompareMessages(TransferId t) {
    Instruction send, recv;
    send.op = Opcode::kSend;
    recv.op = Opcode::kRecv;
    send.target = recv.target = t;
    std::map<std::pair<int64_t, int64_t>, std::pair<Shape, Shape>> pairs;
    const StageTransfer& transfer = program_.transfers[t];
    const Mesh& from = program_.stages[transfer.from_stage].mesh;
    const StageProgram& to = program_.stages[transfer.to_stage];
    for (int64_t d : DevicesOf(from)) {
      for (const PeerShape& at : PeersOf(send, d)) pairs[{d, at.peer}].first = at.shape;
    }
    for (int64_t d : DevicesOf(to.mesh)) {
      int64_t got = 0;
      for (const PeerShape& at : PeersOf(recv, d)) {
        pairs[{at.peer, d}].second = at.shape;
        got += ElementCount(at.shape);
      }
      const Sharding& sharding = to.locals[transfer.to_local].sharding;
      int64_t wanted = LocalElements(to.mesh, sharding, PositionIn(to, d));
      if (got == wanted) continue;
      findings_.Add(
          fmt::format("transfer {}: device {} gets {} elements, must be {}", t, d, got, wanted));
    }
    for (const auto& [ends, shapes] : pairs) {
      if (shapes.first == shapes.second) continue;
      findings_.Add(fmt::format(
          "transfer {}: device {} sends [{}] to device {}, which expects [{}]", t, ends.first,
          fmt::join(shapes.first, ","), ends.second, fmt::join(shapes.second, ",")));
    }
  }

  // The actors at the other end.
  std::vector<size_t> OthersOf(size_t a, const Instruction& at) {
    const StageTransfer& transfer = program_.transfers[at.transfer()];
    if (!whole_) {
      StageId other = at.op == Opcode::kSend ? transfer.to_stage : transfer.from_stage;
      return {actor_of_[ToSize(program_.stages[other].mesh.first)]};
    }
    std::vector<size_t> others;
    for (const PeerShape& peer : PeersOf(at, actors_[a].device)) {
      others.push_back(actor_of_[ToSize(peer.peer)]);
    }
    return others;
  }

  void IssueSend(size_t a, const Instruction& at) {
    for (size_t other : OthersOf(a, at)) {
      Parcel& parcel = parcels_[{at.transfer(), at.microbatch, a, other}];
      if (++parcel.sent == 1 && parcel.waited) Complete(parcel.waiter);
    }
  }

  void IssueRecv(size_t a, const Instruction& at) {
    for (size_t other : OthersOf(a, at)) {
      Parcel& parcel = parcels_[{at.transfer(), at.microbatch, other, a}];
      if (++parcel.received > 1 || parcel.sent > 0) continue;
      parcel.waited = true;
      parcel.waiter = {a, actors_[a].next};
      ++actors_[a].open[actors_[a].next];
    }
  }

  void ReportParcels() {
    for (const auto& [key, parcel] : parcels_) {
      if (parcel.sent == 1 && parcel.received == 1) continue;
      auto [transfer, microbatch, from, to] = key;
      findings_.Add(fmt::format(
          "transfer {}, micro-batch {}: device {} sends {} times to device {}, which receives {}",
          transfer, microbatch, actors_[from].device, parcel.sent, actors_[to].device,
          parcel.received));
    }
  }

  // ---- Collectives.

  struct Taking {
    size_t group = 0;
    CollectiveKind kind = CollectiveKind::kAllReduce;
    int64_t bytes = 0;
  };

  const Taking& TakingOf(size_t a, const Instruction& at) {
    auto [found, fresh] = taking_.try_emplace({at.op, at.stage, at.target, a});
    if (!fresh) return found->second;
    Payload payload = CollectiveOf(program_, at, actors_[a].device);
    std::vector<size_t> members;
    for (int64_t rank : payload.ranks) members.push_back(actor_of_[ToSize(rank)]);
    std::sort(members.begin(), members.end());
    members.erase(std::unique(members.begin(), members.end()), members.end());
    auto [group, added] = group_of_.try_emplace(members, groups_.size());
    if (added) groups_.push_back({members, {}, {}});
    found->second = {group->second, payload.kind, payload.bytes};
    return found->second;
  }

  void IssueCollective(size_t a, const Instruction& at) {
    const Taking taking = TakingOf(a, at);
    Group& group = groups_[taking.group];
    size_t n = group.issued[a]++;
    if (n == group.calls.size()) group.calls.push_back({&at, taking.kind, taking.bytes, a, {}});
    Call& call = group.calls[n];
    Compare(call, taking, a, at);
    call.issued.push_back({a, actors_[a].next});
    ++actors_[a].open[actors_[a].next];
    if (call.issued.size() < group.members.size()) return;
    for (const Waiter& waiter : call.issued) Complete(waiter);
  }

  void Compare(const Call& call, const Taking& taking, size_t a, const Instruction& at) {
    const Instruction& first = *call.instruction;
    bool between_runs = at.op == Opcode::kSyncTied || at.op == Opcode::kReport;
    bool same = at.op == first.op && at.target == first.target &&
                at.microbatch == first.microbatch && (between_runs || at.stage == first.stage);
    if (!same) {
      findings_.Add(fmt::format("{}: device {} has {} at this place of the group",
                                NameOf(actors_[a], actors_[a].next), actors_[call.first].device,
                                InstructionName(program_, first)));
    } else if (call.kind != taking.kind || call.bytes != taking.bytes) {
      findings_.Add(fmt::format("{}: {} of {} bytes, on device {} {} of {} bytes",
                                NameOf(actors_[a], actors_[a].next), Name(taking.kind),
                                taking.bytes, actors_[call.first].device, Name(call.kind),
                                call.bytes));
    }
  }

  void ReportCalls() {
    for (const Group& group : groups_) {
      for (const Call& call : group.calls) {
        if (call.issued.size() == group.members.size()) continue;
        std::vector<int64_t> missing;
        for (size_t member : group.members) {
          bool there = std::any_of(call.issued.begin(), call.issued.end(),
                                   [&](const Waiter& at) { return at.actor == member; });
          if (!there) missing.push_back(actors_[member].device);
        }
        findings_.Add(fmt::format("{}: devices {} do not take part",
                                  NameOf(actors_[call.first], call.issued[0].instruction),
                                  fmt::join(missing, ",")));
      }
    }
  }

  void ReportWait(const Actor& actor) {
    if (actor.next >= list(actor).size()) return;
    findings_.Add(fmt::format("{} waits for ever for instruction {} ({})",
                              NameOf(actor, actor.next), actor.waits_for,
                              InstructionName(program_, list(actor)[ToSize(actor.waits_for)])));
  }

  const Program& program_;
  Findings& findings_;
  bool whole_;
  std::vector<Actor> actors_;
  std::vector<size_t> actor_of_;                      // by device
  std::vector<std::vector<std::vector<int>>> needs_;  // by run and instruction
  std::deque<size_t> ready_;
  std::map<ParcelKey, Parcel> parcels_;
  // By direction, transfer and device.
  std::map<std::tuple<bool, TransferId, int64_t>, std::vector<PeerShape>> peers_;
  // By actor, the last.
  std::map<std::tuple<Opcode, StageId, InstructionTarget, size_t>, Taking> taking_;
  std::map<std::vector<size_t>, size_t> group_of_;
  std::vector<Group> groups_;
};

}  // namespace

void CheckTogether(const Program& program, Findings& findings) {
  Together(program, findings).Run();
}

}  // namespace heddle
