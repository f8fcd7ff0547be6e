#include "report/chrome_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <tuple>

#include "base/file.h"
#include "base/json.h"

namespace heddle {
namespace {

// A JSON string: control characters are escaped, invalid UTF-8 is replaced.
std::string Quote(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Microseconds with three decimals, that is, to the nanosecond.
std::string Microseconds(double seconds) { return fmt::format("{:.3f}", seconds * 1e6); }

// Lanes after the first are numbered after all streams, so that the first lane of a stream has the number of its
// stream.
int TrackOf(Stream stream, int lane) {
  return static_cast<int>(stream) + 1 + lane * static_cast<int>(kStreamNames.size());
}

std::string Line(const TraceEvent& event) {
  // The duration is computed from rounded ends, so that events that touch in seconds also touch in the file.
  double start = std::round(event.start * 1e9), end = std::round(event.end * 1e9);
  return fmt::format(
      R"({{"ph":"X","pid":{},"tid":{},"name":{},"cat":{},"ts":{:.3f},"dur":{:.3f}}})", event.device,
      TrackOf(event.stream, event.lane), Quote(event.name), Quote(event.category), start / 1e3,
      (end - start) / 1e3);
}

std::string Line(const TraceCounter& counter) {
  std::string name = Quote(counter.name);
  return fmt::format(R"({{"ph":"C","pid":{},"name":{},"ts":{},"args":{{{}:{}}}}})", counter.device,
                     name, Microseconds(counter.time), name, counter.value);
}

std::string DeviceName(const Trace& trace, int64_t device) {
  auto found = trace.alike.find(device);
  if (found == trace.alike.end() || found->second < 2) return fmt::format("device {}", device);
  return fmt::format("device {} (x{})", device, found->second);
}

std::string TrackName(Stream stream, int lane) {
  std::string_view name = NameOf(stream);
  return lane == 0 ? std::string(name) : fmt::format("{} {}", name, lane + 1);
}

std::vector<std::string> NameLines(const Trace& trace) {
  std::set<int64_t> devices;
  std::set<std::tuple<int64_t, Stream, int>> tracks;
  bool lanes = false;
  for (const TraceEvent& event : trace.events) {
    devices.insert(event.device);
    tracks.insert({event.device, event.stream, event.lane});
    lanes |= event.lane > 0;
  }
  for (const TraceCounter& counter : trace.counters) devices.insert(counter.device);
  std::vector<std::string> lines;
  auto add = [&](int64_t device, int track, std::string_view what, const std::string& value) {
    lines.push_back(fmt::format(R"({{"ph":"M","pid":{},{}"name":"{}_{}","args":{{"{}":{}}}}})",
                                device, track == 0 ? "" : fmt::format(R"("tid":{},)", track),
                                track == 0 ? "process" : "thread", what, what, value));
  };
  for (int64_t device : devices) {
    add(device, 0, "name", Quote(DeviceName(trace, device)));
    add(device, 0, "sort_index", fmt::to_string(device));
  }
  int place = 0;
  for (const auto& [device, stream, lane] : tracks) {
    int track = TrackOf(stream, lane);
    add(device, track, "name", Quote(TrackName(stream, lane)));
    if (lanes) add(device, track, "sort_index", fmt::to_string(place++));
  }
  return lines;
}

// Marks the longest events that fit into `bytes`, of equally long ones the earlier; returns the bytes they take.
size_t ChooseEvents(const Trace& trace, size_t bytes, std::vector<bool>& chosen) {
  std::vector<size_t> order(trace.events.size()), sizes(trace.events.size());
  std::iota(order.begin(), order.end(), size_t{0});
  size_t total = 0;
  for (size_t i = 0; i < sizes.size(); ++i) total += sizes[i] = Line(trace.events[i]).size() + 2;
  chosen.assign(trace.events.size(), total <= bytes);
  if (total <= bytes) return total;
  auto length = [&](size_t i) { return trace.events[i].end - trace.events[i].start; };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return length(a) > length(b); });
  size_t used = 0;
  for (size_t i : order) {
    if (used + sizes[i] > bytes) break;
    used += sizes[i];
    chosen[i] = true;
  }
  return used;
}

// Marks every n-th sample, with the smallest n for which they fit.
void ChooseSamples(const Trace& trace, size_t bytes, std::vector<bool>& chosen) {
  size_t total = 0;
  for (const TraceCounter& counter : trace.counters) total += Line(counter).size() + 2;
  chosen.assign(trace.counters.size(), total <= bytes);
  if (total <= bytes) return;
  size_t stride = bytes == 0 ? chosen.size() : total / bytes + 2;
  size_t used = 0;
  for (size_t i = 0; i < chosen.size(); i += stride) {
    used += Line(trace.counters[i]).size() + 2;
    if (used > bytes) return;
    chosen[i] = true;
  }
}

}  // namespace

void WriteChromeTrace(const Trace& given, std::ostream& out, size_t max_bytes) {
  Trace trace = given;
  ClipOverlaps(trace);
  constexpr size_t kFrame = 300;  // bytes around the lines, and the note on what is left out
  size_t names = kFrame;
  std::vector<std::string> lines = NameLines(trace);
  for (const std::string& line : lines) names += line.size() + 2;
  size_t room = max_bytes > names ? max_bytes - names : 0;
  std::vector<bool> events, samples;
  // If not everything fits, counters have an eighth of the room.
  size_t reserve = trace.counters.empty() ? 0 : room / 8;
  size_t used = ChooseEvents(trace, room - reserve, events);
  ChooseSamples(trace, room - used, samples);

  const char* separator = "\n";
  auto write = [&](const std::string& line) {
    out << separator << line;
    separator = ",\n";
  };
  out << R"({"traceEvents":[)";
  for (const std::string& line : lines) write(line);
  for (size_t i = 0; i < events.size(); ++i) {
    if (events[i]) write(Line(trace.events[i]));
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    if (samples[i]) write(Line(trace.counters[i]));
  }
  out << "\n],\"displayTimeUnit\":\"ms\"";
  auto left_out = [](const std::vector<bool>& chosen) {
    return std::count(chosen.begin(), chosen.end(), false);
  };
  if (left_out(events) + left_out(samples) > 0) {
    out << fmt::format(R"(,"heddle_left_out":{{"shortest_events":{},"counter_samples":{}}})",
                       left_out(events), left_out(samples));
  }
  out << "}\n";
}

void WriteChromeTrace(const Trace& trace, const std::string& path) {
  WriteFileAtomically(path, [&](std::ostream& out) { WriteChromeTrace(trace, out); });
}

}  // namespace heddle
