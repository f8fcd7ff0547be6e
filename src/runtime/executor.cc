#include "runtime/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

#include "base/check.h"
#include "base/error.h"
#include "program/text.h"
#include "runtime/executor_internal.h"
#include "runtime/tiles.h"

namespace heddle {
namespace {

constexpr size_t kNothing = static_cast<size_t>(-1);

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

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
      origin_(Now()) {
  HEDDLE_CHECK_EQ(static_cast<int64_t>(transport.size()), program.device_count());
  OpenGroups();
  for (int s : run_.stages) {
    for (size_t g = 0; g < stage(s).groups.size(); ++g) {
      int group = static_cast<int>(g);
      stores_[{s, group}] = std::make_unique<GroupStore>(program, s, group, device_, options_.device,
                                                         options_.optimizer, weights);
    }
  }
  LoadConstants(constants);
  PrepareSegments();
}

// Every device opens the groups it is in, in the order of their members.
void Executor::OpenGroups() {
  std::set<std::vector<int64_t>> all;
  for (const DeviceProgram& run : program_.runs) {
    for (const Instruction& instruction : run.instructions) {
      for (int64_t d = 0; d < run.devices; ++d) {
        std::vector<int64_t> ranks = CollectiveOf(program_, instruction, run.first_device + d).ranks;
        if (std::find(ranks.begin(), ranks.end(), device_) != ranks.end()) all.insert(std::move(ranks));
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
    const Buffer& buffer = run_.buffers[id.index()];
    if (buffer.kind != BufferKind::kLocal) continue;
    const Local& local = stage(buffer.stage).locals[static_cast<size_t>(buffer.index)];
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
  step_ = step;
  double start = Now();
  batches_.clear();
  gradients_.clear();
  for (size_t i = 0; i < run_.instructions.size(); ++i) {
    double begin = Now();
    Execute(i);
    const Instruction& instruction = run_.instructions[i];
    if (options_.trace && instruction.stream != Stream::kCommunication) Note(instruction, begin);
  }
  FinishAll();
  StepRecord record;
  record.step = step;
  record.loss = loss_;
  record.grad_norm = std::sqrt(squared_norm_);
  record.seconds = Now() - start;
  return record;
}

// An event that began then and ends now.
void Executor::Note(const Instruction& i, double begin) {
  TraceEvent event;
  event.device = device_;
  event.stream = i.stream;
  event.name = InstructionName(program_, i);
  event.category = std::string(kOpcodeNames[static_cast<size_t>(i.op)]);
  event.start = begin - origin_;
  event.end = Now() - origin_;
  // Transfers overlap in flight; a track shows each from the end of the one before.
  if (i.stream == Stream::kCommunication) {
    event.start = std::max(event.start, communication_until_);
    event.end = std::max(event.end, event.start);
    communication_until_ = event.end;
  }
  trace_.events.push_back(std::move(event));
}

void Executor::Execute(size_t index) {
  const Instruction& i = run_.instructions[index];
  for (const auto* list : {&i.reads, &i.adds, &i.writes}) {
    for (BufferId id : *list) {
      if (id.valid() && pending_by_buffer_[id.index()] != kNothing) Finish(pending_by_buffer_[id.index()]);
    }
  }
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
  }
  for (BufferId id : i.frees) {
    const Buffer& buffer = run_.buffers[id.index()];
    if (pending_by_buffer_[id.index()] != kNothing) Finish(pending_by_buffer_[id.index()]);
    At(id).reset();
    saved_.erase(id.index());
    if (buffer.kind == BufferKind::kGathered) store(buffer.stage, buffer.index).ReleaseWhole();
  }
}

void Executor::Finish(size_t instruction) {
  auto found = pending_.find(instruction);
  if (found == pending_.end()) return;
  Pending pending = std::move(found->second);
  pending_.erase(found);
  for (BufferId id : pending.buffers) pending_by_buffer_[id.index()] = kNothing;
  transport_.Wait(pending.ticket);
  for (Ticket& ticket : pending.more) transport_.Wait(ticket);
  if (options_.trace) Note(run_.instructions[instruction], pending.begin);
  if (pending.finish) pending.finish();
}

void Executor::FinishAll() {
  while (!pending_.empty()) Finish(pending_.begin()->first);
  for (auto& [ticket, tensor] : sends_) transport_.Wait(ticket);
  sends_.clear();
}

GroupHandle Executor::GroupOf(const std::vector<int64_t>& ranks) const { return groups_.at(ranks); }

void Executor::StartCollective(size_t index, const Instruction& i, Reduction reduction, const at::Tensor& give,
                               const at::Tensor& get, std::function<void()> finish) {
  Payload payload = CollectiveOf(program_, i, device_);
  HEDDLE_CHECK_EQ(payload.bytes, give.numel() * static_cast<int64_t>(give.element_size()));
  Pending pending;
  pending.begin = Now();
  pending.ticket = transport_.Start(payload.kind, reduction, GroupOf(payload.ranks), give, get);
  pending.keep = {give, get};
  pending.finish = std::move(finish);
  for (const auto* list : {&i.writes, &i.adds}) {
    pending.buffers.insert(pending.buffers.end(), list->begin(), list->end());
  }
  for (BufferId id : pending.buffers) pending_by_buffer_[id.index()] = index;
  pending_[index] = std::move(pending);
}

// ---- Values.

void Executor::Load(const Instruction& i) {
  const StageProgram& at = stage(i.stage);
  const Local& local = at.locals[static_cast<size_t>(i.index)];
  const Value& value = program_.model.graph.value(local.value);
  int64_t rows = value.type.shape[0] / program_.microbatches;
  if (!batches_.count(i.microbatch)) {
    batches_[i.microbatch] = data_(step_, {i.microbatch * rows, (i.microbatch + 1) * rows});
  }
  Position position = PositionIn(at, device_);
  Tile tile;
  for (const ShardedDim& dim : local.sharding.dims) tile.push_back(HeldRanges(at.mesh, dim, position));
  at::Tensor part = TakeTile(batches_[i.microbatch].at(value.name), tile);
  At(i.writes[0]) = part.to(options_.device, ToTorch(local.dtype)).contiguous();
}

void Executor::Reshard(const Instruction& i, size_t index) {
  const StageProgram& at = stage(i.stage);
  const Local& local = at.locals[static_cast<size_t>(i.index)];
  const ReshardStep& step = at.steps[static_cast<size_t>(local.source.step)];
  Position position = PositionIn(at, device_);
  auto [found, fresh] = exchanges_.try_emplace({i.stage, i.index});
  if (fresh) found->second = ExchangeOf(at.mesh, step, position);
  const Exchange& exchange = found->second;
  const Local& from = at.locals[static_cast<size_t>(local.source.from)];
  at::Tensor source = from.source.kind == SourceKind::kParameter
                          ? store(i.stage, from.source.from).leaf(static_cast<size_t>(from.source.step)).detach()
                          : At(i.reads[0]);
  BufferId made = i.writes[0];
  int64_t ranks = GroupSize(at.mesh, step.axes);
  auto chunks = [&] {
    Shape shape = exchange.chunk;
    shape.insert(shape.begin(), ranks);
    return at::empty(shape, source.options());
  };
  auto place = [this, made, shape = LocalShape(at.mesh, step.after, position), &exchange](const at::Tensor& got) {
    at::Tensor whole = at::empty(shape, got.options());
    for (size_t m = 0; m < exchange.get.size(); ++m) {
      if (IsEmpty(exchange.get[m])) continue;
      PutTile(whole, exchange.get[m], Unpadded(got[static_cast<int64_t>(m)], ShapeOf(exchange.get[m])));
    }
    At(made) = whole;
  };
  switch (step.kind) {
    case StepKind::kSlice:
      At(made) = TakeTile(source, exchange.give[0]).contiguous();
      return;
    case StepKind::kMask: {
      bool first = true;
      for (size_t a = 0; a < position.size(); ++a) first = first && (!Contains(step.axes, a) || position[a] == 0);
      At(made) = first ? source : at::zeros_like(source);
      return;
    }
    case StepKind::kAllReduce: {
      at::Tensor sum = source.contiguous().clone();
      return StartCollective(index, i, step.reduction, sum, sum, [this, made, sum] { At(made) = sum; });
    }
    case StepKind::kAllGather: {
      at::Tensor got = chunks();
      return StartCollective(index, i, step.reduction, Padded(source, exchange.chunk), got,
                             [place, got] { place(got); });
    }
    case StepKind::kReduceScatter:
    case StepKind::kAllToAll: {
      at::Tensor give = chunks();
      for (size_t m = 0; m < exchange.give.size(); ++m) {
        give[static_cast<int64_t>(m)].copy_(Padded(TakeTile(source, exchange.give[m]), exchange.chunk));
      }
      if (step.kind == StepKind::kAllToAll) {
        at::Tensor got = chunks();
        return StartCollective(index, i, step.reduction, give, got, [place, got] { place(got); });
      }
      at::Tensor got = at::empty(exchange.chunk, source.options());
      Shape shape = LocalShape(at.mesh, step.after, position);
      return StartCollective(index, i, step.reduction, give, got,
                             [this, made, got, shape] { At(made) = Unpadded(got, shape).contiguous(); });
    }
  }
}

void Executor::Sum(const Instruction& i) {
  at::Tensor sum = At(i.reads[0]);
  for (size_t r = 1; r < i.reads.size(); ++r) sum = r == 1 ? sum + At(i.reads[r]) : sum.add_(At(i.reads[r]));
  At(i.writes[0]) = sum;
}

// ---- Messages.

void Executor::Send(const Instruction& i) {
  auto [found, fresh] = messages_.try_emplace({i.index, true});
  if (fresh) found->second = MessagesOf(program_, i, device_);
  int tag = i.index * static_cast<int>(program_.microbatches) + i.microbatch;
  for (const PeerMessage& message : found->second) {
    at::Tensor part = TakeTile(At(i.reads[0]), message.message.give).contiguous();
    sends_.push_back({transport_.Send(static_cast<int>(message.peer), tag, part), part});
  }
}

void Executor::Recv(const Instruction& i, size_t index) {
  auto [found, fresh] = messages_.try_emplace({i.index, false});
  if (fresh) found->second = MessagesOf(program_, i, device_);
  int tag = i.index * static_cast<int>(program_.microbatches) + i.microbatch;
  const StageTransfer& transfer = program_.transfers[static_cast<size_t>(i.index)];
  const StageProgram& at = stage(transfer.to_stage);
  const Local& local = at.locals[static_cast<size_t>(transfer.to_local)];
  at::TensorOptions options = at::TensorOptions(ToTorch(local.dtype)).device(options_.device);
  Pending pending;
  pending.begin = Now();
  std::vector<at::Tensor> parts;
  for (const PeerMessage& message : found->second) {
    parts.push_back(at::empty(ShapeOf(message.message.get), options));
    pending.more.push_back(transport_.Recv(static_cast<int>(message.peer), tag, parts.back()));
  }
  BufferId made = i.writes[0];
  Shape shape = LocalShape(at.mesh, local.sharding, PositionIn(at, device_));
  const std::vector<PeerMessage>& messages = found->second;
  pending.finish = [this, made, shape, parts, options, &messages] {
    if (parts.size() == 1 && parts[0].sizes() == at::IntArrayRef(shape)) {
      At(made) = parts[0];
      return;
    }
    at::Tensor whole = at::empty(shape, options);
    for (size_t p = 0; p < parts.size(); ++p) PutTile(whole, messages[p].message.get, parts[p]);
    At(made) = whole;
  };
  pending.buffers = {made};
  pending_by_buffer_[made.index()] = index;
  pending_[index] = std::move(pending);
}

// ---- Parameters.

void Executor::AddGradient(const Instruction& i) {
  const StageProgram& at = stage(i.stage);
  const Local& local = at.locals[static_cast<size_t>(i.index)];
  for (const Local& stored : at.locals) {
    if (stored.source.kind != SourceKind::kParameter || stored.value != local.value) continue;
    const ParameterGroup& group = at.groups[static_cast<size_t>(stored.source.from)];
    AxisMask complete = group.reduce_axes & ~local.sharding.partial_axes();
    Position position = PositionIn(at, device_);
    for (size_t a = 0; a < position.size(); ++a) {
      if (Contains(complete, a) && position[a] != 0) return;
    }
    store(i.stage, stored.source.from).AddGradient(static_cast<size_t>(stored.source.step), At(i.reads[0]));
    return;
  }
}

// What the update reads: reduced, or as backward left it.
at::Tensor Executor::FinalGradients(BufferId id) {
  const Buffer& buffer = run_.buffers[id.index()];
  if (buffer.kind == BufferKind::kWeightGradients && !At(id).defined()) {
    At(id) = store(buffer.stage, buffer.index).TakeGradients();
  }
  return At(id);
}

void Executor::ReduceGradients(const Instruction& i, size_t index) {
  GroupStore& group = store(i.stage, i.index);
  const ParameterGroup& at = stage(i.stage).groups[static_cast<size_t>(i.index)];
  at::Tensor give = group.TakeGradients().to(ToTorch(program_.precision.gradients));
  if (at.zero == 0) {
    BufferId made = i.writes[0];
    return StartCollective(index, i, Reduction::kSum, give, give,
                           [this, made, give] { At(made) = give.to(at::kFloat); });
  }
  at::Tensor got = at::empty({group.chunk_elements()}, give.options());
  bool adds = !i.adds.empty();
  BufferId made = adds ? i.adds[0] : i.writes[0];
  StartCollective(index, i, Reduction::kSum, give, got, [this, made, got] {
    if (At(made).defined()) {
      At(made).add_(got);
    } else {
      At(made) = got.to(at::kFloat);
    }
  });
}

void Executor::ReduceShards(const Instruction& i, size_t index) {
  at::Tensor sum = At(i.reads[0]).to(ToTorch(program_.precision.gradients));
  BufferId made = i.writes[0];
  StartCollective(index, i, Reduction::kSum, sum, sum, [this, made, sum] { At(made) = sum.to(at::kFloat); });
}

void Executor::SyncTied(const Instruction& i, size_t index) {
  at::Tensor sum = FinalGradients(i.reads[0]).clone();
  for (size_t r = 1; r < i.reads.size(); ++r) sum.add_(FinalGradients(i.reads[r]));
  sum = sum.to(ToTorch(program_.precision.gradients));
  std::vector<BufferId> held = i.adds;
  StartCollective(index, i, Reduction::kSum, sum, sum, [this, held, sum] {
    for (BufferId id : held) At(id) = sum.to(at::kFloat);
  });
}

void Executor::Report(const Instruction& i, size_t index) {
  double loss = 0, squares = 0;
  for (BufferId id : i.reads) {
    const Buffer& buffer = run_.buffers[id.index()];
    const StageProgram& at = stage(buffer.stage);
    if (buffer.kind == BufferKind::kLocal) {
      const Local& local = at.locals[static_cast<size_t>(buffer.index)];
      Position position = PositionIn(at, device_);
      bool counts = true;
      for (size_t a = 0; a < position.size(); ++a) {
        counts = counts && (position[a] == 0 || local.sharding.partial[a] == PartialState::kSum);
      }
      if (counts) loss += At(id).item<double>();
    } else {
      squares += store(buffer.stage, buffer.index).SquaredNorm(FinalGradients(id));
    }
  }
  at::Tensor sums = at::tensor({loss, squares}, at::kDouble);
  StartCollective(index, i, Reduction::kSum, sums, sums, [this, sums] {
    loss_ = sums[0].item<double>();
    squared_norm_ = sums[1].item<double>();
    if (!std::isfinite(loss_)) StopNotFinite();
  });
}

// All devices come here together: the first parameter, in the model's order, of which any of them holds a number
// that is not finite.
void Executor::StopNotFinite() {
  const std::vector<ValueId> parameters = program_.model.graph.ValuesOf(ValueKind::kParameter);
  const int64_t none = static_cast<int64_t>(parameters.size());
  int64_t weights = none, gradients = none;
  for (const auto& [key, held] : stores_) {
    const ParameterGroup& group = stage(key.first).groups[static_cast<size_t>(key.second)];
    for (size_t slot = 0; slot < group.slots.size(); ++slot) {
      auto at = std::find(parameters.begin(), parameters.end(), group.slots[slot].parameter) - parameters.begin();
      if (!held->IsFinite(slot, held->MasterFlat())) weights = std::min(weights, static_cast<int64_t>(at));
      for (size_t b = 0; b < buffers_.size(); ++b) {
        const Buffer& buffer = run_.buffers[b];
        bool reduced = buffer.kind == BufferKind::kReduced || buffer.kind == BufferKind::kWeightGradients;
        if (!reduced || buffer.stage != key.first || buffer.index != key.second || !buffers_[b].defined()) continue;
        if (!held->IsFinite(slot, buffers_[b])) gradients = std::min(gradients, static_cast<int64_t>(at));
      }
    }
  }
  at::Tensor first = at::tensor({-weights, -gradients}, at::kLong);
  std::vector<int64_t> all;
  for (int64_t rank = 0; rank < program_.device_count(); ++rank) all.push_back(rank);
  Ticket ticket = transport_.Start(CollectiveKind::kAllReduce, Reduction::kMax, GroupOf(all), first, first);
  transport_.Wait(ticket);
  weights = -first[0].item<int64_t>();
  gradients = -first[1].item<int64_t>();
  auto name = [&](int64_t at) { return program_.model.graph.value(parameters[static_cast<size_t>(at)]).name; };
  std::string where = "every weight and gradient is finite: look at the data";
  if (gradients < none) where = fmt::format("the first gradient that is not finite is that of '{}'", name(gradients));
  if (weights < none) where = fmt::format("the first weights that are not finite are '{}'", name(weights));
  if (step_ == 0) throw CommonRunError(fmt::format("the loss is {} before any update; {}", loss_, where));
  throw CommonRunError(fmt::format("the loss is {} at step {}; {}; lower the learning rate (--lr {})", loss_, step_,
                                   where, options_.optimizer.lr / 10));
}

void Executor::Update(const Instruction& i) {
  at::Tensor reduced = FinalGradients(i.reads[0]);
  if (options_.keep_gradients) KeepGradients(i, reduced);
  double norm = std::sqrt(squared_norm_);
  double scale = options_.clip_norm > 0 && norm > options_.clip_norm ? options_.clip_norm / (norm + 1e-6) : 1;
  double lr = options_.lr ? options_.lr(step_) : options_.optimizer.lr;
  store(i.stage, i.index).Update(reduced, scale, lr);
}

void Executor::GatherWeights(const Instruction& i, size_t index) {
  GroupStore& group = store(i.stage, i.index);
  at::Tensor whole = group.WholeToFill();
  StartCollective(index, i, Reduction::kSum, group.Chunk(), whole, {});
}

void Executor::KeepGradients(const Instruction& i, const at::Tensor& reduced) {
  GroupStore& group = store(i.stage, i.index);
  const ParameterGroup& at = stage(i.stage).groups[static_cast<size_t>(i.index)];
  at::Tensor whole = reduced;
  if (at.zero > 0) {
    whole = at::empty({group.flat_elements()}, reduced.options());
    Instruction gather = i;
    gather.op = Opcode::kGatherWeights;
    Ticket ticket = transport_.Start(CollectiveKind::kAllGather, Reduction::kSum,
                                     GroupOf(CollectiveOf(program_, gather, device_).ranks), reduced, whole);
    transport_.Wait(ticket);
  }
  for (ParameterPart& part : group.Parts(whole)) gradients_.push_back(std::move(part));
}

std::vector<ParameterPart> Executor::Weights() {
  std::vector<ParameterPart> parts;
  for (auto& [key, held] : stores_) {
    at::Tensor whole = held->MasterFlat();
    const ParameterGroup& at = stage(key.first).groups[static_cast<size_t>(key.second)];
    if (at.zero > 0) {
      whole = at::empty({held->flat_elements()}, held->MasterFlat().options());
      Instruction gather;
      gather.op = Opcode::kGatherWeights;
      gather.stage = key.first;
      gather.index = key.second;
      Ticket ticket =
          transport_.Start(CollectiveKind::kAllGather, Reduction::kSum,
                           GroupOf(CollectiveOf(program_, gather, device_).ranks), held->MasterFlat(), whole);
      transport_.Wait(ticket);
    }
    for (ParameterPart& part : held->Parts(whole)) parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace heddle
