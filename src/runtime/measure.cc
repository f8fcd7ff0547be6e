#include "runtime/measure.h"

#include <sys/resource.h>

#include <algorithm>
#include <numeric>
#include <type_traits>
#include <utility>

#include "base/json.h"
#include "runtime/accelerator.h"

namespace heddle {
namespace {

// Visits the numbers of a measurement in the order in which they are shared.
template <typename Measurement, typename Visit>
void EachNumber(Measurement& of, const Visit& visit) {
  for (auto& seconds : of.kind_seconds) visit(seconds);
  visit(of.peak_memory_bytes);
  visit(of.reserved_bytes);
  for (auto* bytes : {&of.state.weights, &of.state.gradients, &of.state.master, &of.state.moments,
                      &of.state.index})
    visit(*bytes);
}

// What every device measured, by device. Each device fills its own row of a table; the sum of the tables has all rows.
std::vector<DeviceMeasurement> AllMeasurements(Transport& transport, GroupHandle all,
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

// The events and counters of all devices, on the first one.
Trace GatherTraces(Transport& transport, const Trace& mine) {
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

}  // namespace

int64_t PeakProcessBytes() {
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

void ShareMeasurements(Executor& executor, Transport& transport, GroupHandle all, at::Device device,
                       int64_t peak_memory, bool trace, TrainSummary& summary) {
  // All devices take the same step: the first one's median.
  int64_t median = transport.rank() == 0 ? static_cast<int64_t>(MedianStep(summary.steps)) : -1;
  summary.median_step = static_cast<size_t>(Largest(transport, all, median));
  auto steps_run = static_cast<int64_t>(summary.steps.size());
  summary.fetched_bytes = executor.host_traffic().fetched / steps_run;
  summary.evicted_bytes = executor.host_traffic().evicted / steps_run;
  DeviceMeasurement mine;
  const std::vector<double>& seconds = summary.steps[summary.median_step].kind_seconds;
  std::copy(seconds.begin(), seconds.end(), mine.kind_seconds.begin());
  mine.peak_memory_bytes = peak_memory;
  if (!device.is_cpu()) mine.reserved_bytes = MemoryOf(device).reserved;
  mine.state = executor.StateMemory();
  summary.devices = AllMeasurements(transport, all, mine);
  for (const DeviceMeasurement& of : summary.devices) {
    summary.peak_memory_bytes = std::max(summary.peak_memory_bytes, of.peak_memory_bytes);
    summary.reserved_bytes = std::max(summary.reserved_bytes, of.reserved_bytes);
    if (of.state.total() > summary.state.total()) summary.state = of.state;
  }
  summary.peak_process_bytes = Largest(transport, all, PeakProcessBytes());
  if (trace) summary.trace = GatherTraces(transport, executor.trace());
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

}  // namespace heddle
