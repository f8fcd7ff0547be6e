// Progressive filling of one connected component at a time. Every shared link has the rate at which it is full, share =
// (capacity - used) / weight of the flows that still rise. Every flow has the lowest rate at which one of the links
// that it does not share is full. Each round takes the lowest of these limits and freezes the flows concerned. All
// limits that are equal to the last bit belong to the same round, so the order in which they are found does not matter.
// Then `used` grows by rate x the weight frozen in the round, and the affected links get new shares. A new share is
// never below that rate, even where rounding would give a lower one.
#include "sim/fair_share.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace heddle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::size_t Index(int i) { return static_cast<std::size_t>(i); }

double Times(double weight, std::int64_t copies) { return weight * static_cast<double>(copies); }

}  // namespace

FairShare::FairShare(std::vector<double> capacities)
    : capacities_(std::move(capacities)), links_(capacities_.size()), now_(-kInfinity) {
  for (const double capacity : capacities_) {
    HEDDLE_CHECK(std::isfinite(capacity) && capacity > 0, "capacity {}", capacity);
  }
}

int FairShare::Start(double now, double volume, std::span<const Load> loads) {
  MoveTo(now);
  HEDDLE_CHECK(std::isfinite(volume) && volume >= 0, "volume {}", volume);
  if (free_.empty()) {
    free_.push_back(static_cast<int>(flows_.size()));
    flows_.emplace_back();
  }
  const int id = free_.back();
  free_.pop_back();
  ++active_;
  Flow& flow = flows_[Index(id)];
  flow.active = true;
  flow.remaining = volume;
  flow.since = now;
  flow.rate = 0;
  flow.loads.clear();
  for (const Load& load : loads) {
    HEDDLE_CHECK(load.link >= 0 && Index(load.link) < links_.size(), "link {} of {}", load.link,
                 links_.size());
    HEDDLE_CHECK(std::isfinite(load.weight) && load.weight >= 0 && load.copies > 0,
                 "weight {} x {}", load.weight, load.copies);
    if (load.weight == 0 || volume == 0) continue;
    std::vector<User>& users = links_[Index(load.link)].users;
    flow.loads.push_back({load.link, static_cast<int>(users.size()), load.weight, load.copies});
    users.push_back({id, static_cast<int>(flow.loads.size()) - 1});
  }
  if (flow.loads.empty()) {
    flow.remaining = 0;
    SetRate(id, kInfinity);
  } else {
    new_flows_.push_back(id);
  }
  return id;
}

double FairShare::NextEnd() {
  Flush();
  return heap_.empty() ? kInfinity : heap_.front().end;
}

void FairShare::Advance(double now, std::vector<int>& ended) {
  Flush();
  MoveTo(now);
  ended.clear();
  while (!heap_.empty() && heap_.front().end == now) {
    ended.push_back(heap_.front().flow);
    PopHeap();
  }
  std::sort(ended.begin(), ended.end());
  for (const int id : ended) {
    Unlink(id);
    flows_[Index(id)].active = false;
    free_.push_back(id);
  }
  active_ -= ended.size();
}

double FairShare::Rate(int flow) {
  Flush();
  HEDDLE_CHECK(flows_[Index(flow)].active, "flow {} has ended", flow);
  return flows_[Index(flow)].rate;
}

double FairShare::End(int flow) {
  Flush();
  HEDDLE_CHECK(flows_[Index(flow)].active, "flow {} has ended", flow);
  return flows_[Index(flow)].end;
}

void FairShare::MoveTo(double now) {
  if (now == now_) return;
  Flush();
  HEDDLE_CHECK(now > now_ && (heap_.empty() || now <= heap_.front().end),
               "from {} to {} with an end at {}", now_, now, NextEnd());
  now_ = now;
}

void FairShare::Flush() {
  if (new_flows_.empty() && changed_links_.empty()) return;
  ++computation_;
  for (const int id : new_flows_) {
    double rate = 0;
    if (AloneRate(flows_[Index(id)], rate)) {
      SetRate(id, rate);
    } else if (flows_[Index(id)].reached != computation_) {
      Collect(id);
      Fill();
    }
  }
  for (const int link : changed_links_) {
    const std::vector<User>& users = links_[Index(link)].users;
    if (users.empty() || flows_[Index(users.front().flow)].reached == computation_) continue;
    double rate = 0;
    if (AloneRate(flows_[Index(users.front().flow)], rate)) {
      SetRate(users.front().flow, rate);
    } else {
      Collect(users.front().flow);
      Fill();
    }
  }
  new_flows_.clear();
  changed_links_.clear();
}

// The rate of a flow that shares no link; false for a flow that shares one.
bool FairShare::AloneRate(const Flow& flow, double& rate) const {
  rate = kInfinity;
  for (const Entry& load : flow.loads) {
    if (links_[Index(load.link)].users.size() > 1) return false;
    rate = std::min(rate, capacities_[Index(load.link)] / Times(load.weight, load.copies));
  }
  return true;
}

// Collects the flows connected with a flow, their shared links, and their initial limits.
void FairShare::Collect(int first) {
  component_.assign(1, first);
  fillings_.clear();
  classes_.clear();
  limits_.clear();
  flows_[Index(first)].reached = computation_;
  for (std::size_t i = 0; i < component_.size(); ++i) {
    const int id = component_[i];
    double own = kInfinity;
    for (const Entry& load : flows_[Index(id)].loads) {
      Link& link = links_[Index(load.link)];
      if (link.users.size() == 1) {
        own = std::min(own, capacities_[Index(load.link)] / Times(load.weight, load.copies));
        continue;
      }
      if (link.reached == computation_) continue;
      link.reached = computation_;
      AddFilling(load.link);
      for (const User& user : link.users) {
        Flow& other = flows_[Index(user.flow)];
        if (other.reached == computation_) continue;
        other.reached = computation_;
        component_.push_back(user.flow);
      }
    }
    if (own < kInfinity) limits_.push_back({own, -1, id});
  }
}

void FairShare::AddFilling(int link) {
  Filling filling{.link = link, .first = classes_.size(), .last = 0};
  for (const User& user : links_[Index(link)].users) {
    const Entry& load = flows_[Index(user.flow)].loads[Index(user.load)];
    if (classes_.size() > filling.first && classes_.back().weight == load.weight) {
      classes_.back().rising += load.copies;
    } else {
      classes_.push_back({load.weight, load.copies, 0});
    }
  }
  if (classes_.size() - filling.first > 1) {
    const auto begin = classes_.begin() + static_cast<std::ptrdiff_t>(filling.first);
    std::sort(begin, classes_.end(),
              [](const WeightClass& a, const WeightClass& b) { return a.weight < b.weight; });
    auto kept = begin;
    for (auto it = begin + 1; it != classes_.end(); ++it) {
      if (it->weight == kept->weight) {
        kept->rising += it->rising;
      } else {
        *++kept = *it;
      }
    }
    classes_.erase(kept + 1, classes_.end());
  }
  filling.last = classes_.size();
  filling.share = capacities_[Index(link)] / RisingWeight(filling);
  const int place = static_cast<int>(fillings_.size());
  links_[Index(link)].filling = place;
  limits_.push_back({filling.share, place, -1});
  fillings_.push_back(filling);
}

double FairShare::RisingWeight(const Filling& filling) const {
  double weight = 0;
  for (std::size_t i = filling.first; i < filling.last; ++i) {
    weight += Times(classes_[i].weight, classes_[i].rising);
  }
  return weight;
}

void FairShare::Fill() {
  std::make_heap(limits_.begin(), limits_.end(), Higher);
  const auto pop = [&] {
    std::pop_heap(limits_.begin(), limits_.end(), Higher);
    const Limit limit = limits_.back();
    limits_.pop_back();
    return limit;
  };
  while (!limits_.empty()) {
    const Limit lowest = pop();
    if (!Holds(lowest)) continue;
    Reach(lowest);
    while (!limits_.empty() && limits_.front().rate == lowest.rate) {
      const Limit equal = pop();
      if (Holds(equal)) Reach(equal);
    }
    CloseRound(lowest.rate);
  }
  for (const int id : component_) HEDDLE_CHECK_EQ(flows_[Index(id)].frozen, computation_);
}

// Whether a limit is current: links get new shares during the rounds.
bool FairShare::Holds(const Limit& limit) const {
  return limit.filling < 0 || fillings_[Index(limit.filling)].share == limit.rate;
}

void FairShare::Reach(const Limit& limit) {
  if (limit.filling < 0) {
    Freeze(limit.flow, limit.rate);
    return;
  }
  for (const User& user : links_[Index(fillings_[Index(limit.filling)].link)].users) {
    Freeze(user.flow, limit.rate);
  }
}

void FairShare::Freeze(int id, double rate) {
  Flow& flow = flows_[Index(id)];
  if (flow.frozen == computation_) return;
  flow.frozen = computation_;
  for (const Entry& load : flow.loads) {
    const Link& link = links_[Index(load.link)];
    if (link.users.size() == 1) continue;
    Filling& filling = fillings_[Index(link.filling)];
    std::size_t at = filling.first;
    if (filling.last - filling.first > 1) {
      const auto begin = classes_.begin();
      at = static_cast<std::size_t>(
          std::lower_bound(begin + static_cast<std::ptrdiff_t>(filling.first),
                           begin + static_cast<std::ptrdiff_t>(filling.last), load.weight,
                           [](const WeightClass& c, double w) { return c.weight < w; }) -
          begin);
    }
    classes_[at].freezing += load.copies;
    if (!filling.touched) touched_.push_back(link.filling);
    filling.touched = true;
  }
  SetRate(id, rate);
}

void FairShare::CloseRound(double rate) {
  for (const int place : touched_) {
    Filling& filling = fillings_[Index(place)];
    filling.touched = false;
    double frozen = 0;
    for (std::size_t i = filling.first; i < filling.last; ++i) {
      frozen += Times(classes_[i].weight, classes_[i].freezing);
      classes_[i].rising -= classes_[i].freezing;
      classes_[i].freezing = 0;
    }
    filling.used += rate * frozen;
    const double rising = RisingWeight(filling);
    filling.share = kInfinity;
    if (rising == 0) continue;
    filling.share = std::max(rate, (capacities_[Index(filling.link)] - filling.used) / rising);
    limits_.push_back({filling.share, place, -1});
    std::push_heap(limits_.begin(), limits_.end(), Higher);
  }
  touched_.clear();
}

void FairShare::SetRate(int id, double rate) {
  Flow& flow = flows_[Index(id)];
  if (flow.rate == rate) return;
  flow.remaining = std::max(0.0, flow.remaining - flow.rate * (now_ - flow.since));
  flow.since = now_;
  flow.rate = rate;
  flow.end = now_ + flow.remaining / rate;
  if (flow.place < 0) {
    flow.place = static_cast<int>(heap_.size());
    heap_.push_back({flow.end, id});
  }
  heap_[Index(flow.place)].end = flow.end;
  Sift(Index(flow.place));
}

void FairShare::Unlink(int id) {
  for (const Entry& load : flows_[Index(id)].loads) {
    std::vector<User>& users = links_[Index(load.link)].users;
    const User last = users.back();
    users[Index(load.place)] = last;
    flows_[Index(last.flow)].loads[Index(last.load)].place = load.place;
    users.pop_back();
    if (!users.empty()) changed_links_.push_back(load.link);
  }
}

void FairShare::Put(std::size_t place, const Timed& timed) {
  heap_[place] = timed;
  flows_[Index(timed.flow)].place = static_cast<int>(place);
}

void FairShare::Sift(std::size_t place) {
  const Timed moved = heap_[place];
  while (place > 0 && moved.end < heap_[(place - 1) / 2].end) {
    Put(place, heap_[(place - 1) / 2]);
    place = (place - 1) / 2;
  }
  for (;;) {
    std::size_t child = 2 * place + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && heap_[child + 1].end < heap_[child].end) ++child;
    if (!(heap_[child].end < moved.end)) break;
    Put(place, heap_[child]);
    place = child;
  }
  Put(place, moved);
}

void FairShare::PopHeap() {
  flows_[Index(heap_.front().flow)].place = -1;
  const Timed last = heap_.back();
  heap_.pop_back();
  if (heap_.empty()) return;
  heap_.front() = last;
  Sift(0);
}

}  // namespace heddle
