// Measured times of kernels and transfers on a device, as plain tables, and interpolation between the measured sizes.
//
//   TimeCurve copy{{{4096, 1e-6}, {1 << 20, 100e-6}}};
//   copy.SecondsAt(65536)                // between two points a power law
//   times.kernels.at("f32").tables[kProductTable].RateAt(512, 512, 128)
//
// The unit of a size is agreed between the code that measures and the code that reads: bytes that an op moves
// (ops/moved_bytes.h), elements that are updated, bytes that a rank gives.
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

// Seconds by size. Points are in ascending order of size; sizes and seconds are above 0.
struct TimeCurve {
  std::vector<TimePoint> points;

  bool empty() const { return points.empty(); }
  // Interpolates between two points by a power law. Below the first point it returns the seconds of that point; beyond
  // the last it scales with the size. The curve must not be empty.
  double SecondsAt(double size) const;
  friend bool operator==(const TimeCurve&, const TimeCurve&) = default;
};

// FLOP per second of a matrix product of m x n x k, on a grid.
struct RateTable {
  std::vector<double> m, n, k;  // axes, ascending
  std::vector<double> rates;    // row-major: m is the slowest index, k the fastest

  bool empty() const { return rates.empty(); }
  // Interpolates linearly in the logarithms; outside of the grid the nearest edge counts. The table must not be empty.
  double RateAt(double m, double n, double k) const;
  friend bool operator==(const RateTable&, const RateTable&) = default;
};

// For attention, m is the number of queries, n of keys, and k the width of a head. The work is four FLOP for each
// combination, masked or not, and twice that in backward.
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

// Times of an op's halves by the bytes that they move; for a convolution by its FLOP. Backward computes the gradients
// of all operands that have one.
struct OpTimes {
  TimeCurve forward, backward;
  friend bool operator==(const OpTimes&, const OpTimes&) = default;
};

// Times of kernels on one element type.
struct KernelTimes {
  std::array<RateTable, kTimeTableNames.size()> tables;
  std::map<std::string, OpTimes, std::less<>> ops;

  const RateTable& table(TimeTable which) const { return tables[static_cast<size_t>(which)]; }
  friend bool operator==(const KernelTimes&, const KernelTimes&) = default;
};

// Times that a rank measured while `ranks` ranks did the same on one machine and shared its caches, memory and cores.
struct LoadTimes {
  int64_t ranks = 1;
  // The fraction of a core that the rank got while it was busy. It is below 1 where a CPU quota limits the process or
  // there are more ranks than cores. The times below include this effect.
  double share = 1;
  // Whether the device replayed the kernels from a captured step (docs/gpu.md).
  bool captured = false;
  double launch = 0;    // seconds of a kernel that does almost nothing
  double view = 0;      // seconds of an op that only makes a view of memory
  double backward = 0;  // seconds of a call of autograd, without its kernels
  double host = 0;      // seconds of a captured step in which the device waits for the host
  TimeCurve copy;       // copying a tensor, by bytes read and written
  TimeCurve update;     // the optimizer step (AdamW), by elements
  std::map<std::string, TimeCurve, std::less<>>
      transfers;  // by kind of collective, and "message", each by bytes given
  std::map<std::string, KernelTimes, std::less<>> kernels;  // by element type
  friend bool operator==(const LoadTimes&, const LoadTimes&) = default;
};

}  // namespace heddle
