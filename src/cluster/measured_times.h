// How long kernels and transfers were measured to take on a device, as plain tables, and what they say between the
// sizes that were measured.
//
//   TimeCurve copy{{{4096, 1e-6}, {1 << 20, 100e-6}}};
//   copy.SecondsAt(65536)                // between two points a power law
//   times.kernels.at("f32").tables[kProductTable].RateAt(512, 512, 128)
//
// What a size is, is said by who measures and who reads: bytes that an op moves (ops/moved_bytes.h), elements that
// are updated, bytes that a rank gives.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

struct TimePoint {
  double size = 0, seconds = 0;
  friend bool operator==(const TimePoint&, const TimePoint&) = default;
};

// Seconds by size. Points rise in size; sizes and seconds are above 0.
struct TimeCurve {
  std::vector<TimePoint> points;

  bool empty() const { return points.empty(); }
  // Between two points a power law; below the first its seconds, beyond the last its seconds per unit of size. The
  // curve must not be empty.
  double SecondsAt(double size) const;
  friend bool operator==(const TimeCurve&, const TimeCurve&) = default;
};

// FLOP per second of a product of m x n x k, on a grid.
struct RateTable {
  std::vector<double> m, n, k;  // rising
  std::vector<double> rates;    // m major, k fastest

  bool empty() const { return rates.empty(); }
  // Linear in the logarithms; outside the grid what its edge has. The table must not be empty.
  double RateAt(double m, double n, double k) const;
  friend bool operator==(const RateTable&, const RateTable&) = default;
};

// Attention: m queries by n keys by k, the width of a head; four FLOP for each, masked or not, twice as many backward.
enum class TimeTable : uint8_t {
  kProduct,
  kAttention,
  kAttentionBackward,
  kCausal,
  kCausalBackward,
};
constexpr std::array<std::string_view, 5> kTimeTableNames = {
    "product", "attention forward", "attention backward", "causal attention forward",
    "causal attention backward"};

// An op's halves by the bytes they move, of a convolution by its FLOP. Backward is of all operands that have a
// gradient.
struct OpTimes {
  TimeCurve forward, backward;
  friend bool operator==(const OpTimes&, const OpTimes&) = default;
};

// Of one element type.
struct KernelTimes {
  std::array<RateTable, kTimeTableNames.size()> tables;
  std::map<std::string, OpTimes, std::less<>> ops;

  const RateTable& table(TimeTable which) const { return tables[static_cast<size_t>(which)]; }
  friend bool operator==(const KernelTimes&, const KernelTimes&) = default;
};

// What a rank measured while `ranks` of them did the same on one machine: they share caches, memory and cores.
struct LoadTimes {
  int64_t ranks = 1;
  // Of a core, that the rank got while it was busy: below 1 where a quota holds it down, or where there are more ranks
  // than cores. The times below have it in them.
  double share = 1;
  // Kernels were repeated by the device, as those of a captured step (docs/gpu.md).
  bool captured = false;
  double launch = 0;    // seconds of a kernel that does next to nothing
  double view = 0;      // seconds of an op that only looks at memory
  double backward = 0;  // seconds of a call of autograd, beside its kernels
  double host = 0;      // seconds of a captured step in which the device waits for the host
  TimeCurve copy;       // of a tensor, by bytes read and written
  TimeCurve update;     // of the optimizer (AdamW), by elements
  std::map<std::string, TimeCurve, std::less<>>
      transfers;  // by kind of collective, and "message": bytes given
  std::map<std::string, KernelTimes, std::less<>> kernels;  // by element type
  friend bool operator==(const LoadTimes&, const LoadTimes&) = default;
};

}  // namespace heddle
