// The list of a device gone through once, storages counted.
#include <algorithm>
#include <map>
#include <set>

#include "base/check.h"
#include "sim/allocator.h"
#include "sim/memory.h"

namespace heddle {
namespace {

constexpr int kNone = -1;

// Storages with a count of holders each.
class Ledger {
 public:
  // `spills`: memory is taken in segments that grow, one for what is fetched and one for all else.
  Ledger(bool allocator, bool kinds, bool spills)
      : allocates_(allocator),
        follows_kinds_(kinds),
        allocators_(spills ? 2 : 1, CachingAllocator(spills)) {}

  int New(int64_t bytes, MemoryKind kind, int holders) {
    int id;
    if (free_.empty()) {
      id = static_cast<int>(storages_.size());
      storages_.push_back({});
    } else {
      id = free_.back();
      free_.pop_back();
    }
    Storage& made = storages_[static_cast<size_t>(id)];
    made.bytes = bytes;
    made.holders = holders;
    made.kind = kind;
    made.allocator = fetching_ ? allocators_.size() - 1 : 0;
    if (allocates_) made.block = allocators_[made.allocator].Allocate(bytes);
    kinds_[static_cast<size_t>(kind)] += bytes;
    live_ += bytes;
    if (live_ > most_) Rise();
    return id;
  }
  void Hold(int id) { ++storages_[static_cast<size_t>(id)].holders; }
  void Drop(int id) {
    Storage& storage = storages_[static_cast<size_t>(id)];
    if (--storage.holders > 0) return;
    HEDDLE_CHECK(storage.holders == 0, "a storage is dropped twice");
    kinds_[static_cast<size_t>(storage.kind)] -= storage.bytes;
    live_ -= storage.bytes;
    if (allocates_) allocators_[storage.allocator].Free(storage.block);
    free_.push_back(id);
  }

  int64_t live() const { return live_; }
  MemoryKinds kinds() const { return ToKinds(kinds_); }
  // The most since the last call.
  int64_t TakeMost() {
    int64_t most = most_;
    most_ = live_;
    return most;
  }
  MemoryKinds TakeMostKinds() {
    MemoryKinds most = ToKinds(most_kinds_);
    most_kinds_ = kinds_;
    return most;
  }
  int64_t peak() const { return peak_; }
  MemoryKinds peak_kinds() const { return ToKinds(peak_kinds_); }
  // From now on storages are made for a fetch, or not.
  void SetFetching(bool fetching) { fetching_ = fetching; }
  template <class Get>
  int64_t OfAllocators(Get get) const {
    int64_t sum = 0;
    for (const CachingAllocator& allocator : allocators_) sum += (allocator.*get)();
    return sum;
  }

 private:
  using Kinds = std::array<int64_t, kMemoryKindNames.size()>;
  struct Storage {
    int64_t bytes = 0;
    int holders = 0;
    CachingAllocator::Handle block = 0;
    size_t allocator = 0;
    MemoryKind kind = MemoryKind::kActivations;
  };

  static MemoryKinds ToKinds(const Kinds& k) { return {k[0], k[1], k[2], k[3], k[4]}; }
  void Rise() {
    most_ = live_;
    if (follows_kinds_) most_kinds_ = kinds_;
    if (live_ <= peak_) return;
    peak_ = live_;
    peak_kinds_ = kinds_;
  }

  bool allocates_, follows_kinds_;
  std::vector<Storage> storages_;
  std::vector<int> free_;
  Kinds kinds_ = {}, peak_kinds_ = {}, most_kinds_ = {};
  int64_t live_ = 0, most_ = 0, peak_ = 0;
  std::vector<CachingAllocator> allocators_;
  bool fetching_ = false;
};

class Player {
 public:
  Player(const MemoryModel& model, int64_t device, const ReplayOptions& options)
      : model_(model),
        device_(device),
        run_(model.program().RunOf(device)),
        options_(options),
        ledger_(options.allocator, options.kinds, Spills(model.program())),
        storage_of_(run_.buffers.size(), kNone) {
    stages_.resize(model.program().stages.size());
    for (int s : run_.stages) stages_[static_cast<size_t>(s)] = &model.Of(s, device);
  }

  MemoryTimeline Run() {
    MemoryTimeline timeline;
    for (BufferId id : run_.persistent) Begin(id, true);
    timeline.held = ledger_.kinds();
    timeline.peak = ledger_.TakeMost();
    ledger_.TakeMostKinds();
    size_t count = run_.instructions.size();
    if (options_.timeline) {
      timeline.during.reserve(count);
      timeline.after.reserve(count);
    }
    for (size_t i = 0; i < count; ++i) {
      const Instruction& at = run_.instructions[i];
      if (at.stream == Stream::kCommunication) EndFlight();
      bool first = at.op == Opcode::kFetch;  // it takes the memory of what it frees
      ledger_.SetFetching(first);
      for (size_t f = 0; first && f < at.frees.size(); ++f) End(at.frees[f]);
      Execute(at);
      for (size_t f = 0; !first && f < at.frees.size(); ++f) End(at.frees[f]);
      int64_t most = ledger_.TakeMost();
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
        timeline.most_kinds.push_back(ledger_.TakeMostKinds());
      }
    }
    EndFlight();
    timeline.left = ledger_.kinds();
    timeline.peak_kinds = ledger_.peak_kinds();
    if (options_.allocator) {
      timeline.allocated = ledger_.OfAllocators(&CachingAllocator::peak_allocated);
      timeline.reserved = ledger_.OfAllocators(&CachingAllocator::peak_reserved);
    }
    return timeline;
  }

 private:
  const StageMemory& stage(int s) const { return *stages_[static_cast<size_t>(s)]; }
  int& StorageOf(BufferId id) { return storage_of_[id.index()]; }

  std::pair<int64_t, MemoryKind> SizeOfBuffer(const Buffer& buffer) const {
    // Some buffers are of no stage of the device.
    auto group = [&]() -> const auto& {
      return stage(buffer.stage).groups[static_cast<size_t>(buffer.index)];
    };
    size_t index = static_cast<size_t>(buffer.index);
    switch (buffer.kind) {
      case BufferKind::kLocal:
        return {stage(buffer.stage).locals[index], MemoryKind::kActivations};
      case BufferKind::kWeights:
        return {group().weights, MemoryKind::kWeights};
      case BufferKind::kGathered: {
        const StageProgram& in = model_.program().stages[static_cast<size_t>(buffer.stage)];
        return {group().gathered,
                in.groups[index].spilled ? MemoryKind::kWeights : MemoryKind::kBuffers};
      }
      case BufferKind::kWeightGradients:
        return {group().gradients, MemoryKind::kGradients};
      case BufferKind::kReduced:
        return {group().reduced, MemoryKind::kGradients};
      case BufferKind::kOptimizer:
        return {group().optimizer, MemoryKind::kOptimizer};
      case BufferKind::kHostOptimizer:
      case BufferKind::kHostWeights:
        return {0, MemoryKind::kOptimizer};  // not on the device
      default:
        return {2 * SizeOf(DType::kF64), MemoryKind::kBuffers};
    }
  }

  // A buffer with a storage of its own, where it has none yet.
  void Begin(BufferId id, bool persistent = false) {
    if (StorageOf(id) != kNone) return;
    auto [bytes, kind] = SizeOfBuffer(run_.buffers[id.index()]);
    if (GrowsInPieces(id)) bytes = 0;
    if (persistent && kind == MemoryKind::kActivations) kind = MemoryKind::kBuffers;
    StorageOf(id) = ledger_.New(bytes, kind, 1);
  }

  bool GrowsInPieces(BufferId id) const {
    return model_.habits().eager && run_.buffers[id.index()].kind == BufferKind::kWeightGradients;
  }

  // Gradients that stay as they were made; those of later micro-batches are added to them.
  void AddPiece(const Instruction& at, int group, int64_t bytes) {
    for (BufferId id : at.adds) {
      const Buffer& buffer = run_.buffers[id.index()];
      if (!id.valid() || !GrowsInPieces(id) || buffer.stage != at.stage || buffer.index != group)
        continue;
      Pieces& pieces = pieces_[id.index()];
      std::pair<Opcode, int> key{at.op, at.index};
      if (pieces.from.count(key) != 0 && pieces.by != &at) continue;
      pieces.from.insert(key);
      pieces.by = &at;
      pieces.storages.push_back(ledger_.New(bytes, MemoryKind::kGradients, 1));
    }
  }

  // All of a buffer's pieces in one tensor, then dropped.
  void MakeFlat(BufferId id) {
    auto pieces = pieces_.find(id.index());
    if (pieces == pieces_.end()) return;
    auto [bytes, kind] = SizeOfBuffer(run_.buffers[id.index()]);
    int flat = ledger_.New(bytes, kind, 1);
    for (int piece : pieces->second.storages) ledger_.Drop(piece);
    pieces_.erase(pieces);
    ledger_.Drop(StorageOf(id));
    StorageOf(id) = flat;
  }

  void End(BufferId id) {
    int& storage = StorageOf(id);
    if (auto pieces = pieces_.find(id.index()); pieces != pieces_.end()) {
      for (int piece : pieces->second.storages) ledger_.Drop(piece);
      pieces_.erase(pieces);
    }
    if (run_.buffers[id.index()].kind == BufferKind::kSaved) {
      for (int held : saved_[static_cast<size_t>(storage)]) {
        if (held != kNone) ledger_.Drop(held);
      }
      free_saved_.push_back(storage);
    } else {
      HEDDLE_CHECK(storage != kNone, "buffer {} is freed before it is written", id.index());
      ledger_.Drop(storage);
    }
    storage = kNone;
  }

  void EndFlight() {
    if (in_flight_ != kNone) ledger_.Drop(in_flight_);
    in_flight_ = kNone;
  }

  // What a communication needs besides.
  void AddInFlight(int64_t bytes) {
    if (bytes > 0) in_flight_ = ledger_.New(bytes, MemoryKind::kBuffers, 1);
  }

  void Execute(const Instruction& at) {
    size_t index = static_cast<size_t>(at.index);
    switch (at.op) {
      case Opcode::kRun:
        return RunHalf(at);
      case Opcode::kReshard:
        AddInFlight(stage(at.stage).reshards[index]);
        if (stage(at.stage).same[index]) return Share(at.writes[0], StorageOf(at.reads[0]));
        break;
      case Opcode::kSend:
      case Opcode::kRecv:
        AddInFlight(MessageBytes(at));
        break;
      case Opcode::kReduceGradients:
        AddInFlight(stage(at.stage).groups[index].flat);
        break;
      case Opcode::kSyncTied: {
        AddInFlight(SizeOfBuffer(run_.buffers[at.adds[0].index()]).first);
        break;
      }
      case Opcode::kGatherWeights:
        AddInFlight(stage(at.stage).groups[index].chunk);
        break;
      case Opcode::kReport:
        if (model_.habits().fused_update) {
          for (BufferId id : at.reads) MakeFlat(id);
        }
        break;
      case Opcode::kUpdate:
        if (!model_.habits().fused_update)
          ledger_.Drop(ledger_.New(stage(at.stage).groups[index].update, MemoryKind::kBuffers, 1));
        break;
      default:
        break;
    }
    for (BufferId id : at.writes) Begin(id);
    for (BufferId id : at.adds) Begin(id);
    if (at.op != Opcode::kAddGradient && at.op != Opcode::kFactorGradient) return;
    int64_t bytes = GradientBytes(at);
    if (at.op == Opcode::kFactorGradient)  // made, and added to what is there
      ledger_.Drop(ledger_.New(bytes, MemoryKind::kBuffers, 1));
    for (BufferId id : at.adds) AddPiece(at, run_.buffers[id.index()].index, bytes);
  }

  int64_t GradientBytes(const Instruction& at) const {
    const StageProgram& on = model_.program().stages[static_cast<size_t>(at.stage)];
    size_t index = static_cast<size_t>(at.index);
    if (at.op == Opcode::kFactorGradient)
      index = static_cast<size_t>(on.factor_gradients[index].parameter);
    return stage(at.stage).locals[index];
  }

  void Share(BufferId id, int storage) {
    ledger_.Hold(storage);
    StorageOf(id) = storage;
  }

  int64_t MessageBytes(const Instruction& at) {
    auto [found, fresh] = messages_.try_emplace({at.op, at.index}, 0);
    if (fresh) found->second = model_.MessageBytes(at, device_);
    return found->second;
  }

  void RunHalf(const Instruction& at) {
    const SegmentMemory& segment = stage(at.stage).segments[static_cast<size_t>(at.index)];
    if (at.half == Half::kF) {
      bool keeps = !at.writes.empty() && IsSaved(at.writes.back());
      return Play(at, keeps ? segment.keeping : segment.forward,
                  keeps ? at.writes.back() : BufferId{});
    }
    BufferId saved;
    for (BufferId id : at.reads) {
      if (id.valid() && IsSaved(id)) saved = id;
    }
    Play(at,
         at.half == Half::kBW  ? segment.backward
         : at.half == Half::kB ? segment.inputs
                               : segment.weights,
         saved);
    for (const auto& [group, bytes] : segment.gradients) AddPiece(at, group, bytes);
  }

  bool IsSaved(BufferId id) const { return run_.buffers[id.index()].kind == BufferKind::kSaved; }

  void Play(const Instruction& at, const HalfMemory& half, BufferId saved) {
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
  std::vector<const StageMemory*> stages_;  // null: not of the device
  Ledger ledger_;
  std::vector<int> storage_of_;          // per buffer; of kSaved, which of `saved_`
  std::vector<std::vector<int>> saved_;  // storages held
  std::vector<int> free_saved_;
  std::vector<int> made_;
  struct Pieces {
    std::set<std::pair<Opcode, int>> from;  // segments that have given theirs, and gradients added
    const Instruction* by = nullptr;        // the last that did
    std::vector<int> storages;
  };
  std::map<size_t, Pieces> pieces_;  // by buffer
  int in_flight_ = kNone;
  std::map<std::pair<Opcode, int>, int64_t> messages_;
};

}  // namespace

MemoryTimeline Replay(const MemoryModel& model, int64_t device, const ReplayOptions& options) {
  return Player(model, device, options).Run();
}

}  // namespace heddle
