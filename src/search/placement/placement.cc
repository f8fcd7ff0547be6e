#include "search/placement/placement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "ops/analysis.h"

namespace heddle {
namespace {

constexpr double kMostUnits = 12;
constexpr size_t kMostSets = 48;
// The most devices per server: with more, its link takes many times as long as an all-reduce.
constexpr int64_t kMostServed = 64;

// All sets of groups where they are few. Otherwise prefixes of groups with equal machines, and
// every single group.
std::vector<uint32_t> SetsOf(const std::vector<DeviceGroup>& groups) {
  uint32_t all = (uint32_t{1} << groups.size()) - 1;
  std::vector<uint32_t> sets = {all};
  auto canonical = [&](uint32_t set) {
    for (size_t g = 1; g < groups.size(); ++g) {
      bool alike = groups[g].type == groups[g - 1].type && groups[g].size() == groups[g - 1].size();
      if (alike && (set >> g & 1) != 0 && (set >> (g - 1) & 1) == 0) return false;
    }
    return true;
  };
  bool few = all <= kMostSets;
  for (uint32_t set = 1; set < all; ++set) {
    if (few || std::has_single_bit(set) || canonical(set)) sets.push_back(set);
  }
  return sets;
}

}  // namespace

Placements::Placements(const SearchTask& task, const Model& model)
    : task_(task),
      model_(model),
      hash_(StableHash(task.model.graph)),
      times_(task, model),
      groups_(FindDeviceGroups(task.cluster)) {
  CutUnits(model);
  FindDecisions(model);
  FindActions();
}

// Cuts blocks into consecutive units with equal shares of the model's flops and parameters.
void Placements::CutUnits(const Model& model) {
  std::vector<PlacementUnit> blocks;
  PlacementUnit total;
  std::set<ValueId> seen;
  for (size_t b = 0; b < model.blocks.size(); ++b) {
    PlacementUnit block{static_cast<int>(b), static_cast<int>(b) + 1};
    for (NodeId id : model.blocks[b].nodes) {
      const Node& node = model.graph.node(id);
      const Rule& rule = model.rules[id.index()];
      block.flops += NodeWork(node, rule, model.flow, WholeBlocks(rule)).forward.flops;
      for (ValueId v : node.operands) {
        const Value& value = model.graph.value(v);
        if (value.kind != ValueKind::kParameter || !seen.insert(v).second) continue;
        block.parameters += static_cast<double>(ElementCount(value.type.shape));
      }
      for (ValueId v : node.results) {
        bool away = std::any_of(
            model.readers[v.index()].begin(), model.readers[v.index()].end(),
            [&](NodeId reader) { return model.block_of[reader.index()] > static_cast<int>(b); });
        const TensorType& type = model.graph.value(v).type;
        if (away) block.handed_on += static_cast<double>(ByteCount(type));
      }
    }
    total.flops += block.flops;
    total.parameters += block.parameters;
    blocks.push_back(block);
  }
  auto weight = [&](const PlacementUnit& unit) {
    return unit.flops / std::max(1.0, total.flops) +
           unit.parameters / std::max(1.0, total.parameters);
  };
  double full = 2 / kMostUnits;
  for (const PlacementUnit& block : blocks) {
    bool joins = !units_.empty() && weight(units_.back()) + weight(block) / 2 < full;
    if (!joins) {
      units_.push_back(block);
      continue;
    }
    PlacementUnit& unit = units_.back();
    unit.last_block = block.last_block;
    unit.flops += block.flops;
    unit.parameters += block.parameters;
    unit.handed_on = block.handed_on;
  }
}

void Placements::FindDecisions(const Model& model) {
  std::vector<size_t> leader(units_.size());
  std::iota(leader.begin(), leader.end(), size_t{0});
  std::map<ValueId, size_t> first;
  for (size_t u = 0; u < units_.size(); ++u) {
    for (int b = units_[u].first_block; b < units_[u].last_block; ++b) {
      for (NodeId id : model.blocks[static_cast<size_t>(b)].nodes) {
        for (ValueId v : model.graph.node(id).operands) {
          if (model.graph.value(v).kind != ValueKind::kParameter) continue;
          size_t other = first.try_emplace(v, u).first->second;
          size_t from = leader[u], to = leader[other];
          if (from == to) continue;
          for (size_t& l : leader) l = l == from ? to : l;
        }
      }
    }
  }
  std::map<size_t, std::vector<int>> together;
  for (size_t u = 0; u < units_.size(); ++u) together[leader[u]].push_back(static_cast<int>(u));
  for (auto& [l, units] : together) decisions_.push_back(std::move(units));
  auto weight = [&](const std::vector<int>& units) {
    double sum = 0;
    for (int u : units) sum += units_[static_cast<size_t>(u)].flops;
    return sum;
  };
  std::stable_sort(decisions_.begin(), decisions_.end(),
                   [&](const auto& a, const auto& b) { return weight(a) > weight(b); });
  for (size_t d = 0; d < decisions_.size(); ++d) {
    for (int u : decisions_[d]) units_[static_cast<size_t>(u)].decision = static_cast<int>(d);
  }
}

void Placements::FindActions() {
  for (uint32_t set : SetsOf(groups_)) {
    int64_t devices = 0, size = 0;
    bool equal = true, alike = true;
    DeviceTypeId type = groups_[static_cast<size_t>(std::countr_zero(set))].type;
    for (size_t g = 0; g < groups_.size(); ++g) {
      if ((set >> g & 1) == 0) continue;
      int64_t machine = groups_[g].size() / groups_[g].machines;
      equal = equal && (size == 0 || machine == size);
      alike = alike && groups_[g].type == type;
      size = machine;
      devices += groups_[g].size();
    }
    actions_.push_back({set, Way::kReplicate});
    if (devices == 1) continue;
    if (devices <= kMostServed) actions_.push_back({set, Way::kServer});
    if (equal && size > 1) actions_.push_back({set, Way::kTensor});
    actions_.push_back({set, Way::kPipeline});
    // Replicas do not compare what each of them computed, and only like devices round alike.
    if (alike) actions_.push_back({set, Way::kDuplicate});
  }
}

std::string Placements::ToString(const Action& action) const {
  std::vector<std::string> names;
  for (size_t g = 0; g < groups_.size(); ++g) {
    if ((action.groups >> g & 1) != 0) names.push_back(fmt::format("{}#{}", groups_[g].name, g));
  }
  return fmt::format("{} on {}", kWayNames[static_cast<size_t>(action.way)],
                     fmt::join(names, ", "));
}

}  // namespace heddle
