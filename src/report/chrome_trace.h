// A trace as JSON that Perfetto (ui.perfetto.dev) and chrome://tracing open: a process per device, a thread per stream
// and lane, a counter track for memory.
//
//   {"traceEvents":[
//   {"ph":"M","pid":0,"name":"process_name","args":{"name":"device 0 (x64)"}},
//   {"ph":"X","pid":0,"tid":1,"name":"F seg0 mb0","cat":"forward","ts":0.000,"dur":12.500},
//   {"ph":"C","pid":0,"name":"memory","ts":0.000,"args":{"memory":4096}}
//   ],"displayTimeUnit":"ms"}
//
// Format: "Trace Event Format", Google, the JSON object form; times in microseconds.
#pragma once

#include <cstddef>
#include <ostream>
#include <string>

#include "program/trace.h"

namespace heddle {

constexpr size_t kMaxTraceBytes = size_t{240} << 20;  // viewers fail on larger files

// Times must be finite; overlaps are clipped (ClipOverlaps). If the text would be longer than `max_bytes`, the shortest
// events are left out, and so are counter samples at even distances; "heddle_left_out" in the trace says how many.
// O(n log n); copies the events.
void WriteChromeTrace(const Trace& trace, std::ostream& out, size_t max_bytes = kMaxTraceBytes);

// Writes a file atomically. Throws InputError or RunError if it cannot be written.
void WriteChromeTrace(const Trace& trace, const std::string& path);

}  // namespace heddle
