#include "search/prices/value_states.h"

#include <algorithm>
#include <bit>
#include <memory>

namespace heddle {
namespace {

// Combines each sharding with every set of axes along which a reader's gradient may be partial and
// which do not split it.
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

// Two tables that are filled entry by entry.
class Filler {
 public:
  explicit Filler(const Scale& scale) : scale_(scale) {}

  struct Entry {
    double seconds = 0, queued = 0;
  };
  void Forward(Entry& entry, const StageCosts::Way& way) const {
    Add(entry, way, scale_.forward);
    if (scale_.regathered) entry.queued += way.gathered;
    // The first pieces of a recomputed unit may still be available, so this traffic runs beside
    // computation.
    if (scale_.recomputed && way.traffic < kForbidden) {
      entry.seconds += way.local;
      entry.queued += way.traffic;
    }
  }
  void Backward(Entry& entry, const StageCosts::Way& way) const {
    Add(entry, way, scale_.backward);
  }
  void Push(const Entry& entry) {
    seconds_->push_back(entry.seconds);
    queued_->push_back(entry.seconds == kForbidden ? 0 : entry.queued);
    any_ = any_ || queued_->back() != 0;
  }
  Tables Take() { return {std::move(seconds_), any_ ? std::move(queued_) : nullptr}; }

 private:
  void Add(Entry& entry, const StageCosts::Way& way, double repeats) const {
    if (way.traffic == kForbidden) {  // forbidden even if done rarely
      entry.seconds = kForbidden;
      return;
    }
    entry.seconds += repeats * way.local;
    (scale_.waited ? entry.seconds : entry.queued) += repeats * way.traffic;
  }

  Scale scale_;
  std::shared_ptr<Table> seconds_ = std::make_shared<Table>(), queued_ = std::make_shared<Table>();
  bool any_ = false;
};

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

Tables& TableMaker::Find(int kind, const std::vector<ShardingId>& given,
                         const std::vector<AxisMask>& sums, const ReaderStates& reader,
                         Scale scale) {
  std::vector<int64_t> key = {kind,
                              scale.element_bytes,
                              std::bit_cast<int64_t>(scale.forward),
                              std::bit_cast<int64_t>(scale.backward),
                              scale.waited,
                              scale.regathered,
                              scale.recomputed,
                              static_cast<int64_t>(given.size())};
  key.insert(key.end(), given.begin(), given.end());
  key.insert(key.end(), sums.begin(), sums.end());
  key.push_back(static_cast<int64_t>(reader.wanted.size()));
  key.insert(key.end(), reader.wanted.begin(), reader.wanted.end());
  key.insert(key.end(), reader.gradients.begin(), reader.gradients.end());
  return made_[key];
}

Tables TableMaker::Direct(StageCosts& costs, const std::vector<ShardingId>& given,
                          const ReaderStates& reader, Scale scale) {
  Tables& made = Find(0, given, {}, reader, scale);
  if (made.seconds) return made;
  Filler filler(scale);
  for (ShardingId from : given) {
    for (size_t y = 0; y < reader.wanted.size(); ++y) {
      Filler::Entry entry;
      filler.Forward(entry, costs.WayBetween(from, reader.wanted[y], scale.element_bytes));
      if (reader.gradients[y] >= 0) {
        filler.Backward(entry, costs.WayBetween(reader.gradients[y], costs.Complete(from),
                                                scale.element_bytes));
      }
      filler.Push(entry);
    }
  }
  return made = filler.Take();
}

Tables TableMaker::ToCopy(StageCosts& costs, const std::vector<ShardingId>& given,
                          const ValueStates& copy, Scale scale, bool back) {
  Tables& made = Find(back ? 2 : 1, copy.given, copy.sums, {given, {}}, scale);
  if (made.seconds) return made;
  Filler filler(scale);
  for (ShardingId from : given) {
    for (size_t y = 0; y < copy.given.size(); ++y) {
      Filler::Entry entry;
      filler.Forward(entry, costs.WayBetween(from, copy.given[y], scale.element_bytes));
      if (back) {
        ShardingId sum = costs.Partial(copy.given[y], copy.sums[y]);
        filler.Backward(entry, costs.WayBetween(sum, costs.Complete(from), scale.element_bytes));
      }
      filler.Push(entry);
    }
  }
  return made = filler.Take();
}

Tables TableMaker::FromCopy(StageCosts& costs, const ValueStates& copy, const ReaderStates& reader,
                            Scale scale, bool first) {
  Tables& made = Find(first ? 4 : 3, copy.given, copy.sums, reader, scale);
  if (made.seconds) return made;
  Filler filler(scale);
  for (size_t x = 0; x < copy.given.size(); ++x) {
    ShardingId complete = costs.Complete(copy.given[x]);
    for (size_t y = 0; y < reader.wanted.size(); ++y) {
      Filler::Entry entry;
      filler.Forward(entry, costs.WayBetween(copy.given[x], reader.wanted[y], scale.element_bytes));
      if (first && costs.Complete(reader.wanted[y]) != complete) entry.seconds = kForbidden;
      if (reader.gradients[y] >= 0) {
        StageCosts::Way way = costs.WayBetween(reader.gradients[y], complete, scale.element_bytes,
                                               ReshardEnd::kPartialStays);
        filler.Backward(entry, way);
        bool allowed = (costs.sharding(way.end).partial_axes() & ~copy.sums[x]) == 0;
        if (!allowed) entry.seconds = kForbidden;
      }
      filler.Push(entry);
    }
  }
  return made = filler.Take();
}

}  // namespace heddle
