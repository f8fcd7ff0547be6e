// How much effort a search makes, its deadline, and whom it reports to.
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
  size_t judged = 0;              // the most plans to simulate; 0: as many as about a second allows
  int64_t playouts = 0;           // of the tree search; 0: its default
  Prior* prior = nullptr;         // of the tree search (search/placement/prior.h); null: uniform
  bool every_microbatch = false;  // simulate whole steps, however long that takes
  bool simulate_all = false;      // also plans whose parameters do not fit
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  const std::atomic<bool>* stop = nullptr;  // set: as if the deadline had passed
  // Several threads may call it at once; null: no reports.
  std::function<void(const std::string& what)> progress = nullptr;

  // Receives plans that are probably among the best, fastest first, before all others are weighed;
  // null: not called.
  std::function<void(const std::vector<Proposal>& plans)> promising = nullptr;

  bool Over() const {
    return (stop != nullptr && *stop) || std::chrono::steady_clock::now() >= deadline;
  }
  void Report(const std::string& what) const {
    if (progress) progress(what);
  }
};

// A problem and the effort for its search. Functions that depend only on the problem take a
// SearchProblem.
struct SearchTask : SearchProblem {
  SearchTask(const SearchProblem& problem, SearchEffort with = {})
      : SearchProblem(problem), effort(std::move(with)) {}
  SearchEffort effort;
};

}  // namespace heddle
