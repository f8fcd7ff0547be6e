#include "runtime/train.h"

#include <sys/resource.h>

#include <numeric>

#include "base/error.h"
#include "base/json.h"
#include "runtime/kernel_threads.h"

namespace heddle {
namespace {

int64_t PeakMemory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

int64_t Largest(Transport& transport, GroupHandle all, int64_t mine) {
  at::Tensor largest = at::tensor({mine}, at::kLong);
  Ticket ticket =
      transport.Start(CollectiveKind::kAllReduce, Reduction::kMax, all, largest, largest);
  transport.Wait(ticket);
  return largest[0].item<int64_t>();
}

at::Tensor ToBytes(const Trace& trace) {
  Json json = Json::array();
  for (const TraceEvent& event : trace.events) {
    json.push_back({event.device, static_cast<int>(event.stream), event.name, event.category,
                    event.start, event.end});
  }
  std::string text = json.dump();
  at::Tensor bytes = at::empty({static_cast<int64_t>(text.size())}, at::kByte);
  std::copy(text.begin(), text.end(), bytes.data_ptr<uint8_t>());
  return bytes;
}

void FromBytes(const at::Tensor& bytes, Trace& trace) {
  const uint8_t* data = bytes.data_ptr<uint8_t>();
  for (const Json& event : Json::parse(data, data + bytes.numel())) {
    trace.events.push_back({event[0].get<int64_t>(), static_cast<Stream>(event[1].get<int>()),
                            event[2].get<std::string>(), event[3].get<std::string>(),
                            event[4].get<double>(), event[5].get<double>()});
  }
}

// Everyone's events on the first device.
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

ExecutorOptions ToExecutor(const TrainOptions& options) {
  ExecutorOptions executor;
  executor.seed = options.seed;
  executor.optimizer = options.optimizer;
  executor.clip_norm = options.clip_norm;
  executor.measure_norm = true;
  executor.lr = [lr = options.lr](int64_t step) { return lr.At(step); };
  executor.trace = options.trace;
  return executor;
}

TrainSummary Train(const TrainInputs& inputs, const TrainOptions& options, Transport& transport,
                   const std::function<void(const StepRecord&)>& on_step) {
  SetKernelThreads(options.threads);
  Executor executor(inputs.program, transport, ToExecutor(options), inputs.weights,
                    inputs.constants,
                    [&](int64_t step, Block rows) { return inputs.data.Rows(step, rows); });
  std::vector<int> ranks(static_cast<size_t>(transport.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  GroupHandle all = transport.AddGroup(ranks);
  TrainSummary summary;
  for (int64_t step = 0; step < options.steps; ++step) {
    StepRecord record = executor.RunStep(step);
    record.peak_memory_bytes = PeakMemory();
    summary.steps.push_back(record);
    if (transport.rank() == 0) on_step(record);
  }
  summary.peak_memory_bytes = Largest(transport, all, PeakMemory());
  if (options.trace) summary.trace = Gather(transport, executor.trace());
  return summary;
}

}  // namespace

TrainSummary TrainDevice(const TrainInputs& inputs, const TrainOptions& options,
                         Transport& transport,
                         const std::function<void(const StepRecord&)>& on_step) {
  try {
    return Train(inputs, options, transport, on_step);
  } catch (const c10::Error& error) {
    ThrowRun("libtorch: {}", OneLine(error.what_without_backtrace()));
  }
}

}  // namespace heddle
