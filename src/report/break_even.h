// What would have to change for the slower of two plans to win.
//
//   for (Knob knob : kKnobs) std::optional<double> factor = FindFlip(knob, plan, other, cluster, options);
//
// A knob scales one property of a cluster: everything else stays, and so do the two programs.
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

// The bandwidth of links inside nodes, or between them; the rates of matrix products; the bandwidth of devices' memory.
Cluster Scaled(Cluster cluster, Knob knob, double factor);

// The factor nearest to 1, to a percent, at which the one of two programs that is slower no longer is; none where the
// order stays as far as kMostScaled, looked at in powers of two. About 25 simulations of each.
std::optional<double> FindFlip(Knob knob, const Program& a, const Program& b,
                               const Cluster& cluster, const SimOptions& options);

}  // namespace heddle
