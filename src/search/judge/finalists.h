// The anytime loop that simulates proposals: the most promising first, until none of the rest can win.
//
//   Finalists finalists(problem, result);
//   finalists.Judge(std::move(plans), effort);   // proposals with estimates
//   finalists.JudgeAll(std::move(baselines));    // all of them
//
// What a proposal is expected to take is its estimate times the errors of estimates that were seen before, of plans of the
// same kind where there are any. Which plans are judged, and in which order, depends on the problem alone: other cores
// simulate the next proposals ahead, and what turns out not to be needed is thrown away.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "search/interface/proposal.h"
#include "search/judge/judge.h"
#include "search/judge/short_step.h"

namespace heddle {

struct JudgingEffort {
  size_t most = 0;  // plans that fit
  double work = 0;  // SimulationSize of all that are judged, once one fits
};

// Whether a simulation of this size takes next to nothing of the effort.
bool IsQuick(double work, const JudgingEffort& effort);

// What plans have in common whose estimates are wrong alike: ZeRO level, offload, recomputation, data axis, other axes, whether
// there are stages, chunks, a split backward, gpipe, gradients by factors, and last whether its messages
// occupy links much, which a plan does not say: false.
std::vector<int64_t> KindOf(const Plan& plan);

// Simulated steps as multiples of their estimates, by kind of plan.
class EstimateErrors {
 public:
  void Add(const std::vector<int64_t>& kind, double estimate, double step);
  void AddBytes(const std::vector<int64_t>& kind, double estimate, double reserved);
  // As if one more plan of this kind took what was estimated, until one was simulated.
  void AssumeRight(const std::vector<int64_t>& kind);
  bool IsAssumed(const std::vector<int64_t>& kind) const;
  void ForgetAssumed() { assumed_.clear(); }
  // Of a proposal with an estimate.
  double Expected(const Proposal& proposal) const;
  double ExpectedBytes(const Proposal& proposal) const;
  // What it will hardly be faster than.
  // `spread`: by how much errors of one kind differ, unless the proposal says that its own differ by more.
  double AtLeast(const Proposal& proposal, double spread) const;

 private:
  struct Ratios {
    int count = 0;
    double sum = 0, least = 0;
  };
  using Kind = std::vector<int64_t>;
  const Ratios* Like(const Proposal& proposal) const;  // null: none of its kind was seen yet
  std::map<Kind, Ratios> by_kind_, assumed_, bytes_by_kind_;
};

class Finalists {
 public:
  // Both must outlive it. What is judged is added to `out.judged`.
  Finalists(const SearchTask& task, SearchResult& out);
  ~Finalists();

  // Until none of the rest can win, the effort is spent or the problem is over.
  void Judge(std::vector<Proposal> plans, const JudgingEffort& effort);
  // In order; until the problem is over.
  void JudgeAll(std::vector<Proposal> plans);
  // Those that Judge did not wait for, and what it left out since.
  void TakeLate(const JudgingEffort& effort);
  // Begins to simulate a plan that will probably be given to one of these later: its result is there sooner, and the same.
  // Both may be called by any thread.
  void Prepare(Proposal plan);
  bool has_room() const;  // is a core free for another?

  double best_seconds() const { return best_; }  // of the plans that fit; infinite where none does

 private:
  class Running;
  struct Ahead;
  using AllRunning = std::vector<std::unique_ptr<Running>>;

  static void Complete(Proposal& plan);
  std::unique_ptr<Running> Start(const Proposal& plan);
  AllRunning::iterator FindPrepared(const Proposal& plan);  // mutex_ is locked
  bool HasRoom(size_t running) const;
  void Take(std::optional<JudgedPlan> judged, const Proposal& proposal);
  bool Ended();

  const SearchTask task_;
  SearchResult& out_;
  RebatchedModels models_;
  EstimateErrors errors_;
  size_t fitting_ = 0;
  double best_ = std::numeric_limits<double>::infinity();
  std::vector<Proposal> left_;  // not judged, as estimates of their kind were taken to be right
  mutable std::mutex mutex_;    // of what runs beside the plan that is waited for
  AllRunning prepared_, late_;  // they end before what they use
};

}  // namespace heddle
