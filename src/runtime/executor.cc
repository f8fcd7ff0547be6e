#include "runtime/executor.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "host/supervisor/rank_table.h"
#include "program/text.h"
#include "runtime/executor_internal.h"
#include "runtime/tiles.h"
#include "runtime/torch_compat.h"

namespace heddle {
namespace {

constexpr size_t kNothing = static_cast<size_t>(-1);
constexpr double kNotYet = -1;        // when an event that has not ended ends
constexpr double kMemorySteps = 256;  // the counter of memory moves by this part of the most so far

}  // namespace

Executor::Executor(const Program& program, Transport& transport, ExecutorOptions options,
                   const WeightSource& weights, const ConstantSource& constants, DataFn data)
    : program_(program),
      transport_(transport),
      options_(std::move(options)),
      data_(std::move(data)),
      device_(transport.rank()),
      run_(program.RunOf(transport.rank())),
      buffers_(run_.buffers.size()),
      pending_by_buffer_(run_.buffers.size(), kNothing),
      scratch_(program.model.graph.values.size()),
      stream_(options_.compute ? options_.compute : NewStream(options_.device)),
      origin_(SteadySeconds()) {
  HEDDLE_CHECK_EQ(static_cast<int64_t>(transport.size()), program.device_count());
  AllocationMeter::Scope metered(meter_);
  StreamScope streamed(stream_);
  host_.fetches = options_.fetches ? options_.fetches : NewStream(options_.device);
  host_.evictions = options_.evictions ? options_.evictions : NewStream(options_.device);
  host_.budget = options_.host;
  OpenGroups();
  for (StageId s : run_.stages) {
    for (ParameterGroupId g : stage(s).groups.ids()) {
      stores_[{s, g}] =
          std::make_shared<GroupStore>(program, s, g, device_, options_.device, options_.optimizer,
                                       weights, host_, options_.mask);
    }
  }
  for (BufferId id : run_.buffers.ids()) {
    BufferKind kind = run_.buffers[id].kind;
    if (kind == BufferKind::kWeightGradients || kind == BufferKind::kReduced)
      gradient_buffers_.push_back(id.index());
  }
  LoadConstants(constants);
  PrepareSegments();
  if (program.precision.compute == DType::kF16 || program.precision.gradients == DType::kF16)
    loss_scale_.emplace(options_.device);
  PrepareDevice();
}

Executor::Executor(const Program& forward, Executor& trained, DataFn data)
    : program_(forward),
      transport_(trained.transport_),
      options_(trained.options_),
      data_(std::move(data)),
      device_(trained.device_),
      run_(forward.RunOf(device_)),
      forward_only_(true),
      groups_(trained.groups_),
      stores_(trained.stores_),
      buffers_(run_.buffers.size()),
      pending_by_buffer_(run_.buffers.size(), kNothing),
      scratch_(forward.model.graph.values.size()),
      stream_(trained.stream_),
      origin_(SteadySeconds()) {
  options_.trace = options_.keep_gradients = options_.capture = false;
  AllocationMeter::Scope metered(meter_);
  StreamScope streamed(stream_);
  // Constants are what the other one has.
  for (BufferId id : run_.persistent) {
    const Buffer& buffer = run_.buffers[id];
    if (buffer.kind != BufferKind::kLocal) continue;
    for (BufferId other : trained.run_.persistent) {
      if (trained.run_.buffers[other] == buffer) At(id) = trained.At(other);
    }
    HEDDLE_CHECK(At(id).defined(), "the program that trains has no constant {}", buffer.local());
  }
  PrepareSegments();
  PrepareDevice();
}

void Executor::PrepareDevice() {
  factors_.lr = at::zeros({}, at::TensorOptions(at::kDouble).device(options_.device));
  spills_ = Spills(program_);
  if (spills_ && options_.clip_norm > 0) {
    ThrowInput(
        "clipping gradients with offload all: shards are updated before the norm of all gradients "
        "is known; leave one of them out");
  }
  if (stream_) {
    inputs_ = std::make_unique<StepInputs>(program_, run_, device_, options_.device, data_);
    clock_ = std::make_unique<StepClock>(run_.instructions.size() + 1);
  }
  not_captured_ = WhyNotCaptured();
  if (spills_) fetched_.resize(run_.instructions.size(), 0);
}

// What trains says where it is; what only looks, that it lives.
void Executor::GiveSign(size_t instruction) {
  if (options_.slot == nullptr) return;
  if (forward_only_) {
    options_.slot->Beat();
  } else {
    options_.slot->At(step_, instruction);
  }
}

// Every device opens the groups it is in, in the order of their members.
void Executor::OpenGroups() {
  std::set<std::vector<int64_t>> all;
  for (const DeviceProgram& run : program_.runs) {
    for (const Instruction& instruction : run.instructions) {
      for (int64_t device : run.devices) {
        std::vector<int64_t> ranks = CollectiveOf(program_, instruction, device).ranks;
        if (std::find(ranks.begin(), ranks.end(), device_) != ranks.end())
          all.insert(std::move(ranks));
      }
    }
  }
  for (const std::vector<int64_t>& ranks : all) {
    std::vector<int> members(ranks.begin(), ranks.end());
    groups_[ranks] = transport_.AddGroup(members);
  }
}

void Executor::LoadConstants(const ConstantSource& constants) {
  for (BufferId id : run_.persistent) {
    const Buffer& buffer = run_.buffers[id];
    if (buffer.kind != BufferKind::kLocal) continue;
    const Local& local = stage(buffer.stage).locals[buffer.local()];
    Position position = PositionIn(stage(buffer.stage), device_);
    Tile tile;
    for (const ShardedDim& dim : local.sharding.dims) {
      tile.push_back(HeldRanges(stage(buffer.stage).mesh, dim, position));
    }
    at::Tensor part = TakeTile(constants(program_.model.graph.value(local.value)), tile);
    At(id) = part.to(options_.device, ToTorch(local.dtype)).contiguous();
  }
}

StepRecord Executor::RunStep(int64_t step) {
  BeginStep(step);
  {
    AllocationMeter::Scope metered(*metered_);
    StreamScope streamed(stream_);
    RunOrReplay();
  }
  return EndStep();
}

void Executor::BeginStep(int64_t step) {
  AllocationMeter::Scope metered(*metered_);
  StreamScope streamed(stream_);
  step_ = step;
  batches_.clear();
  gradients_.clear();
  meter_.ResetPeak();
  if (stream_) ResetPeakMemory(options_.device);
  kind_seconds_.fill(0);
  step_start_ = charged_until_ = SteadySeconds();
  first_event_ = trace_.events.size();
  factors_.lr.fill_(options_.lr ? options_.lr(step_) : options_.optimizer.lr);
  if (spills_) {  // updates do not wait for the report
    factors_.scale = at::ones_like(factors_.lr);
    factors_.skip = at::zeros_like(factors_.lr);
    early_squares_ = at::zeros_like(factors_.lr);
  }
  GiveSign(0);
  if (inputs_) inputs_->Begin(step);
}

StepRecord Executor::EndStep() {
  AllocationMeter::Scope metered(*metered_);
  StreamScope streamed(stream_);
  StepRecord record = ReadReport();
  record.step = step_;
  record.seconds = charged_until_ - step_start_;
  if (clock_) ReadClock();
  record.host_seconds = host_seconds_;
  record.peak_memory_bytes = stream_ ? MemoryOf(options_.device).peak : meter_.peak();
  record.kind_seconds.assign(kind_seconds_.begin(), kind_seconds_.end());
  return record;
}

void Executor::RunInstructions(size_t first, size_t last) {
  if (clock_ && first == 0) clock_->Mark(0);
  for (size_t i = first; i < last; ++i) {
    if (!fetched_.empty() && fetched_[i]) {
      fetched_[i] = 0;
      if (clock_) clock_->Mark(i + 1);
      continue;
    }
    const Instruction& instruction = run_.instructions[i];
    running_ = instruction.op;
    GiveSign(i);
    if (options_.trace) OpenEvent(instruction);
    size_t event = trace_.events.size() - 1;
    FinishOperands(instruction);
    double begin = charged_until_;
    if (IsKeptAway(instruction)) {
      AllocationMeter::Scope metered(host_.meter);
      Execute(i);
    } else {
      Execute(i);
    }
    SampleGradients(instruction);
    Charge(instruction.op);
    if (clock_) clock_->Mark(i + 1);
    if (!options_.trace) continue;
    if (!IsInFlight(i)) CloseEvent(event, begin);
    SampleMemory();
  }
  if (last < run_.instructions.size()) return;
  FinishAll();
  if (options_.trace) SampleMemory();
}

// What has passed since the last call was spent on instructions of this kind.
void Executor::Charge(Opcode kind) {
  double now = SteadySeconds();
  kind_seconds_[static_cast<size_t>(kind)] += now - charged_until_;
  charged_until_ = now;
}

// The event of an instruction that starts now.
void Executor::OpenEvent(const Instruction& i) {
  TraceEvent event;
  event.device = device_;
  event.stream = i.stream;
  event.name = InstructionName(program_, i);
  event.category = Category(program_, i);
  event.end = kNotYet;
  trace_.events.push_back(std::move(event));
}

// It began then and ended when the clock was last read, unless it has ended before.
void Executor::CloseEvent(size_t at, double begin) {
  TraceEvent& event = trace_.events[at];
  if (event.end != kNotYet) return;
  event.start = begin - origin_;
  event.end = charged_until_ - origin_;
  // Transfers overlap in flight; a track shows each from the end of the one before.
  if (event.stream == Stream::kCommunication) {
    event.start = std::max(event.start, communication_until_);
    event.end = std::max(event.end, event.start);
    communication_until_ = event.end;
  }
}

bool Executor::IsInFlight(size_t instruction) const {
  return pending_.count(instruction) != 0 ||
         (!sends_.empty() && sends_.back().instruction == &run_.instructions[instruction]);
}

// Changes that nobody would see are left out.
void Executor::SampleMemory() {
  double bytes = static_cast<double>(stream_ ? MemoryOf(options_.device).bytes : meter_.bytes());
  most_bytes_ = std::max(most_bytes_, bytes);
  if (std::abs(bytes - sampled_bytes_) * kMemorySteps <= most_bytes_) return;
  sampled_bytes_ = bytes;
  trace_.counters.push_back({device_, "memory", charged_until_ - origin_, bytes});
}

// After an instruction that wrote gradients of parameters: what all of them take. All steps are alike in this, the
// first one shows it.
void Executor::SampleGradients(const Instruction& i) {
  if (first_step_ >= 0 && first_step_ != step_) return;
  first_step_ = step_;
  auto holds = [&](BufferId id) {
    return std::binary_search(gradient_buffers_.begin(), gradient_buffers_.end(), id.index());
  };
  if (std::none_of(i.adds.begin(), i.adds.end(), holds) &&
      std::none_of(i.writes.begin(), i.writes.end(), holds))
    return;
  std::vector<at::Tensor> held;
  for (const auto& [key, store] : stores_)
    held.insert(held.end(), store->added().begin(), store->added().end());
  for (size_t b : gradient_buffers_) held.push_back(buffers_[b]);
  most_gradient_bytes_ = std::max(most_gradient_bytes_, StorageBytes(held, options_.device));
}

StateBytes Executor::StateMemory() const {
  StateBytes sum;
  for (const auto& [key, store] : stores_) {
    StateBytes part = store->Memory();
    sum.weights += part.weights;
    sum.master += part.master;
    sum.moments += part.moments;
    sum.index += part.index;
  }
  sum.gradients = most_gradient_bytes_;
  return sum;
}

// Waits for what is still being written and this instruction touches.
void Executor::FinishOperands(const Instruction& i) {
  for (const auto* list : {&i.reads, &i.adds, &i.writes}) {
    for (BufferId id : *list) {
      if (id.valid() && pending_by_buffer_[id.index()] != kNothing)
        Finish(pending_by_buffer_[id.index()]);
    }
  }
  if (!spills_) return;
  for (BufferId id : i.reads) {
    if (!id.valid() || run_.buffers[id].kind != BufferKind::kGathered) continue;
    store(run_.buffers[id]).WeightsArrived();
  }
}

void Executor::Execute(size_t index) {
  const Instruction& i = run_.instructions[index];
  if (i.op == Opcode::kFetch) Free(i);  // it takes that memory
  switch (i.op) {
    case Opcode::kLoad:
      Load(i);
      break;
    case Opcode::kRun:
      if (i.half == Half::kF) {
        RunForward(i);
      } else if (i.half == Half::kW) {
        RunWeights(i);
      } else {
        RunBackward(i);
      }
      break;
    case Opcode::kReshard:
      Reshard(i, index);
      break;
    case Opcode::kSum:
      Sum(i);
      break;
    case Opcode::kAddGradient:
      AddGradient(i);
      break;
    case Opcode::kFactorGradient:
      ComputeFactorGradient(i);
      break;
    case Opcode::kSend:
      Send(i);
      break;
    case Opcode::kRecv:
      Recv(i, index);
      break;
    case Opcode::kReduceGradients:
      ReduceGradients(i, index);
      break;
    case Opcode::kReduceShards:
      ReduceShards(i, index);
      break;
    case Opcode::kSyncTied:
      SyncTied(i, index);
      break;
    case Opcode::kReport:
      Report(i, index);
      break;
    case Opcode::kUpdate:
      Update(i);
      break;
    case Opcode::kGatherWeights:
      GatherWeights(i, index);
      break;
    case Opcode::kFetch:
      if (i.writes.empty()) {
        store(i).Fetch();
      } else {
        store(i).FetchWeights();
      }
      break;
    case Opcode::kEvict:
      if (run_.buffers[i.adds[0]].kind == BufferKind::kHostWeights) {
        store(i).EvictWeights();
      } else {
        store(i).Evict();
      }
      break;
  }
  // MPI moves on inside its calls only: what is in flight gets a push after every piece of work.
  bool worked = i.op == Opcode::kRun || i.op == Opcode::kFactorGradient;
  if (worked && !(pending_.empty() && sends_.empty())) {
    Charge(i.op);
    for (auto& [at, pending] : pending_) {
      if (pending.ticket) transport_.Done(pending.ticket);
      for (Ticket& ticket : pending.more) transport_.Done(ticket);
      Charge(run_.instructions[at].op);
    }
    std::erase_if(sends_, [&](Sent& sent) {
      std::erase_if(sent.tickets, [&](Ticket& ticket) { return transport_.Done(ticket); });
      Charge(Opcode::kSend);
      if (!sent.tickets.empty()) return false;
      if (options_.trace) CloseEvent(sent.event, sent.begin);
      return true;
    });
  }
  if (i.op != Opcode::kFetch) Free(i);
}

void Executor::Free(const Instruction& i) {
  for (BufferId id : i.frees) {
    const Buffer& buffer = run_.buffers[id];
    if (pending_by_buffer_[id.index()] != kNothing) Finish(pending_by_buffer_[id.index()]);
    // What is gathered again is not kept, though autograd looks at it.
    if (IsGatheredAgain(buffer) && buffer.version == 0) ResizeStorage(At(id), 0);
    At(id).reset();
    saved_.erase(id.index());
    bool fetched = buffer.kind == BufferKind::kGathered || buffer.kind == BufferKind::kOptimizer;
    if (fetched && leaves_) {
      released_after_visit_.push_back(id.index());
    } else {
      ReleaseFetched(buffer);
    }
  }
}

void Executor::Finish(size_t instruction) {
  auto found = pending_.find(instruction);
  if (found == pending_.end()) return;
  Pending pending = std::move(found->second);
  pending_.erase(found);
  for (BufferId id : pending.buffers) pending_by_buffer_[id.index()] = kNothing;
  Charge(running_);
  transport_.Wait(pending.ticket);
  for (Ticket& ticket : pending.more) transport_.Wait(ticket);
  Opcode op = run_.instructions[instruction].op;
  Charge(op);
  if (options_.trace) CloseEvent(pending.event, pending.begin);
  if (pending.finish) pending.finish();
  Charge(op);
}

void Executor::FinishAll() {
  while (!pending_.empty()) Finish(pending_.begin()->first);
  Charge(running_);
  for (Sent& sent : sends_) {
    for (Ticket& ticket : sent.tickets) transport_.Wait(ticket);
    Charge(Opcode::kSend);
    if (options_.trace) CloseEvent(sent.event, sent.begin);
  }
  sends_.clear();
}

GroupHandle Executor::GroupOf(const std::vector<int64_t>& ranks) const { return groups_.at(ranks); }

void Executor::StartCollective(size_t index, const Instruction& i, Reduction reduction,
                               const at::Tensor& give, const at::Tensor& get,
                               std::function<void()> finish) {
  Payload payload = CollectiveOf(program_, i, device_);
  HEDDLE_CHECK_EQ(payload.bytes, give.numel() * static_cast<int64_t>(give.element_size()));
  Pending pending;
  pending.begin = SteadySeconds();
  pending.event = trace_.events.size() - 1;
  pending.ticket = transport_.Start(payload.kind, reduction, GroupOf(payload.ranks), give, get);
  pending.keep = {give, get};
  pending.finish = std::move(finish);
  for (const auto* list : {&i.writes, &i.adds}) {
    pending.buffers.insert(pending.buffers.end(), list->begin(), list->end());
  }
  for (BufferId id : pending.buffers) pending_by_buffer_[id.index()] = index;
  pending_[index] = std::move(pending);
}

}  // namespace heddle
