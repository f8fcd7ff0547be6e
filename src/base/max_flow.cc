#include "base/max_flow.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace heddle {

void MaxFlow::Add(int from, int to, double capacity) {
  HEDDLE_CHECK(capacity >= 0, "a capacity of {} from {} to {}", capacity, from, to);
  edges_.push_back({from, to, capacity});
}

// Stores every edge as an arc and its reverse arc, grouped by the vertex they leave.
void MaxFlow::Index() {
  starts_.assign(static_cast<size_t>(vertices_) + 1, 0);
  for (const Edge& edge : edges_) {
    ++starts_[static_cast<size_t>(edge.from)];
    ++starts_[static_cast<size_t>(edge.to)];
  }
  int sum = 0;
  for (int& start : starts_) start = std::exchange(sum, sum + start);
  next_ = starts_;
  arcs_.resize(2 * edges_.size());
  for (const Edge& edge : edges_) {
    int there = next_[static_cast<size_t>(edge.from)]++;
    int back = next_[static_cast<size_t>(edge.to)]++;
    arc(there) = {edge.capacity, edge.to, back};
    arc(back) = {0, edge.from, there};
  }
}

// Breadth-first search backwards from the sink until the source is reached. Vertices without a path to the sink get no
// level.
bool MaxFlow::FindLevels() {
  levels_.assign(static_cast<size_t>(vertices_), -1);
  levels_[static_cast<size_t>(sink_)] = 0;
  queue_ = {sink_};
  for (size_t i = 0; i < queue_.size(); ++i) {
    size_t at = static_cast<size_t>(queue_[i]);
    for (int a = starts_[at]; a < starts_[at + 1]; ++a) {
      int from = arc(a).head;
      int& level = levels_[static_cast<size_t>(from)];
      if (level >= 0 || arc(arc(a).back).residual <= 0) continue;
      level = levels_[at] + 1;
      if (from == source_) return true;
      queue_.push_back(from);
    }
  }
  return false;
}

void MaxFlow::FindSourceSide() {
  source_side_.assign(static_cast<size_t>(vertices_), false);
  source_side_[static_cast<size_t>(source_)] = true;
  queue_ = {source_};
  for (size_t i = 0; i < queue_.size(); ++i) {
    size_t at = static_cast<size_t>(queue_[i]);
    for (int a = starts_[at]; a < starts_[at + 1]; ++a) {
      size_t head = static_cast<size_t>(arc(a).head);
      if (arc(a).residual <= 0 || source_side_[head]) continue;
      source_side_[head] = true;
      queue_.push_back(arc(a).head);
    }
  }
}

// Finds a blocking flow: pushes along paths on which every arc leads one level nearer to the sink, until none is left.
double MaxFlow::PushAll() {
  double pushed = 0;
  next_.assign(starts_.begin(), starts_.end());
  path_.clear();
  while (true) {
    int at = path_.empty() ? source_ : arc(path_.back()).head;
    if (at == sink_) {
      pushed += Push();
    } else if (int next = NextArc(static_cast<size_t>(at)); next >= 0) {
      path_.push_back(next);
    } else if (path_.empty()) {
      return pushed;
    } else {
      levels_[static_cast<size_t>(at)] = -1;
      path_.pop_back();
    }
  }
}

// Pushes along path_ as much as its narrowest arc allows, and cuts path_ at the first arc that is then empty.
double MaxFlow::Push() {
  auto narrowest = std::min_element(
      path_.begin(), path_.end(), [&](int a, int b) { return arc(a).residual < arc(b).residual; });
  double amount = arc(*narrowest).residual;
  HEDDLE_CHECK(std::isfinite(amount), "an infinite path from source to sink");
  for (int a : path_) {
    arc(a).residual -= amount;
    arc(arc(a).back).residual += amount;
  }
  path_.erase(narrowest, path_.end());
  return amount;
}

int MaxFlow::NextArc(size_t from) {
  int nearer = levels_[from] - 1;
  if (nearer < 0) return -1;
  for (int& a = next_[from]; a < starts_[from + 1]; ++a) {
    if (levels_[static_cast<size_t>(arc(a).head)] == nearer && arc(a).residual > 0) return a;
  }
  return -1;
}

double MaxFlow::Solve(int source, int sink) {
  HEDDLE_CHECK(source != sink, "source and sink are {}", source);
  HEDDLE_CHECK(source_ < 0, "solved already");
  source_ = source;
  sink_ = sink;
  Index();
  double flow = 0;
  while (FindLevels()) flow += PushAll();
  FindSourceSide();
  return flow;
}

}  // namespace heddle
