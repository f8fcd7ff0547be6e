#include "search/value_states.h"

#include <algorithm>

namespace heddle {
namespace {

// With every set of axes along which somebody's gradient may be partial and that do not split it.
ValueStates WithSums(StageCosts& costs, const std::vector<ShardingId>& shardings,
                     const std::vector<ReaderStates>& readers) {
  AxisMask possible = 0;
  for (const ReaderStates& reader : readers) {
    for (ShardingId gradient : reader.gradients) {
      if (gradient >= 0) possible |= costs.sharding(gradient).partial_axes();
    }
  }
  ValueStates states;
  for (ShardingId id : shardings) {
    AxisMask free = possible & ~costs.sharding(id).split_axes();
    for (AxisMask sums = 0; sums <= free; ++sums) {
      if ((sums & ~free) != 0) continue;
      states.given.push_back(id);
      states.sums.push_back(sums);
    }
  }
  return states;
}

void AddUnique(std::vector<ShardingId>& list, ShardingId id) {
  if (std::find(list.begin(), list.end(), id) == list.end()) list.push_back(id);
}

}  // namespace

ValueStates CopyStates(StageCosts& costs, const std::vector<ShardingId>& given,
                       const std::vector<ReaderStates>& readers) {
  std::vector<ShardingId> shardings;
  for (const ReaderStates& reader : readers) {
    for (ShardingId wanted : reader.wanted) AddUnique(shardings, costs.Complete(wanted));
  }
  for (ShardingId id : given) AddUnique(shardings, id);
  return WithSums(costs, shardings, readers);
}

ValueStates StorageStates(StageCosts& costs, const ReaderStates& first,
                          const std::vector<ReaderStates>& readers) {
  std::vector<ShardingId> shardings;
  for (ShardingId wanted : first.wanted) AddUnique(shardings, costs.Complete(wanted));
  return WithSums(costs, shardings, readers);
}

TableRef& TableMaker::Find(int kind, const std::vector<ShardingId>& given,
                           const std::vector<AxisMask>& sums, const ReaderStates& reader,
                           Scale scale) {
  std::vector<int64_t> key = {kind, scale.element_bytes, static_cast<int64_t>(scale.repeats),
                              static_cast<int64_t>(given.size())};
  key.insert(key.end(), given.begin(), given.end());
  key.insert(key.end(), sums.begin(), sums.end());
  key.push_back(static_cast<int64_t>(reader.wanted.size()));
  key.insert(key.end(), reader.wanted.begin(), reader.wanted.end());
  key.insert(key.end(), reader.gradients.begin(), reader.gradients.end());
  return made_[key];
}

TableRef TableMaker::Direct(StageCosts& costs, const std::vector<ShardingId>& given,
                            const ReaderStates& reader, Scale scale) {
  TableRef& made = Find(0, given, {}, reader, scale);
  if (made) return made;
  auto table = std::make_shared<Table>();
  for (ShardingId from : given) {
    for (size_t y = 0; y < reader.wanted.size(); ++y) {
      double seconds = costs.WayBetween(from, reader.wanted[y], scale.element_bytes).seconds;
      if (reader.gradients[y] >= 0) {
        seconds += costs.WayBetween(reader.gradients[y], costs.Complete(from), scale.element_bytes)
                       .seconds;
      }
      table->push_back(scale.repeats * seconds);
    }
  }
  return made = std::move(table);
}

TableRef TableMaker::ToCopy(StageCosts& costs, const std::vector<ShardingId>& given,
                            const ValueStates& copy, Scale scale, bool back) {
  TableRef& made = Find(back ? 2 : 1, copy.given, copy.sums, {given, {}}, scale);
  if (made) return made;
  auto table = std::make_shared<Table>();
  for (ShardingId from : given) {
    for (size_t y = 0; y < copy.given.size(); ++y) {
      double seconds = costs.WayBetween(from, copy.given[y], scale.element_bytes).seconds;
      if (back) {
        ShardingId sum = costs.Partial(copy.given[y], copy.sums[y]);
        seconds += costs.WayBetween(sum, costs.Complete(from), scale.element_bytes).seconds;
      }
      table->push_back(scale.repeats * seconds);
    }
  }
  return made = std::move(table);
}

TableRef TableMaker::FromCopy(StageCosts& costs, const ValueStates& copy,
                              const ReaderStates& reader, Scale scale, bool first) {
  TableRef& made = Find(first ? 4 : 3, copy.given, copy.sums, reader, scale);
  if (made) return made;
  auto table = std::make_shared<Table>();
  for (size_t x = 0; x < copy.given.size(); ++x) {
    ShardingId complete = costs.Complete(copy.given[x]);
    for (size_t y = 0; y < reader.wanted.size(); ++y) {
      double seconds =
          costs.WayBetween(copy.given[x], reader.wanted[y], scale.element_bytes).seconds;
      if (first && costs.Complete(reader.wanted[y]) != complete) seconds = kForbidden;
      if (reader.gradients[y] >= 0) {
        StageCosts::Way way = costs.WayBetween(reader.gradients[y], complete, scale.element_bytes,
                                               ReshardEnd::kPartialStays);
        seconds += way.seconds;
        if ((costs.sharding(way.end).partial_axes() & ~copy.sums[x]) != 0) seconds = kForbidden;
      }
      table->push_back(scale.repeats * seconds);
    }
  }
  return made = std::move(table);
}

}  // namespace heddle
