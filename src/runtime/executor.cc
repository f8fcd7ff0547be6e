#include "runtime/executor.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "host/supervisor/rank_table.h"
#include "runtime/executor/not_finite.h"
#include "runtime/kernels/kernel.h"
#include "runtime/tiles.h"

namespace heddle {
namespace {

DeviceState StateFor(const Program& program, int64_t device, const ExecutorOptions& options) {
  DeviceState state{program, program.RunOf(device), device, options.device};
  state.stream = options.compute ? options.compute : NewStream(options.device);
  state.buffers = decltype(state.buffers)(state.run.buffers.size());
  return state;
}

// That of a forward program, which shares what the one that trains has.
DeviceState StateBeside(const Program& forward, const DeviceState& trained) {
  DeviceState state{forward, forward.RunOf(trained.device), trained.device, trained.on};
  state.forward_only = true;
  state.stream = trained.stream;
  state.communicators = trained.communicators;
  state.parameters = trained.parameters;
  state.buffers = decltype(state.buffers)(state.run.buffers.size());
  return state;
}

ExecutorOptions ToEvaluate(ExecutorOptions options) {
  options.trace = options.keep_gradients = options.capture = false;
  return options;
}

StepReport::Options ReportOptions(const DeviceState& state, double clip_norm) {
  const Precision& precision = state.program.precision;
  return {.forward_only = state.forward_only,
          .spills = Spills(state.program),
          .scales_loss = !state.forward_only &&
                         (precision.compute == DType::kF16 || precision.gradients == DType::kF16),
          .clip_norm = clip_norm};
}

}  // namespace

Executor::Executor(const Program& program, Transport& transport, ExecutorOptions options,
                   const WeightSource& weights, const ConstantSource& constants, DataFn data)
    : options_(std::move(options)), state_(StateFor(program, transport.rank(), options_)) {
  HEDDLE_CHECK_EQ(static_cast<int64_t>(transport.size()), program.device_count());
  AllocationMeter::Scope metered(meter_);
  StreamScope streamed(state_.stream);
  DeviceParameters::HostPlace host{
      options_.fetches ? options_.fetches : NewStream(options_.device),
      options_.evictions ? options_.evictions : NewStream(options_.device), options_.host};
  state_.communicators = std::make_shared<Communicators>(program, state_.device, transport);
  state_.parameters = std::make_shared<DeviceParameters>(
      program, state_.device, options_.device, options_.optimizer, weights, host, options_.mask);
  LoadConstants(constants);
  MakeParts(std::move(data));
}

Executor::Executor(const Program& forward, Executor& trained, DataFn data)
    : options_(ToEvaluate(trained.options_)), state_(StateBeside(forward, trained.state_)) {
  AllocationMeter::Scope metered(meter_);
  StreamScope streamed(state_.stream);
  ShareConstants(trained.state_);
  MakeParts(std::move(data));
}

Executor::~Executor() = default;

void Executor::MakeParts(DataFn data) {
  if (Spills(state_.program) && options_.clip_norm > 0) {
    ThrowInput(
        "clipping gradients with offload all: shards are updated before the norm of all gradients "
        "is known; leave one of them out");
  }
  report_ = std::make_unique<StepReport>(
      options_.device, ReportOptions(state_, options_.clip_norm),
      [this](double loss) { ThrowNotFinite(state_, step_, loss, options_.optimizer.lr); });
  handlers_ = std::make_unique<InstructionHandlers>(
      state_, *report_, std::move(data),
      InstructionHandlers::Options{options_.seed, options_.keep_gradients});
  sequencer_ = std::make_unique<InstructionSequencer>(
      state_, *handlers_, meter_, InstructionSequencer::Options{options_.trace, options_.slot});
  capture_ = std::make_unique<StepCapture>(WhyNotCaptured(
      state_, {.wanted = options_.capture, .observed = options_.trace || options_.keep_gradients}));
}

void Executor::LoadConstants(const ConstantSource& constants) {
  for (BufferId id : state_.run.persistent) {
    const Buffer& buffer = state_.run.buffers[id];
    if (buffer.kind != BufferKind::kLocal) continue;
    const StageProgram& stage = state_.stage(buffer.stage);
    const Local& local = stage.locals[buffer.local()];
    Position position = state_.position(buffer.stage);
    Tile tile;
    for (const ShardedDim& dim : local.sharding.dims)
      tile.push_back(HeldRanges(stage.mesh, dim, position));
    at::Tensor part = TakeTile(constants(state_.program.model.graph.value(local.value)), tile);
    state_.buffers[id] = part.to(options_.device, ToTorch(local.dtype)).contiguous();
  }
}

// The constants of a forward program are those of the program that trains.
void Executor::ShareConstants(const DeviceState& trained) {
  for (BufferId id : state_.run.persistent) {
    const Buffer& buffer = state_.run.buffers[id];
    if (buffer.kind != BufferKind::kLocal) continue;
    for (BufferId other : trained.run.persistent) {
      if (trained.run.buffers[other] == buffer) state_.buffers[id] = trained.buffers[other];
    }
    HEDDLE_CHECK(state_.buffers[id].defined(), "the program that trains has no constant {}",
                 buffer.local());
  }
}

StepRecord Executor::RunStep(int64_t step) {
  BeginStep(step);
  {
    AllocationMeter::Scope metered(*metered_);
    StreamScope streamed(state_.stream);
    auto drop = [this] {
      handlers_->Drop();
      sequencer_->Drop();
    };
    if (capture_->Run([this] { sequencer_->Run(); }, drop))
      sequencer_->times().Charge(Opcode::kRun);
    handlers_->loads().PrepareStep(step + 1);  // while the device computes
  }
  return EndStep();
}

void Executor::BeginStep(int64_t step) {
  AllocationMeter::Scope metered(*metered_);
  StreamScope streamed(state_.stream);
  step_ = step;
  handlers_->BeginStep(step);
  meter_.ResetPeak();
  if (state_.stream) ResetPeakMemory(options_.device);
  sequencer_->BeginStep(step);
  report_->BeginStep(options_.lr ? options_.lr(step) : options_.optimizer.lr);
  handlers_->loads().BringInputs();
}

StepRecord Executor::EndStep() {
  AllocationMeter::Scope metered(*metered_);
  StreamScope streamed(state_.stream);
  StepRecord record = ReadReport();
  record.step = step_;
  sequencer_->WriteTimes(record);
  record.peak_memory_bytes = state_.stream ? MemoryOf(options_.device).peak : meter_.peak();
  return record;
}

StepRecord Executor::ReadReport() {
  StepRecord record = report_->Read();
  sequencer_->times().Charge(Opcode::kReport);
  if (std::isfinite(record.loss) || state_.forward_only) return record;
  // Spilled groups have been updated: the step cannot be run again.
  if (Spills(state_.program)) ThrowNotFinite(state_, step_, record.loss, options_.optimizer.lr);
  // The weights are as they were: the same step again, to look for what is not finite.
  report_->LookCloser();
  handlers_->loads().BringInputs();
  sequencer_->Run();
  ThrowRun(
      "the loss was not finite at step {}, and is finite when the step is run again: its kernels "
      "do not give the same numbers twice; use --deterministic",
      step_);
}

std::pair<size_t, size_t> Executor::VisitRange(VisitId visit) const {
  const std::vector<Instruction>& all = state_.run.instructions;
  auto first = std::partition_point(all.begin(), all.end(),
                                    [&](const Instruction& i) { return i.visit < visit; });
  auto last = std::partition_point(first, all.end(),
                                   [&](const Instruction& i) { return i.visit == visit; });
  return {static_cast<size_t>(first - all.begin()), static_cast<size_t>(last - all.begin())};
}

void Executor::RunVisit(VisitId visit) {
  AllocationMeter::Scope metered(*metered_);
  StreamScope streamed(state_.stream);
  sequencer_->times().Resume();
  auto [first, last] = VisitRange(visit);
  sequencer_->Run(first, last);
  if (state_.stream) WaitFor(*state_.stream);
  handlers_->ReleaseAfterVisit();
  sequencer_->times().Charge(Opcode::kRun);
}

void Executor::Prefetch(VisitId visit, AllocationMeter& meter) {
  AllocationMeter::Scope metered(meter);
  if (residency_) residency_->BringAhead(visit);
  StreamScope streamed(state_.stream);
  auto [first, last] = VisitRange(visit);
  sequencer_->Prefetch(first, last);
}

void Executor::ShareDevice() {
  residency_ = std::make_unique<JobResidency>(state_, handlers_->segments());
  LeaveDevice();
}

void Executor::RunVisit(VisitId visit, AllocationMeter& meter) {
  metered_ = &meter;
  if (residency_) {
    HEDDLE_CHECK(sequencer_->is_settled(), "a transfer is writing a buffer of a job that moves");
    StreamScope streamed(state_.stream);
    residency_->Arrive(visit, meter);
  }
  RunVisit(visit);
}

void Executor::LeaveDevice() {
  HEDDLE_CHECK(sequencer_->is_settled(), "a transfer is writing a buffer of a job that moves");
  residency_->Leave(*metered_);
}

StateBytes Executor::StateMemory() const {
  StateBytes sum = state_.parameters->Memory();
  sum.gradients = sequencer_->most_gradient_bytes();
  return sum;
}

std::vector<ParameterPart> Executor::Weights() { return HeldWeights(state_); }

TrainState Executor::State() {
  TrainState state;
  int64_t updates = 0;
  state.parts = state_.parameters->State(updates);
  state.numbers["updates"] = updates;
  if (LossScale* scale = loss_scale(); scale != nullptr) {
    LossScale::State held = scale->state();
    state.numbers["loss_scale"] = {{"scale", held.scale}, {"good_steps", held.good_steps}};
  }
  return state;
}

void Executor::Restore(CheckpointReader& from) {
  Json numbers = from.manifest().run.value("state", Json::object());
  auto number = [&](const Json& json, const char* key) {
    auto found = json.is_object() ? json.find(key) : json.end();
    if (!json.is_object() || found == json.end() || !found->is_number()) {
      ThrowInput("{}: {}: run: {} is missing", from.path(), kManifestName, key);
    }
    return found->get<double>();
  };
  auto updates = static_cast<int64_t>(number(numbers, "updates"));
  if (LossScale* scale = loss_scale(); scale != nullptr && numbers.contains("loss_scale")) {
    const Json& saved = numbers["loss_scale"];
    scale->set_state({number(saved, "scale"), static_cast<int64_t>(number(saved, "good_steps"))});
  }
  state_.parameters->Restore(from, updates, options_.optimizer.name);
}

}  // namespace heddle
