#include "runtime/train.h"

#include <sys/resource.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "host/supervisor/rank_table.h"
#include "runtime/kernel_threads.h"
#include "runtime/tensor.h"

namespace heddle {
namespace {

int64_t PeakProcessBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

// The numbers of a measurement, in the order in which they are shared.
template <typename Measurement, typename Visit>
void EachNumber(Measurement& of, const Visit& visit) {
  for (auto& seconds : of.kind_seconds) visit(seconds);
  visit(of.peak_memory_bytes);
  visit(of.reserved_bytes);
  for (auto* bytes : {&of.state.weights, &of.state.gradients, &of.state.master, &of.state.moments,
                      &of.state.index})
    visit(*bytes);
}

// What every device measured, by device. Every entry goes from the one that has it to all the others as a sum with
// their zeros.
std::vector<DeviceMeasurement> ShareMeasurements(Transport& transport, GroupHandle all,
                                                 const DeviceMeasurement& mine) {
  std::vector<double> row;
  EachNumber(mine, [&](auto number) { row.push_back(static_cast<double>(number)); });
  at::Tensor table = at::zeros({transport.size(), static_cast<int64_t>(row.size())}, at::kDouble);
  table[transport.rank()].copy_(at::tensor(row, at::kDouble));
  Ticket ticket = transport.Start(CollectiveKind::kAllReduce, Reduction::kSum, all, table, table);
  transport.Wait(ticket);
  std::vector<DeviceMeasurement> devices(static_cast<size_t>(transport.size()));
  const double* next = table.data_ptr<double>();
  for (DeviceMeasurement& device : devices) {
    EachNumber(device, [&](auto& number) {
      number = static_cast<std::remove_reference_t<decltype(number)>>(*next++);
    });
  }
  return devices;
}

int64_t Largest(Transport& transport, GroupHandle all, int64_t mine) {
  at::Tensor largest = at::tensor({mine}, at::kLong);
  Ticket ticket =
      transport.Start(CollectiveKind::kAllReduce, Reduction::kMax, all, largest, largest);
  transport.Wait(ticket);
  return largest[0].item<int64_t>();
}

at::Tensor ToBytes(const Trace& trace) {
  Json events = Json::array(), counters = Json::array();
  for (const TraceEvent& event : trace.events) {
    events.push_back({event.device, static_cast<int>(event.stream), event.name, event.category,
                      event.start, event.end});
  }
  for (const TraceCounter& counter : trace.counters)
    counters.push_back({counter.device, counter.name, counter.time, counter.value});
  std::string text = Json::array({events, counters}).dump();
  at::Tensor bytes = at::empty({static_cast<int64_t>(text.size())}, at::kByte);
  std::copy(text.begin(), text.end(), bytes.data_ptr<uint8_t>());
  return bytes;
}

void FromBytes(const at::Tensor& bytes, Trace& trace) {
  const uint8_t* data = bytes.data_ptr<uint8_t>();
  Json json = Json::parse(data, data + bytes.numel());
  for (const Json& event : json[0]) {
    trace.events.push_back({event[0].get<int64_t>(), static_cast<Stream>(event[1].get<int>()),
                            event[2].get<std::string>(), event[3].get<std::string>(),
                            event[4].get<double>(), event[5].get<double>()});
  }
  for (const Json& counter : json[1]) {
    trace.counters.push_back({counter[0].get<int64_t>(), counter[1].get<std::string>(),
                              counter[2].get<double>(), counter[3].get<double>()});
  }
}

// Everyone's events and counters on the first device.
Trace Gather(Transport& transport, const Trace& mine) {
  constexpr int kTag = 1 << 20;
  Trace all = mine;
  if (transport.rank() != 0) {
    at::Tensor bytes = ToBytes(mine);
    at::Tensor size = at::tensor({bytes.numel()}, at::kLong);
    Ticket first = transport.Send(0, kTag, size), second = transport.Send(0, kTag, bytes);
    transport.Wait(first);
    transport.Wait(second);
    return {};
  }
  for (int rank = 1; rank < transport.size(); ++rank) {
    at::Tensor size = at::zeros({1}, at::kLong);
    Ticket first = transport.Recv(rank, kTag, size);
    transport.Wait(first);
    at::Tensor bytes = at::empty({size[0].item<int64_t>()}, at::kByte);
    Ticket second = transport.Recv(rank, kTag, bytes);
    transport.Wait(second);
    FromBytes(bytes, all);
  }
  return all;
}

// What is sent of gradients has no index: all ranks must keep the same weights.
void RequireOneMask(const Mask& mask, Transport& transport, GroupHandle all) {
  auto own = static_cast<int64_t>(mask.hash() >> 1);
  int64_t largest = Largest(transport, all, own), smallest = -Largest(transport, all, -own);
  if (largest == smallest) return;
  throw CommonInputError(
      fmt::format("{}: ranks have unlike masks: give all of them the same file", mask.path()));
}

std::string DescribeSkip(const StepRecord& record) {
  if (record.loss_scale > 0) {
    return fmt::format("step {} was skipped: f16 gradients overflowed; the loss scale is now {:g}",
                       record.step, record.loss_scale);
  }
  return fmt::format(
      "step {} was skipped: its gradients are not finite (norm {}), its loss is {:g}", record.step,
      record.grad_norm, record.loss);
}

// Losses of what is held out, on the weights as they are.
class HeldOut {
 public:
  HeldOut(const TrainInputs& inputs, const TrainOptions& options, Executor& trained)
      : options_(options.evaluation), steps_(options.steps) {
    if (inputs.forward == nullptr) return;
    executor_.emplace(
        *inputs.forward, trained,
        [data = inputs.held_out](int64_t batch, Block rows) { return data->Rows(batch, rows); });
  }

  bool IsDue(int64_t done) const {
    return executor_ && (done % options_.every == 0 || done == steps_);
  }

  HeldOutLoss Measure(int64_t done) {
    HeldOutLoss evaluation{.step = done};
    for (int64_t batch = 0; batch < options_.batches; ++batch) {
      StepRecord record = executor_->RunStep(batch);
      evaluation.loss += record.loss;
      evaluation.seconds += record.seconds;
    }
    evaluation.loss /= static_cast<double>(options_.batches);
    return evaluation;
  }

  // Steps up to the last that nothing is measured between.
  int64_t UndisturbedSteps() const {
    return executor_ ? (steps_ - 1) % options_.every + 1 : steps_;
  }

 private:
  HeldOutOptions options_;
  int64_t steps_;
  std::optional<Executor> executor_;
};

// What all devices measured, on each of them.
void Measure(Executor& executor, Transport& transport, GroupHandle all, const TrainOptions& options,
             int64_t peak_memory, TrainSummary& summary) {
  // One and the same step on all devices: the first one's.
  int64_t median = transport.rank() == 0 ? static_cast<int64_t>(MedianStep(summary.steps)) : -1;
  summary.median_step = static_cast<size_t>(Largest(transport, all, median));
  auto steps_run = static_cast<int64_t>(summary.steps.size());
  summary.fetched_bytes = executor.host_traffic().fetched / steps_run;
  summary.evicted_bytes = executor.host_traffic().evicted / steps_run;
  DeviceMeasurement mine;
  const std::vector<double>& seconds = summary.steps[summary.median_step].kind_seconds;
  std::copy(seconds.begin(), seconds.end(), mine.kind_seconds.begin());
  mine.peak_memory_bytes = peak_memory;
  if (!options.device.is_cpu()) mine.reserved_bytes = MemoryOf(options.device).reserved;
  mine.state = executor.StateMemory();
  summary.devices = ShareMeasurements(transport, all, mine);
  for (const DeviceMeasurement& device : summary.devices) {
    summary.peak_memory_bytes = std::max(summary.peak_memory_bytes, device.peak_memory_bytes);
    summary.reserved_bytes = std::max(summary.reserved_bytes, device.reserved_bytes);
    if (device.state.total() > summary.state.total()) summary.state = device.state;
  }
  summary.peak_process_bytes = Largest(transport, all, PeakProcessBytes());
  if (options.trace) summary.trace = Gather(transport, executor.trace());
}

TrainSummary Train(const TrainInputs& inputs, const TrainOptions& options, Transport& transport,
                   const std::function<void(const StepRecord&)>& on_step,
                   const std::function<void(const HeldOutLoss&)>& on_evaluation) {
  SetKernelThreads(options.threads);
  RunCheckpoints checkpoints(options.checkpoint, inputs.run, transport);
  CheckpointReader* from = checkpoints.resumed();
  if (from != nullptr) from->RequireModel(inputs.program.model.graph);
  WeightSource weights = inputs.weights;
  if (from != nullptr) {
    weights = [from](const std::string& name) {
      return ToTorchTensor(*from->Whole(StateKind::kWeights, name));
    };
  }
  std::vector<int> ranks(static_cast<size_t>(transport.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  GroupHandle all = transport.AddGroup(ranks);
  if (options.mask != nullptr) RequireOneMask(*options.mask, transport, all);
  Executor executor(inputs.program, transport, ToExecutor(options), weights, inputs.constants,
                    [&](int64_t step, Block rows) { return inputs.data.Rows(step, rows); });
  if (from != nullptr) executor.Restore(*from);
  HeldOut held_out(inputs, options, executor);
  TrainSummary summary;
  auto evaluate = [&](int64_t done) {
    if (!held_out.IsDue(done)) return;
    summary.evaluations.push_back(held_out.Measure(done));
    if (transport.rank() == 0) on_evaluation(summary.evaluations.back());
  };
  int64_t peak_memory = 0;
  summary.first_step = checkpoints.first_step();
  RankSlot* saver = options.checkpoint.folder.empty() ? nullptr : options.slot;
  if (options.slot != nullptr) {
    options.slot->first_step.store(summary.first_step);
    options.slot->step.store(summary.first_step);
  }
  if (options.kernels) {
    int64_t most = std::min<int64_t>(3, held_out.UndisturbedSteps());
    summary.kernel_steps = std::clamp<int64_t>(options.steps - summary.first_step, 0, most);
  }
  if (transport.rank() == 0 && options.on_start) options.on_start();
  if (summary.first_step == 0) evaluate(0);  // else the run before has
  for (int64_t step = summary.first_step; step < options.steps; ++step) {
    if (options.kernels && step == options.steps - summary.kernel_steps) StartKernelTimes();
    StepRecord record = executor.RunStep(step);
    record.process_bytes = PeakProcessBytes();
    peak_memory = std::max(peak_memory, record.peak_memory_bytes);
    if (record.skipped) ++summary.skipped_steps;
    if (record.skipped && transport.rank() == 0) LogInfo("{}", DescribeSkip(record));
    summary.steps.push_back(record);
    if (transport.rank() == 0) on_step(record);
    if (options.kernels && step + 1 == options.steps) summary.kernels = StopKernelTimes();
    evaluate(step + 1);
    SavingScope saving(saver);
    checkpoints.AfterStep(record, step + 1 == options.steps, [&] { return executor.State(); });
    if (options.stop != nullptr && Largest(transport, all, options.stop->load() ? 1 : 0) != 0) {
      checkpoints.Save(step, [&] { return executor.State(); });
      break;
    }
  }
  summary.not_captured = executor.not_captured();
  {
    SavingScope saving(saver);
    summary.not_saved = checkpoints.Finish();
  }
  summary.saves = checkpoints.saves();
  summary.save_every = checkpoints.every();
  summary.save_seconds = checkpoints.save_seconds();
  summary.save_cost = checkpoints.save_cost();
  summary.advised_interval = checkpoints.interval();
  if (options.slot != nullptr) options.slot->Enter(RankPhase::kEnding);
  if (summary.steps.empty()) return summary;
  Measure(executor, transport, all, options, peak_memory, summary);
  return summary;
}

}  // namespace

ExecutorOptions ToExecutor(const TrainOptions& options) {
  ExecutorOptions executor;
  executor.seed = options.seed;
  executor.optimizer = options.optimizer;
  executor.clip_norm = options.clip_norm;
  executor.lr = [lr = options.lr](int64_t step) { return lr.At(step); };
  executor.trace = options.trace;
  executor.slot = options.slot;
  executor.device = options.device;
  executor.capture = options.capture;
  executor.mask = options.mask;
  executor.host = options.host;
  return executor;
}

size_t MedianStep(const std::vector<StepRecord>& steps) {
  std::vector<size_t> order(steps.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (order.empty()) return 0;
  auto middle = order.begin() + static_cast<std::ptrdiff_t>(order.size() / 2);
  std::nth_element(order.begin(), middle, order.end(), [&](size_t a, size_t b) {
    return std::pair(steps[a].seconds, a) < std::pair(steps[b].seconds, b);
  });
  return *middle;
}

TrainSummary TrainDevice(const TrainInputs& inputs, const TrainOptions& options,
                         Transport& transport,
                         const std::function<void(const StepRecord&)>& on_step,
                         const std::function<void(const HeldOutLoss&)>& on_evaluation) {
  try {
    return Train(inputs, options, transport, on_step, on_evaluation);
  } catch (const c10::Error& error) {
    ThrowRun("libtorch: {}", OneLine(error.what_without_backtrace()));
  }
}

}  // namespace heddle
