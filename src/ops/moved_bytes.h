// What a half of a node moves, in bytes: the size by which the time of ops that only move memory is measured
// (`heddle calibrate`) and looked up (cost/).
#pragma once

#include <span>
#include <string_view>

#include "graph/graph.h"
#include "ops/rule.h"
#include "ops/traits.h"

namespace heddle {

// Among measured ops: the sum over rows that is the gradient of a bias, by the bytes summed.
constexpr std::string_view kBiasGradient = "gradient of a bias";

// Does the op read only as much of operand 0 as there is in the result? Its gradient is as large as the operand.
bool ReadsRows(const OpTraits& traits);

// Operands and results together; forward, of an op that reads rows, only those.
double MovedBytes(const Graph& graph, const Node& node, const Rule& rule,
                  std::span<const Block> blocks, bool backward);

}  // namespace heddle
