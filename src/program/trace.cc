#include "program/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

namespace heddle {
namespace {

constexpr double kTolerance = 1e-9;  // seconds
constexpr size_t kMaxLines = 50;

bool SameTrack(const TraceEvent& a, const TraceEvent& b) {
  return a.device == b.device && a.stream == b.stream && a.lane == b.lane;
}

bool Before(const TraceEvent& a, const TraceEvent& b) {
  return std::tie(a.device, a.stream, a.lane, a.start, a.end) <
         std::tie(b.device, b.stream, b.lane, b.start, b.end);
}

std::string Place(const TraceEvent& event) {
  return fmt::format("device {}, {}{}, '{}'", event.device, NameOf(event.stream),
                     event.lane == 0 ? "" : fmt::format(" {}", event.lane + 1), event.name);
}

bool IsTime(double seconds) { return std::isfinite(seconds) && seconds >= 0; }

}  // namespace

std::string Category(const Program& program, const Instruction& instruction) {
  bool run = instruction.op == Opcode::kRun, reshard = instruction.op == Opcode::kReshard;
  if (run && instruction.recompute) return "recompute";
  if (run && instruction.half != Half::kF) return "backward";
  if (reshard && StreamOf(program, instruction) == Stream::kCompute) return "local";
  return std::string(DefOf(instruction.op).category);
}

std::vector<std::string> Verify(const Trace& trace) {
  std::vector<std::string> lines;
  auto add = [&](std::string line) {
    if (lines.size() < kMaxLines) lines.push_back(std::move(line));
  };
  std::vector<const TraceEvent*> events;
  for (const TraceEvent& event : trace.events) {
    if (!IsTime(event.start) || !IsTime(event.end)) {
      add(fmt::format("{}: from {} s to {} s is not a valid time", Place(event), event.start,
                      event.end));
    } else if (event.end < event.start) {
      add(fmt::format("{}: ends at {} s, before its start at {} s", Place(event), event.end,
                      event.start));
    } else {
      events.push_back(&event);
    }
  }
  for (const TraceCounter& counter : trace.counters) {
    if (IsTime(counter.time) && std::isfinite(counter.value)) continue;
    add(fmt::format("device {}, counter '{}': {} at {} s is not a valid sample", counter.device,
                    counter.name, counter.value, counter.time));
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const TraceEvent* a, const TraceEvent* b) { return Before(*a, *b); });
  const TraceEvent* last = nullptr;  // of the track, the one that ends latest
  for (const TraceEvent* event : events) {
    bool same = last != nullptr && SameTrack(*last, *event);
    if (same && event->start < last->end - kTolerance) {
      add(fmt::format("{}: starts at {} s, while '{}' lasts to {} s", Place(*event), event->start,
                      last->name, last->end));
    }
    if (!same || event->end > last->end) last = event;
  }
  return lines;
}

void AssignLanes(Trace& trace) {
  std::vector<size_t> order(trace.events.size());
  std::iota(order.begin(), order.end(), size_t{0});
  auto key = [&](size_t i) {
    const TraceEvent& at = trace.events[i];
    return std::tie(at.device, at.stream, at.start, at.end);
  };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  std::vector<double> free;  // per lane: when it is
  const TraceEvent* last = nullptr;
  for (size_t i : order) {
    TraceEvent& event = trace.events[i];
    if (last == nullptr || last->device != event.device || last->stream != event.stream)
      free.clear();
    last = &event;
    auto found =
        std::find_if(free.begin(), free.end(), [&](double at) { return at <= event.start; });
    event.lane = static_cast<int>(found - free.begin());
    if (found == free.end()) found = free.insert(found, 0);
    *found = event.end;
  }
}

void ClipOverlaps(Trace& trace) {
  std::stable_sort(trace.events.begin(), trace.events.end(), Before);
  for (size_t i = 1; i < trace.events.size(); ++i) {
    const TraceEvent& last = trace.events[i - 1];
    TraceEvent& event = trace.events[i];
    if (!SameTrack(last, event)) continue;
    event.start = std::max(event.start, last.end);
    event.end = std::max(event.end, event.start);
  }
  std::stable_sort(trace.counters.begin(), trace.counters.end(),
                   [](const TraceCounter& a, const TraceCounter& b) {
                     return std::tie(a.device, a.name, a.time) < std::tie(b.device, b.name, b.time);
                   });
}

}  // namespace heddle
