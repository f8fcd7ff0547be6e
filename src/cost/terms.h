// The terms of a duration. A cost is a sum of terms, and each term is proportional to one constant of constants.h. A
// simulated step can therefore show what it spends time on, and constants can be fitted to measured steps.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace heddle {

enum class Term : uint8_t {
  kProducts,   // matrix products and convolutions, at the rate of their type
  kFp8,        // matrix products in fp8
  kAttention,  // fused attention
  kTraffic,    // kernels that only move memory
  kLaunch,     // starting kernels
  kOptimizer,  // the optimizer step
  kNear,       // bytes over the links inside a node
  kFar,        // bytes over the links between nodes
  kLatency,    // latencies of messages
  kHost,       // overhead per step and per micro-batch: data, logging, the framework
};
constexpr std::array<std::string_view, 10> kTermNames = {
    "products",  "fp8 products", "attention",   "memory traffic", "launches",
    "optimizer", "inner links",  "outer links", "latency",        "host"};
constexpr size_t kTermCount = kTermNames.size();

// Seconds by term.
struct Terms {
  std::array<double, kTermCount> seconds = {};

  double& operator[](Term term) { return seconds[static_cast<size_t>(term)]; }
  double operator[](Term term) const { return seconds[static_cast<size_t>(term)]; }
  Terms& operator+=(const Terms& other) {
    for (size_t t = 0; t < kTermCount; ++t) seconds[t] += other.seconds[t];
    return *this;
  }
  double total() const {
    double sum = 0;
    for (double s : seconds) sum += s;
    return sum;
  }
  bool operator==(const Terms&) const = default;
};

}  // namespace heddle
