// By how much a property of the cluster would have to change for the slower of two plans to become the faster one.
//
//   for (Knob knob : kKnobs) std::optional<double> factor = FindFlip(knob, plan, other, cluster, options);
//
// A knob scales one property of a cluster. Everything else stays the same, including the two programs.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "program/program.h"
#include "sim/options.h"

namespace heddle {

enum class Knob : uint8_t { kInnerLinks, kOuterLinks, kProducts, kMemory };
constexpr std::array<Knob, 4> kKnobs = {Knob::kInnerLinks, Knob::kOuterLinks, Knob::kProducts,
                                        Knob::kMemory};
constexpr std::array<std::string_view, 4> kKnobNames = {"inner links", "outer links",
                                                        "matrix products", "device memory"};
constexpr std::string_view Name(Knob knob) { return kKnobNames[static_cast<size_t>(knob)]; }

constexpr double kMostScaled = 16;  // factors lie in [1/16, 16]

// Scales the bandwidth of links inside machines or between them, the rates of matrix products, or the bandwidth of
// device memory.
Cluster Scaled(Cluster cluster, Knob knob, double factor);

// The factor nearest to 1, to within a percent, at which the slower of the two programs is no longer slower. nullopt if
// the order is the same at all powers of two up to kMostScaled and down to its inverse. Simulates each program about 25
// times.
std::optional<double> FindFlip(Knob knob, const Program& a, const Program& b,
                               const Cluster& cluster, const SimOptions& options);

}  // namespace heddle
