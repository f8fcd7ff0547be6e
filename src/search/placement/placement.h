// The space of the tree search: which device groups execute which part of a model, and how.
//
// The model's blocks are cut into a few consecutive *units*. Every unit gets an *action*: a set of
// device groups and a way to use them. Units that share a parameter are decided together. A
// *strategy* is an action per decision; neighbouring units with the same action form one stage. A
// stage has no further choices: shares of the batch follow the speed of the devices, and the exact
// solver determines the strategies of nodes.
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
  kReplicate,  // each device has a share of the batch; gradients are all-reduced
  kServer,     // the same, but one device collects gradients and updates for all
  kTensor,     // machines have shares, nodes are split over the devices of a machine
  kPipeline,   // consecutive blocks over the groups, or over the devices of one group
  kDuplicate,  // every device computes everything; no communication
};
constexpr std::array<std::string_view, 5> kWayNames = {"replicate", "server", "tensor", "pipeline",
                                                       "duplicate"};

struct Action {
  uint32_t groups = 1;  // a bit set
  Way way = Way::kReplicate;
  bool operator==(const Action&) const = default;
};

struct PlacementUnit {
  int first_block = 0, last_block = 0;  // [first, last)
  int decision = 0;
  double flops = 0;       // of forward
  double parameters = 0;  // elements
  double handed_on = 0;   // bytes that later units read from it, for the whole batch
};

// Choices that a strategy does not contain.
struct Policy {
  int64_t microbatches = 1;
  int zero = 0;
  RecomputePolicy recompute = RecomputePolicy::kNone;
};

// An index into actions() per decision.
using PlacementStrategy = std::vector<int>;

class Placements {
 public:
  // The problem must outlive it; so must `model`, the problem's model in the compute type.
  Placements(const SearchTask& task, const Model& model);

  const std::vector<DeviceGroup>& groups() const { return groups_; }
  const std::vector<PlacementUnit>& units() const { return units_; }
  const std::vector<std::vector<int>>& decisions() const {
    return decisions_;
  }  // units of each decision; the heaviest decision first
  const std::vector<Action>& actions() const { return actions_; }
  const BlockTimes& times() const { return times_; }
  const SearchTask& task() const { return task_; }
  const Model& model() const { return model_; }
  std::string ToString(const Action& action) const;

  // All devices, replicated.
  PlacementStrategy Everywhere() const { return PlacementStrategy(decisions_.size(), 0); }

  // A sound plan except for the model's source. Nothing where impossible: too few samples, or a
  // parameter stored in two ways.
  std::optional<Plan> ToPlan(const PlacementStrategy& strategy, const Policy& policy) const;

  // A plan with one stage whose data axis is replaced by one over all of these groups, with shares
  // by speed. Nothing where the plan has more stages or the groups cannot be divided into its data
  // ranks. `most`: the most samples of a micro-batch for a rank of each type; empty: no limit.
  std::optional<Plan> Widened(const Plan& plan, uint32_t groups,
                              const std::vector<int64_t>& most = {}) const;

 private:
  struct Part {  // of a plan, before it becomes a stage
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

  // By device type and number of devices: prices of one machine.
  struct Machine {
    Cluster cluster;
    std::unique_ptr<Prices> prices;
  };
  mutable std::mutex mutex_;
  mutable std::map<std::pair<int, int64_t>, std::unique_ptr<Machine>> machines_;
};

}  // namespace heddle
