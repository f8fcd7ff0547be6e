// A trace as the JSON that Perfetto (ui.perfetto.dev) and chrome://tracing open: a process per device, a thread per
// stream (and lane of it), a counter track for memory.
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

constexpr size_t kMaxTraceBytes = size_t{240} << 20;  // what viewers still open

// Times must be finite; overlaps are clipped (ClipOverlaps). Where the text would be longer than `max_bytes`, the
// shortest events are left out, then samples of counters evenly, and the trace says how many ("heddle_left_out").
// O(n log n), and a copy of the events.
void WriteChromeTrace(const Trace& trace, std::ostream& out, size_t max_bytes = kMaxTraceBytes);

// To a file, which is whole or not there. Throws InputError or RunError where it cannot be written.
void WriteChromeTrace(const Trace& trace, const std::string& path);

}  // namespace heddle
