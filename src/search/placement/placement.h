// The space of the tree search: which device groups do which part of a model, and how.
//
// The model's blocks are cut into a few *units* in a row. Every unit is given an *action*: a set of device groups and a
// way to use them. Units with a parameter in common are decided together. A *strategy* is an action for every decision;
// neighbouring units with the same action are one stage. Inside a stage nothing is left to choose: shares of the batch
// follow the speed of devices, strategies of nodes are the exact solver's.
//
//   Placements space(problem, model);
//   Plan plan = *space.ToPlan(space.Everywhere(), {});     // data parallelism in proportion to speed
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "search/interface/proposal.h"
#include "search/placement/block_times.h"
#include "search/placement/device_groups.h"
#include "search/prices/prices.h"

namespace heddle {

enum class Way : uint8_t {
  kReplicate,  // each device a share of the batch; gradients are all-reduced
  kServer,     // the same; gradients go to one of them, which updates for all
  kTensor,     // machines a share each, nodes split over the devices of a machine
  kPipeline,   // blocks in a row over the groups, or over the devices of one
  kDuplicate,  // every device all of it, and nothing to exchange
};
constexpr std::array<std::string_view, 5> kWayNames = {"replicate", "server", "tensor", "pipeline",
                                                       "duplicate"};

struct Action {
  uint32_t groups = 1;  // a set, as bits
  Way way = Way::kReplicate;
  bool operator==(const Action&) const = default;
};

struct PlacementUnit {
  int first_block = 0, last_block = 0;  // [first, last)
  int decision = 0;
  double flops = 0;       // of forward
  double parameters = 0;  // elements
  double handed_on = 0;   // bytes of what the units after it read, for a whole batch
};

// What a strategy does not say.
struct Policy {
  int64_t microbatches = 1;
  int zero = 0;
  RecomputePolicy recompute = RecomputePolicy::kNone;
};

// An index into actions() for every decision.
using PlacementStrategy = std::vector<int>;

class Placements {
 public:
  // The problem must outlive it; `model` is its model of the compute type, and must too.
  Placements(const SearchTask& task, const Model& model);

  const std::vector<DeviceGroup>& groups() const { return groups_; }
  const std::vector<PlacementUnit>& units() const { return units_; }
  const std::vector<std::vector<int>>& decisions() const {
    return decisions_;
  }  // units, heaviest first
  const std::vector<Action>& actions() const { return actions_; }
  const BlockTimes& times() const { return times_; }
  const SearchTask& task() const { return task_; }
  const Model& model() const { return model_; }
  std::string ToString(const Action& action) const;

  // All devices, replicated.
  PlacementStrategy Everywhere() const { return PlacementStrategy(decisions_.size(), 0); }

  // Sound, but for the model's source. Nothing where it cannot be: too few samples, a parameter stored in two ways.
  std::optional<Plan> ToPlan(const PlacementStrategy& strategy, const Policy& policy) const;

  // A plan of one stage on some devices, its data axis over those of all these groups instead, with shares by speed.
  // Nothing where it has more stages, or the groups cannot be cut into its data ranks. `most`: samples of a micro-batch
  // that a rank of each type may have; empty: any.
  std::optional<Plan> Widened(const Plan& plan, uint32_t groups,
                              const std::vector<int64_t>& most = {}) const;

 private:
  struct Part {  // of a plan, on its way to being a stage
    int first_block = 0, last_block = 0;
    uint32_t groups = 0;
    Way way = Way::kReplicate;
    std::vector<int64_t> devices;
  };
  void CutUnits(const Model& model);
  void FindDecisions(const Model& model);
  void FindActions();
  std::vector<Part> PartsOf(const PlacementStrategy& strategy) const;
  void AddPipeline(const Part& part, std::vector<Part>& parts) const;
  void SetTimes(const Part& part, int64_t samples, int64_t devices, Stage& stage) const;
  std::optional<Stage> StageOf(const Part& part, const Policy& policy) const;
  bool SetServers(const std::vector<Part>& parts, const Policy& policy,
                  std::vector<Stage>& stages) const;
  bool SetData(const Part& part, int64_t samples, int64_t width, const std::vector<int64_t>& most,
               Mesh& mesh, std::vector<int64_t>& devices) const;
  std::vector<Strategy> TensorStrategies(const Part& part, int64_t samples, int64_t width) const;

  const SearchTask task_;
  const Model& model_;
  uint64_t hash_ = 0;
  BlockTimes times_;
  std::vector<DeviceGroup> groups_;
  std::vector<PlacementUnit> units_;
  std::vector<std::vector<int>> decisions_;
  std::vector<Action> actions_;

  // By type of device and how many: one machine's prices.
  struct Machine {
    Cluster cluster;
    std::unique_ptr<Prices> prices;
  };
  mutable std::mutex mutex_;
  mutable std::map<std::pair<int, int64_t>, std::unique_ptr<Machine>> machines_;
};

}  // namespace heddle
