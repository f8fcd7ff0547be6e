#include "sim/task_list.h"

#include <map>
#include <tuple>
#include <unordered_map>

namespace heddle {
namespace {

bool Overlaps(const Instruction& at, const StackCosts& stack) {
  switch (at.op) {
    case Opcode::kReduceGradients:
    case Opcode::kReduceShards:
      return stack.overlap_gradients;
    case Opcode::kGatherWeights:
      return stack.overlap_weights;
    case Opcode::kSend:
      return stack.overlap_transfers;
    default:
      return true;
  }
}

// Whether a copy of a group moves its weights rather than its optimizer state.
bool CopiesWeights(const DeviceProgram& run, const Instruction& at) {
  if (at.op != Opcode::kFetch && at.op != Opcode::kEvict) return false;
  BufferId on_host = at.op == Opcode::kFetch ? at.reads[0] : at.adds[0];
  return run.buffers[on_host].kind == BufferKind::kHostWeights;
}

// The key of a duration: instructions with the same key take the same time on a device.
uint64_t KeyOf(const DeviceProgram& run, const Instruction& at) {
  uint64_t key = static_cast<uint64_t>(at.op);
  key = key << 20 | static_cast<uint64_t>(at.stage.value);
  key = key << 32 | static_cast<uint64_t>(static_cast<uint32_t>(NumberOf(at.target)));
  bool other = at.recompute || CopiesWeights(run, at);
  return key << 4 | static_cast<uint64_t>(at.half) << 1 | static_cast<uint64_t>(other);
}

class Builder {
 public:
  Builder(const DeviceProgram& run, const std::vector<int>& channels, const StackCosts& stack)
      : run_(run), channels_(channels), stack_(stack), writer_(run.buffers.size(), -1) {}

  TaskList Make() {
    size_t count = run_.instructions.size();
    list_.tasks.resize(count);
    list_.predecessors.assign(count, 0);
    for (size_t i = 0; i < count; ++i) {
      const Instruction& at = run_.instructions[i];
      if (IsPutOff(at)) {
        put_off_.push_back(static_cast<int>(i));
        continue;
      }
      if (EndsStep(at)) AddPutOff();
      AddTask(static_cast<int>(i));
    }
    AddPutOff();
    Link();
    return std::move(list_);
  }

 private:
  // A stack that does not reduce gradients during backward reduces them after it; messages to other stages are sent
  // first.
  bool IsPutOff(const Instruction& at) const {
    return at.op == Opcode::kReduceGradients && at.microbatch < 0 && !stack_.overlap_gradients;
  }
  static bool EndsStep(const Instruction& at) {
    return at.op == Opcode::kReduceShards || at.op == Opcode::kSyncTied ||
           at.op == Opcode::kReport || at.op == Opcode::kUpdate;
  }
  void AddPutOff() {
    for (int i : put_off_) AddTask(i);
    put_off_.clear();
  }

  void AddTask(int i) {
    const Instruction& at = run_.instructions[static_cast<size_t>(i)];
    SimTask& task = list_.tasks[static_cast<size_t>(i)];
    task.microbatch = at.microbatch;
    task.channel = channels_[static_cast<size_t>(i)];
    task.kind = at.op == Opcode::kSend   ? TaskKind::kSend
                : at.op == Opcode::kRecv ? TaskKind::kRecv
                : task.channel >= 0      ? TaskKind::kCollective
                                         : TaskKind::kLocal;
    auto [found, fresh] =
        cost_of_.try_emplace(KeyOf(run_, at), static_cast<int>(list_.keys.size()));
    if (fresh) list_.keys.push_back(i);
    task.cost = found->second;

    last_.clear();
    for (int wait : at.waits) Need(wait);
    bool communication = at.stream == Stream::kCommunication;
    if (communication) {
      for (BufferId id : at.reads) NeedWriter(id);
      for (BufferId id : at.adds) NeedWriter(id);
    }
    task.compute_queue = at.stream == Stream::kCompute || (communication && !Overlaps(at, stack_));
    if (task.compute_queue) {
      Need(compute_);
    } else {
      Need(before_compute_);
      if (task.kind == TaskKind::kCollective) Follow(queue_[task.channel], i);
      if (task.kind == TaskKind::kLocal) Follow(at.stream == Stream::kCopyOut ? out_ : copy_, i);
    }
    for (int from : last_) {
      edges_.push_back({from, i});
      ++list_.predecessors[static_cast<size_t>(i)];
    }
    if (task.compute_queue) {
      before_compute_ = compute_;
      compute_ = i;
    }
    for (BufferId id : at.writes) writer_[id] = i;
    for (BufferId id : at.adds) writer_[id] = i;
  }

  void Need(int task) {
    if (task < 0) return;
    for (int known : last_) {
      if (known == task) return;
    }
    last_.push_back(task);
  }
  void NeedWriter(BufferId id) {
    if (id.valid()) Need(writer_[id]);
  }
  void Follow(int& end_of_queue, int task) {
    Need(end_of_queue);
    end_of_queue = task;
  }

  void Link() {
    list_.first_successor.assign(list_.tasks.size() + 1, 0);
    for (const auto& [from, to] : edges_) ++list_.first_successor[static_cast<size_t>(from) + 1];
    for (size_t i = 0; i < list_.tasks.size(); ++i) {
      list_.first_successor[i + 1] += list_.first_successor[i];
    }
    list_.successors.resize(edges_.size());
    std::vector<int> at(list_.first_successor.begin(), list_.first_successor.end() - 1);
    for (const auto& [from, to] : edges_) {
      list_.successors[static_cast<size_t>(at[static_cast<size_t>(from)]++)] = to;
    }
  }

  struct Queue {
    int end = -1;
    operator int&() { return end; }
  };

  const DeviceProgram& run_;
  const std::vector<int>& channels_;
  const StackCosts& stack_;
  TaskList list_;
  IdVector<BufferId, int> writer_;
  std::unordered_map<uint64_t, int> cost_of_;
  std::vector<int> last_;
  std::vector<std::pair<int, int>> edges_;
  std::map<int, Queue> queue_;  // by channel
  std::vector<int> put_off_;
  int copy_ = -1, out_ = -1, compute_ = -1, before_compute_ = -1;
};

}  // namespace

TaskList MakeTaskList(const DeviceProgram& run, const std::vector<int>& channels,
                      const StackCosts& stack) {
  return Builder(run, channels, stack).Make();
}

}  // namespace heddle
