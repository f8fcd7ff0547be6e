#include "search/max_flow.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace heddle {

MaxFlow::MaxFlow(int vertices) : starts_(static_cast<size_t>(vertices) + 1, 0) {}

void MaxFlow::Add(int from, int to, double capacity) {
  HEDDLE_CHECK(capacity >= 0, "a capacity of {} from {} to {}", capacity, from, to);
  heads_.push_back(to);
  heads_.push_back(from);
  residual_.push_back(capacity);
  residual_.push_back(0);
}

void MaxFlow::Index() {
  for (int head : heads_) ++starts_[static_cast<size_t>(head)];  // as many arcs leave as come
  int sum = 0;
  for (int& start : starts_) start = std::exchange(sum, sum + start);
  next_.assign(starts_.begin(), starts_.end());
  arcs_.resize(heads_.size());
  for (size_t arc = 0; arc < heads_.size(); ++arc) {
    size_t tail = static_cast<size_t>(heads_[arc ^ 1]);
    arcs_[static_cast<size_t>(next_[tail]++)] = static_cast<int>(arc);
  }
}

bool MaxFlow::FindLevels() {
  levels_.assign(starts_.size() - 1, -1);
  levels_[static_cast<size_t>(source_)] = 0;
  queue_ = {source_};
  for (size_t i = 0; i < queue_.size(); ++i) {
    size_t at = static_cast<size_t>(queue_[i]);
    for (int a = starts_[at]; a < starts_[at + 1]; ++a) {
      size_t arc = static_cast<size_t>(arcs_[static_cast<size_t>(a)]);
      int head = heads_[arc];
      if (residual_[arc] <= 0 || levels_[static_cast<size_t>(head)] >= 0) continue;
      levels_[static_cast<size_t>(head)] = levels_[at] + 1;
      queue_.push_back(head);
    }
  }
  return levels_[static_cast<size_t>(sink_)] >= 0;
}

// Along ways that rise by a level at every step, until none is left.
double MaxFlow::PushAll() {
  double pushed = 0;
  next_.assign(starts_.begin(), starts_.end());
  path_.clear();
  int at = source_;
  while (true) {
    if (at == sink_) {
      auto narrowest = std::min_element(path_.begin(), path_.end(), [&](int a, int b) {
        return residual_[static_cast<size_t>(a)] < residual_[static_cast<size_t>(b)];
      });
      double amount = residual_[static_cast<size_t>(*narrowest)];
      HEDDLE_CHECK(std::isfinite(amount), "an infinite way from source to sink");
      for (int arc : path_) {
        residual_[static_cast<size_t>(arc)] -= amount;
        residual_[static_cast<size_t>(arc ^ 1)] += amount;
      }
      pushed += amount;
      at = Tail(*narrowest);
      path_.erase(narrowest, path_.end());
      continue;
    }
    size_t from = static_cast<size_t>(at);
    int found = -1;
    for (int& a = next_[from]; a < starts_[from + 1]; ++a) {
      int arc = arcs_[static_cast<size_t>(a)];
      bool rises =
          levels_[static_cast<size_t>(heads_[static_cast<size_t>(arc)])] == levels_[from] + 1;
      if (residual_[static_cast<size_t>(arc)] <= 0 || !rises) continue;
      found = arc;
      break;
    }
    if (found >= 0) {
      path_.push_back(found);
      at = heads_[static_cast<size_t>(found)];
    } else if (path_.empty()) {
      return pushed;
    } else {
      levels_[from] = -1;
      at = Tail(path_.back());
      path_.pop_back();
    }
  }
}

double MaxFlow::Solve(int source, int sink) {
  HEDDLE_CHECK(source != sink, "source and sink are {}", source);
  HEDDLE_CHECK(source_ < 0, "solved already");
  source_ = source;
  sink_ = sink;
  Index();
  double flow = 0;
  while (FindLevels()) flow += PushAll();
  for (int level : levels_) source_side_.push_back(level >= 0);
  return flow;
}

}  // namespace heddle
