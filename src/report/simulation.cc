#include "report/simulation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "base/units.h"
#include "cluster/topology.h"
#include "plan/describe.h"
#include "report/memory_chart.h"
#include "report/timetable.h"

namespace heddle {
namespace {

constexpr size_t kMostClasses = 8;  // rows of the table

const DeviceType& TypeAt(const Cluster& cluster, int64_t device) {
  return cluster.type(TypeOf(cluster, DeviceId{static_cast<int32_t>(device)}));
}

std::string Text(int64_t bytes) { return FormatBytes(Bytes{bytes}); }
std::string Time(double seconds) { return FormatSeconds(Seconds{seconds}); }
std::string Percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string SlowText(const Slow& slow) {
  return fmt::format("{} {} ({:g} x)", slow.link ? "the links of device" : "device", slow.device,
                     slow.factor);
}

std::string Head(const SimulationReport& r) {
  double seconds = r.result.step_seconds;
  std::string text = fmt::format("{} on {}: {} of {} devices\n", r.model, r.cluster, r.size.devices,
                                 r.cluster_devices);
  text += fmt::format("  plan         {}, batch {}\n", r.plan, r.batch);
  text += fmt::format("  step         {} (simulated, stack '{}')\n", Time(seconds), r.stack);
  double rate = seconds > 0 ? r.size.tokens / seconds : 0;
  text += fmt::format("  throughput   {} {}/s, MFU {}, HFU {}\n", FormatCount(rate),
                      r.size.is_tokens ? "tokens" : "samples", Percent(r.mfu()), Percent(r.hfu()));
  text += fmt::format("  waiting      bubble {}, exposed communication {}\n",
                      Percent(r.result.bubble), Percent(r.result.exposed_communication));
  if (r.slow.empty()) return text;
  std::vector<std::string> names;
  for (const Slow& slow : r.slow) names.push_back(SlowText(slow));
  text += fmt::format("  slow         {}", fmt::join(names, ", "));
  if (r.even_step_seconds && *r.even_step_seconds > 0) {
    text += fmt::format(": {:+.1f} % over {} without", 100 * (seconds / *r.even_step_seconds - 1),
                        Time(*r.even_step_seconds));
  }
  return text + "\n";
}

std::string Memory(const SimulationReport& r) {
  const MemoryKinds& kinds = r.worst.memory;
  int64_t allocated = r.result.peak_memory_bytes, reserved = r.result.reserved_memory_bytes;
  std::string text =
      fmt::format("\n  memory of device {}, which needs most, at its peak\n", r.worst.device);
  text += fmt::format("  weights {}, gradients {}, optimizer {}, activations {}, buffers {}\n",
                      Text(kinds.weights), Text(kinds.gradients), Text(kinds.optimizer),
                      Text(kinds.activations), Text(kinds.buffers));
  double capacity = static_cast<double>(std::max<int64_t>(r.capacity, 1));
  text += fmt::format("  allocated {} ({} of the {} of {}), reserved by the allocator {} ({})\n",
                      Text(allocated), Percent(static_cast<double>(allocated) / capacity),
                      Text(r.capacity), r.worst_type, Text(reserved),
                      Percent(static_cast<double>(reserved) / capacity));
  if (!r.fits()) {
    text += fmt::format(
        "  DOES NOT FIT: {} of {} devices have too little memory, device {} by {}; try more --tp, "
        "--pp or --zero,\n                --recompute, or smaller micro-batches\n",
        r.devices_too_small, r.size.devices, r.worst.device,
        Text(std::max<int64_t>(allocated - r.capacity, 0)));
  } else if (reserved > r.capacity) {
    text += "  tight: the allocator would have to free cached memory and allocate again\n";
  }
  text += fmt::format(
      "\n  device {}'s memory over the step: w weights, g gradients, o optimizer, a activations, b "
      "buffers{}\n",
      r.worst.device, r.fits() ? "" : "; upper case: more than there is");
  return text + MemoryChart(r.memory, r.result.step_seconds, r.capacity, 108, 9);
}

std::string ClassTable(const SimulationReport& r) {
  const std::vector<DeviceResult>& devices = r.result.devices;
  if (devices.size() < 2) return "";
  std::string text = fmt::format("\n  {:<10} {:>7} {:>10} {:>10} {:>10} {:>12}\n", "device",
                                 "alike", "computes", "exposed", "bubble", "memory");
  for (size_t d = 0; d < devices.size(); ++d) {
    if (devices.size() > kMostClasses && d == kMostClasses - 1) {
      d = devices.size() - 1;
      text += fmt::format("  ... {} more\n", devices.size() - kMostClasses);
    }
    const DeviceResult& at = devices[d];
    text += fmt::format("  {:<10} {:>7} {:>10} {:>10} {:>10} {:>12}\n", at.device, at.count,
                        Time(at.compute), Time(at.exposed), Time(at.bubble), Text(at.peak_memory));
  }
  return text;
}

std::string Indented(const std::string& lines) {
  std::string text;
  for (size_t at = 0; at < lines.size();) {
    size_t end = std::min(lines.find('\n', at), lines.size() - 1);
    text += "  " + lines.substr(at, end + 1 - at);
    at = end + 1;
  }
  return text;
}

Json KindsJson(const MemoryKinds& kinds) {
  return {{"weights", kinds.weights},
          {"gradients", kinds.gradients},
          {"optimizer", kinds.optimizer},
          {"activations", kinds.activations},
          {"buffers", kinds.buffers}};
}

}  // namespace

double SimulationReport::mfu() const {
  double most = size.peak_flops * result.step_seconds;
  return most > 0 ? size.flops / most : 0;
}

double SimulationReport::hfu() const {
  double most = size.peak_flops * result.step_seconds;
  return most > 0 ? (size.flops + result.recomputed_flops) / most : 0;
}

std::string CriticalPath(const SimResult& result) {
  constexpr double kBar = 50;
  std::vector<size_t> order(kTermCount);
  std::iota(order.begin(), order.end(), size_t{0});
  const auto& seconds = result.critical.seconds;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return seconds[a] > seconds[b]; });
  std::string text = "\n  the critical path, from the first instruction to the last\n";
  for (size_t t : order) {
    double share = result.step_seconds > 0 ? seconds[t] / result.step_seconds : 0;
    if (share < 0.0005) continue;
    std::string bar(static_cast<size_t>(kBar * std::clamp(share, 0.0, 1.0) + 0.5), '#');
    std::string line = fmt::format("  {:<16} {:>9} {:>8}  {}", kTermNames[t], Time(seconds[t]),
                                   Percent(share), bar);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

SimulationReport MakeReport(const Model& model, const Plan& plan, const Program& program,
                            const Simulation& simulation, const SimOptions& options) {
  SimulationReport r;
  r.model = model.graph.name;
  r.cluster = plan.cluster.name;
  r.cluster_devices = DeviceCount(plan.cluster);
  r.plan = DescribePlan(plan);
  r.batch = plan.batch;
  r.size = SizeOfStep(model, plan);
  r.stack = options.stack.name;
  r.slow = options.slow;
  r.result = simulation.result;
  for (const DeviceResult& at : r.result.devices) {
    if (at.device == r.result.worst_device) r.worst = at;
    int64_t capacity = TypeAt(plan.cluster, at.device).memory.value;
    if (at.peak_memory > capacity) r.devices_too_small += at.count;
  }
  const DeviceType& type = TypeAt(plan.cluster, r.result.worst_device);
  r.worst_type = type.name;
  r.capacity = type.memory.value;
  r.memory = MemoryOverTime(MemoryModel(program, HabitsOf(options)), simulation.prepared,
                            simulation.timeline, r.result.worst_device);
  r.timetable = TimetableOf(program, simulation.prepared, simulation.timeline);
  return r;
}

std::string Screen(const SimulationReport& r) {
  std::string text = Head(r) + CriticalPath(r.result) + Memory(r) + ClassTable(r);
  text += "\n  who does what when\n" + Indented(r.timetable);
  text += fmt::format("\n  {} events of {} kinds of devices in {}; lowered in {}\n",
                      FormatCount(static_cast<double>(r.result.events)), r.result.devices.size(),
                      Time(r.result.simulate_seconds), Time(r.lower_seconds));
  if (!r.trace.empty()) {
    text += fmt::format("  trace written to {}: open it at https://ui.perfetto.dev\n", r.trace);
  }
  return text;
}

Json ToJson(const SimulationReport& r) {
  const SimResult& result = r.result;
  Json json;
  json["simulated"] = true;
  json["model"] = r.model;
  json["cluster"] = r.cluster;
  json["plan"] = r.plan;
  json["devices"] = r.size.devices;
  json["batch"] = r.batch;
  json["stack"] = r.stack;
  json["step_seconds"] = result.step_seconds;
  double rate = result.step_seconds > 0 ? r.size.tokens / result.step_seconds : 0;
  json[r.size.is_tokens ? "tokens_per_second" : "samples_per_second"] = rate;
  json["mfu"] = r.mfu();
  json["hfu"] = r.hfu();
  json["model_flops"] = r.size.flops;
  json["recomputed_flops"] = result.recomputed_flops;
  json["executed_flops"] = result.flops;
  json["bubble"] = result.bubble;
  json["exposed_communication"] = result.exposed_communication;
  for (size_t t = 0; t < kTermCount; ++t) {
    json["critical"][std::string(kTermNames[t])] = result.critical.seconds[t];
  }
  json["feasible"] = r.fits();
  json["worst_device"] = result.worst_device;
  json["peak_memory_bytes"] = result.peak_memory_bytes;
  json["reserved_memory_bytes"] = result.reserved_memory_bytes;
  json["memory_limit_bytes"] = r.capacity;
  json["memory"] = KindsJson(r.worst.memory);
  json["classes"] = Json::array();
  for (const DeviceResult& at : result.devices) {
    json["classes"].push_back({{"device", at.device},
                               {"count", at.count},
                               {"compute_seconds", at.compute},
                               {"exposed_seconds", at.exposed},
                               {"bubble_seconds", at.bubble},
                               {"peak_memory_bytes", at.peak_memory},
                               {"memory", KindsJson(at.memory)}});
  }
  json["slow"] = Json::array();
  for (const Slow& slow : r.slow) {
    json["slow"].push_back({{slow.link ? "link" : "device", slow.device}, {"factor", slow.factor}});
  }
  if (r.even_step_seconds) json["even_step_seconds"] = *r.even_step_seconds;
  json["events"] = result.events;
  json["simulate_seconds"] = result.simulate_seconds;
  json["prepare_seconds"] = result.prepare_seconds;
  json["lower_seconds"] = r.lower_seconds;
  json["load_seconds"] = r.load_seconds;
  if (!r.trace.empty()) json["trace"] = r.trace;
  return json;
}

}  // namespace heddle
