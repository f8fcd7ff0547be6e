// Memory and gradient policies: what is recomputed in backward, what lives on the host, how replicas agree on gradients,
// what ZeRO splits. Each has one table here with its names and with what other modules ask of it; options, help, screens
// and files read the table.
//
//   DefOf(RecomputePolicy::kSelective).name          "selective"
//   IsRecomputed(model, node, policy)                does backward run the node again?
//
// To add a policy of recomputation: a value and an entry here, and in policies.cc the function that says which nodes it
// recomputes, by the traits of their ops (ops/traits.h).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "plan/model.h"

namespace heddle {

// The names in a table, in its order.
template <typename Def, size_t count>
constexpr std::array<std::string_view, count> NamesIn(const std::array<Def, count>& table) {
  std::array<std::string_view, count> names;
  for (size_t i = 0; i < count; ++i) names[i] = table[i].name;
  return names;
}

// ---- Recomputation. Every block has a policy. They are in ascending order of the memory that they save.

enum class RecomputePolicy : uint8_t { kNone, kSelective, kFull };

bool RecomputesNothing(const Model& model, NodeId node);
// Products of two activations, such as the scores of attention, and the nodes between two such products.
bool RecomputesScores(const Model& model, NodeId node);
// All nodes of repeated blocks.
bool RecomputesBlocks(const Model& model, NodeId node);

struct RecomputeDef {
  RecomputePolicy policy;
  std::string_view name;
  std::string_view in_names;  // its words in the name of a plan; empty: the name does not mention it
  // Is the node recomputed? All such nodes of a block are recomputed together. Side nodes are never passed.
  bool (*recomputes)(const Model& model, NodeId node);
  // With spilled weights, are blocks of one node outside chains recomputed, too? Then a shard keeps no activations between its
  // visits.
  bool single_nodes_in_shards = false;
  double step = 1;  // approximate step time relative to a step without recomputation
};

inline constexpr std::array kRecomputePolicies = {
    RecomputeDef{RecomputePolicy::kNone, "none", "", RecomputesNothing},
    RecomputeDef{.policy = RecomputePolicy::kSelective,
                 .name = "selective",
                 .in_names = "some recomputed",
                 .recomputes = RecomputesScores,
                 .step = 1.03},
    // Forward is a third of a step and runs twice.
    RecomputeDef{.policy = RecomputePolicy::kFull,
                 .name = "full",
                 .in_names = "recomputed",
                 .recomputes = RecomputesBlocks,
                 .single_nodes_in_shards = true,
                 .step = 4.0 / 3},
};
inline constexpr auto kRecomputeNames = NamesIn(kRecomputePolicies);
// One value for each policy, by its number.
template <typename Value>
using PerRecomputePolicy = std::array<Value, kRecomputePolicies.size()>;

constexpr const RecomputeDef& DefOf(RecomputePolicy policy) {
  return kRecomputePolicies[static_cast<size_t>(policy)];
}
inline bool IsRecomputed(const Model& model, NodeId node, RecomputePolicy policy) {
  return DefOf(policy).recomputes(model, node);
}
// The policy that keeps the fewest activations.
constexpr RecomputePolicy kMostRecomputation = kRecomputePolicies.back().policy;

// ---- Offload: what is in host memory between its uses.

// kNone: nothing. kOptimizer: moments and master weights, which are fetched group by group for the update and evicted after
// it. kAll: weights, too, which are fetched shard by shard for each forward and backward (Stage::shard_starts) and updated as
// soon as their gradients are computed.
enum class Offload : uint8_t { kNone, kOptimizer, kAll };

struct OffloadDef {
  Offload offload;
  std::string_view name;
  std::string_view in_help;   // in the list of the option's help
  std::string_view in_words;  // in the name of a plan; empty: the name does not mention it
};

inline constexpr std::array kOffloads = {
    OffloadDef{Offload::kNone, "none", "none", ""},
    OffloadDef{Offload::kOptimizer, "optimizer", "optimizer (its state)", "optimizer on the host"},
    OffloadDef{Offload::kAll, "all", "or all (in shards)",
               "weights and optimizer on the host in shards"},
};
inline constexpr auto kOffloadNames = NamesIn(kOffloads);
constexpr const OffloadDef& DefOf(Offload offload) {
  return kOffloads[static_cast<size_t>(offload)];
}

// ---- How replicas agree on the gradient of a parameter.

// kReduce: all-reduce. kServer: one replica receives all gradients, updates and sends the weights (parameter server).
// kFactors: all-gather the two factors of the gradient, and every replica computes it (sufficient factor broadcasting).
enum class GradientSync : uint8_t { kReduce, kServer, kFactors };

struct GradientSyncDef {
  GradientSync sync;
  std::string_view name;
  std::string_view help;
  int most_zero;  // the highest ZeRO level with which it is possible
};

inline constexpr std::array kGradientSyncs = {
    GradientSyncDef{GradientSync::kReduce, "reduce", "all-reduce them", 3},
    GradientSyncDef{GradientSync::kServer, "server",
                    "one replica adds them up, updates and sends the weights", 1},
    GradientSyncDef{GradientSync::kFactors, "factors",
                    "all-gather the factors of a gradient, where it has some, and compute it whole",
                    1},
};
inline constexpr auto kGradientSyncNames = NamesIn(kGradientSyncs);
constexpr const GradientSyncDef& DefOf(GradientSync sync) {
  return kGradientSyncs[static_cast<size_t>(sync)];
}

// ---- ZeRO levels. Each splits what the levels below it split, and one thing more.

struct ZeroDef {
  std::string_view splits;
};

inline constexpr std::array kZeroLevels = {ZeroDef{"nothing"}, ZeroDef{"optimizer state"},
                                           ZeroDef{"gradients"}, ZeroDef{"weights"}};
constexpr int kMostZero = static_cast<int>(kZeroLevels.size()) - 1;
constexpr bool SplitsState(int zero) { return zero >= 1; }
constexpr bool SplitsGradients(int zero) { return zero >= 2; }
constexpr bool SplitsWeights(int zero) { return zero >= 3; }

// ---- Names of policies.

constexpr std::string_view Name(RecomputePolicy policy) { return DefOf(policy).name; }
constexpr std::string_view Name(Offload offload) { return DefOf(offload).name; }
constexpr std::string_view Name(GradientSync sync) { return DefOf(sync).name; }

// Help texts of the options.
std::string RecomputeHelp();
std::string OffloadHelp();
std::string SyncHelp();
std::string ZeroHelp();

}  // namespace heddle
