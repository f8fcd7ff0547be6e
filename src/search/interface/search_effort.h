// How hard a search tries, until when, and who hears of it.
//
//   SearchTask task(problem);
//   task.effort.deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "search/interface/search_problem.h"

namespace heddle {

class Prior;
struct Proposal;

struct SearchEffort {
  size_t judged = 0;              // the most plans to simulate; 0: as many as a second or so allows
  int64_t playouts = 0;           // of the tree search; 0: as many as it takes by itself
  Prior* prior = nullptr;         // of the tree search (search/placement/prior.h); null: all alike
  bool every_microbatch = false;  // simulate steps whole, however long that takes
  bool simulate_all = false;      // plans whose parameters do not fit, too
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  const std::atomic<bool>* stop = nullptr;  // set: as if the deadline had come
  std::function<void(const std::string& what)> progress = nullptr;  // null: nobody listens

  // Hears of plans that are probably among the best, the fastest first, before all others are weighed; null: nobody does.
  std::function<void(const std::vector<Proposal>& plans)> promising = nullptr;

  bool Over() const {
    return (stop != nullptr && *stop) || std::chrono::steady_clock::now() >= deadline;
  }
  void Report(const std::string& what) const {
    if (progress) progress(what);
  }
};

// A problem and the effort that its search is worth. What needs the problem alone takes a SearchProblem.
struct SearchTask : SearchProblem {
  SearchTask(const SearchProblem& problem, SearchEffort with = {})
      : SearchProblem(problem), effort(std::move(with)) {}
  SearchEffort effort;
};

}  // namespace heddle
