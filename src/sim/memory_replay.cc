// Replays the list of a device once and counts storages.
#include <algorithm>
#include <map>
#include <set>

#include "base/check.h"
#include "sim/memory.h"
#include "sim/memory_ledger.h"

namespace heddle {
namespace {

constexpr int kNone = -1;

class ListReplayer {
 public:
  ListReplayer(const MemoryModel& model, int64_t device, const ReplayOptions& options)
      : model_(model),
        device_(device),
        run_(model.program().RunOf(device)),
        options_(options),
        ledger_(options.allocator, options.kinds, Spills(model.program())),
        storage_of_(run_.buffers.size(), kNone) {
    stages_.resize(model.program().stages.size());
    for (StageId s : run_.stages) stages_[s] = &model.Of(s, device);
  }

  MemoryTimeline Run() {
    MemoryTimeline timeline;
    for (BufferId id : run_.persistent) Begin(id, true);
    timeline.held = ledger_.kinds();
    timeline.peak = ledger_.TakePeak();
    ledger_.TakePeakKinds();
    size_t count = run_.instructions.size();
    if (options_.timeline) {
      timeline.during.reserve(count);
      timeline.after.reserve(count);
    }
    for (size_t i = 0; i < count; ++i) {
      const Instruction& at = run_.instructions[i];
      if (at.stream == Stream::kCommunication) EndFlight();
      // A fetch takes the memory of the buffers that it frees.
      bool first = at.op == Opcode::kFetch;
      ledger_.SetFetching(first);
      for (size_t f = 0; first && f < at.frees.size(); ++f) End(at.frees[f]);
      Execute(at);
      for (size_t f = 0; !first && f < at.frees.size(); ++f) End(at.frees[f]);
      int64_t most = ledger_.TakePeak();
      if (most > timeline.peak) {
        timeline.peak = most;
        timeline.peak_instruction = static_cast<int>(i);
      }
      if (options_.timeline) {
        timeline.during.push_back(most);
        timeline.after.push_back(ledger_.live());
      }
      if (options_.kinds) {
        timeline.kinds.push_back(ledger_.kinds());
        timeline.most_kinds.push_back(ledger_.TakePeakKinds());
      }
    }
    EndFlight();
    timeline.left = ledger_.kinds();
    timeline.peak_kinds = ledger_.peak_kinds();
    if (options_.allocator) {
      timeline.allocated = ledger_.SumOverAllocators(&CachingAllocator::peak_allocated);
      timeline.reserved = ledger_.SumOverAllocators(&CachingAllocator::peak_reserved);
    }
    return timeline;
  }

 private:
  const StageMemory& stage(StageId s) const { return *stages_[s]; }
  int& StorageOf(BufferId id) { return storage_of_[id]; }

  std::pair<int64_t, MemoryKind> SizeOfBuffer(const Buffer& buffer) const {
    // Some buffers belong to no stage of the device.
    auto group = [&]() -> const auto& { return stage(buffer.stage).groups[buffer.group()]; };
    switch (buffer.kind) {
      case BufferKind::kLocal:
        return {stage(buffer.stage).locals[buffer.local()], MemoryKind::kActivations};
      case BufferKind::kWeights:
        return {group().weights, MemoryKind::kWeights};
      case BufferKind::kGathered: {
        const StageProgram& in = model_.program().stages[buffer.stage];
        return {group().gathered,
                in.groups[buffer.group()].spilled ? MemoryKind::kWeights : MemoryKind::kBuffers};
      }
      case BufferKind::kWeightGradients:
        return {group().gradients, MemoryKind::kGradients};
      case BufferKind::kReduced:
        return {group().reduced, MemoryKind::kGradients};
      case BufferKind::kOptimizer:
        return {group().optimizer, MemoryKind::kOptimizer};
      case BufferKind::kHostOptimizer:
      case BufferKind::kHostWeights:
        return {0, MemoryKind::kOptimizer};  // on the host, not on the device
      default:
        return {2 * SizeOf(DType::kF64), MemoryKind::kBuffers};
    }
  }

  // Gives a buffer a storage of its own, unless it has one.
  void Begin(BufferId id, bool persistent = false) {
    if (StorageOf(id) != kNone) return;
    auto [bytes, kind] = SizeOfBuffer(run_.buffers[id]);
    if (GrowsInPieces(id)) bytes = 0;
    if (persistent && kind == MemoryKind::kActivations) kind = MemoryKind::kBuffers;
    StorageOf(id) = ledger_.New(bytes, kind, 1);
  }

  bool GrowsInPieces(BufferId id) const {
    return model_.habits().eager && run_.buffers[id].kind == BufferKind::kWeightGradients;
  }

  // Weight gradients that stay as autograd made them; gradients of later micro-batches are added to them.
  void AddPiece(const Instruction& at, ParameterGroupId group, int64_t bytes) {
    for (BufferId id : at.adds) {
      if (!id.valid() || !GrowsInPieces(id)) continue;
      const Buffer& buffer = run_.buffers[id];
      if (buffer.stage != at.stage || buffer.group() != group) continue;
      Pieces& pieces = pieces_[id];
      std::pair<Opcode, InstructionTarget> key{at.op, at.target};
      if (pieces.from.count(key) != 0 && pieces.by != &at) continue;
      pieces.from.insert(key);
      pieces.by = &at;
      pieces.storages.push_back(ledger_.New(bytes, MemoryKind::kGradients, 1));
    }
  }

  // Copies all pieces of a buffer into one tensor and drops them.
  void MakeFlat(BufferId id) {
    auto pieces = pieces_.find(id);
    if (pieces == pieces_.end()) return;
    auto [bytes, kind] = SizeOfBuffer(run_.buffers[id]);
    int flat = ledger_.New(bytes, kind, 1);
    for (int piece : pieces->second.storages) ledger_.Drop(piece);
    pieces_.erase(pieces);
    ledger_.Drop(StorageOf(id));
    StorageOf(id) = flat;
  }

  void End(BufferId id) {
    int& storage = StorageOf(id);
    if (auto pieces = pieces_.find(id); pieces != pieces_.end()) {
      for (int piece : pieces->second.storages) ledger_.Drop(piece);
      pieces_.erase(pieces);
    }
    if (run_.buffers[id].kind == BufferKind::kSaved) {
      for (int held : saved_[static_cast<size_t>(storage)]) {
        if (held != kNone) ledger_.Drop(held);
      }
      free_saved_.push_back(storage);
    } else {
      HEDDLE_CHECK(storage != kNone, "buffer {} is freed before it is written", id);
      ledger_.Drop(storage);
    }
    storage = kNone;
  }

  void EndFlight() {
    if (in_flight_ != kNone) ledger_.Drop(in_flight_);
    in_flight_ = kNone;
  }

  // Memory that a communication needs besides its operands.
  void AddInFlight(int64_t bytes) {
    if (bytes > 0) in_flight_ = ledger_.New(bytes, MemoryKind::kBuffers, 1);
  }

  void Execute(const Instruction& at) {
    switch (at.op) {
      case Opcode::kRun:
        return RunHalf(at);
      case Opcode::kReshard:
        AddInFlight(stage(at.stage).reshards[at.local()]);
        if (stage(at.stage).same[at.local()]) return Share(at.writes[0], StorageOf(at.reads[0]));
        break;
      case Opcode::kSend:
      case Opcode::kRecv:
        AddInFlight(MessageBytes(at));
        break;
      case Opcode::kReduceGradients:
        AddInFlight(stage(at.stage).groups[at.group()].flat);
        break;
      case Opcode::kSyncTied: {
        AddInFlight(SizeOfBuffer(run_.buffers[at.adds[0]]).first);
        break;
      }
      case Opcode::kGatherWeights:
        AddInFlight(stage(at.stage).groups[at.group()].chunk);
        break;
      case Opcode::kReport:
        if (model_.habits().fused_update) {
          for (BufferId id : at.reads) MakeFlat(id);
        }
        break;
      case Opcode::kUpdate:
        if (!model_.habits().fused_update)
          ledger_.Drop(
              ledger_.New(stage(at.stage).groups[at.group()].update, MemoryKind::kBuffers, 1));
        break;
      default:
        break;
    }
    for (BufferId id : at.writes) Begin(id);
    for (BufferId id : at.adds) Begin(id);
    if (at.op != Opcode::kAddGradient && at.op != Opcode::kFactorGradient) return;
    int64_t bytes = GradientBytes(at);
    if (at.op == Opcode::kFactorGradient)  // computed first, then added to the accumulated gradient
      ledger_.Drop(ledger_.New(bytes, MemoryKind::kBuffers, 1));
    for (BufferId id : at.adds) AddPiece(at, run_.buffers[id].group(), bytes);
  }

  int64_t GradientBytes(const Instruction& at) const {
    if (at.op != Opcode::kFactorGradient) return stage(at.stage).locals[at.local()];
    const StageProgram& on = model_.program().stages[at.stage];
    return stage(at.stage).locals[on.factor_gradients[at.factor_gradient()].parameter];
  }

  void Share(BufferId id, int storage) {
    ledger_.Hold(storage);
    StorageOf(id) = storage;
  }

  int64_t MessageBytes(const Instruction& at) {
    auto [found, fresh] = messages_.try_emplace({at.op, at.transfer()}, 0);
    if (fresh) found->second = model_.MessageBytes(at, device_);
    return found->second;
  }

  void RunHalf(const Instruction& at) {
    const SegmentMemory& segment = stage(at.stage).segments[at.segment()];
    if (at.half == Half::kF) {
      bool keeps = !at.writes.empty() && IsSaved(at.writes.back());
      return ReplayHalf(at, keeps ? segment.keeping : segment.forward,
                        keeps ? at.writes.back() : BufferId{});
    }
    BufferId saved;
    for (BufferId id : at.reads) {
      if (id.valid() && IsSaved(id)) saved = id;
    }
    ReplayHalf(at,
               at.half == Half::kBW  ? segment.backward
               : at.half == Half::kB ? segment.inputs
                                     : segment.weights,
               saved);
    for (const auto& [group, bytes] : segment.gradients) AddPiece(at, group, bytes);
  }

  bool IsSaved(BufferId id) const { return run_.buffers[id].kind == BufferKind::kSaved; }

  void ReplayHalf(const Instruction& at, const HalfMemory& half, BufferId saved) {
    for (BufferId id : at.adds) Begin(id);
    made_.assign(half.made.size(), kNone);
    std::vector<int>* kept = nullptr;
    if (saved.valid()) kept = &SavedOf(saved);
    for (const HalfEvent& event : half.events) {
      size_t index = static_cast<size_t>(event.index);
      switch (event.kind) {
        case HalfEvent::Kind::kMake: {
          const MadeStorage& made = half.made[index];
          MemoryKind kind = made.holders > 0 ? MemoryKind::kActivations : MemoryKind::kBuffers;
          made_[index] = ledger_.New(made.bytes, kind, std::max(made.holders, 1));
          break;
        }
        case HalfEvent::Kind::kDrop:
          ledger_.Drop(made_[index]);
          break;
        case HalfEvent::Kind::kRelease:
          ledger_.Drop((*kept)[index]);
          (*kept)[index] = kNone;
          break;
      }
    }
    for (size_t r = 0; r < half.results.size(); ++r) {
      StorageOf(at.writes[r]) = Resolve(at, half.results[r]);
    }
    for (StorageRef ref : half.kept) kept->push_back(Resolve(at, ref));
  }

  int Resolve(const Instruction& at, StorageRef ref) {
    if (ref >= 0) return made_[static_cast<size_t>(ref)];
    int storage = StorageOf(at.reads[static_cast<size_t>(~ref)]);
    ledger_.Hold(storage);
    return storage;
  }

  std::vector<int>& SavedOf(BufferId id) {
    int& index = StorageOf(id);
    if (index == kNone) {
      if (free_saved_.empty()) {
        free_saved_.push_back(static_cast<int>(saved_.size()));
        saved_.emplace_back();
      }
      index = free_saved_.back();
      free_saved_.pop_back();
      saved_[static_cast<size_t>(index)].clear();
    }
    return saved_[static_cast<size_t>(index)];
  }

  const MemoryModel& model_;
  const int64_t device_;
  const DeviceProgram& run_;
  const ReplayOptions options_;
  IdVector<StageId, const StageMemory*> stages_;  // null for stages that are not on the device
  MemoryLedger ledger_;
  IdVector<BufferId, int> storage_of_;   // for kSaved an index into `saved_`
  std::vector<std::vector<int>> saved_;  // the storages that each kSaved holds
  std::vector<int> free_saved_;
  std::vector<int> made_;
  struct Pieces {
    // The segments whose gradients are in the pieces, and the instructions that added gradients.
    std::set<std::pair<Opcode, InstructionTarget>> from;
    const Instruction* by = nullptr;  // the last instruction that added one
    std::vector<int> storages;
  };
  std::map<BufferId, Pieces> pieces_;
  int in_flight_ = kNone;
  std::map<std::pair<Opcode, TransferId>, int64_t> messages_;
};

}  // namespace

MemoryTimeline Replay(const MemoryModel& model, int64_t device, const ReplayOptions& options) {
  return ListReplayer(model, device, options).Run();
}

}  // namespace heddle
