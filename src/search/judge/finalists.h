// The anytime loop that simulates proposals: the most promising first, until none of the others can win.
//
//   Finalists finalists(problem, result);
//   finalists.Judge(std::move(plans), effort);   // proposals with estimates
//   finalists.JudgeAll(std::move(baselines));    // all of them
//
// The expected step time of a proposal is its estimate multiplied by the mean error of earlier estimates for plans of the same
// kind. Which plans are judged, and in which order, depends on the problem alone: other cores simulate the next proposals
// ahead of time, and results that turn out not to be needed are discarded.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "search/interface/proposal.h"
#include "search/judge/judge.h"
#include "search/judge/short_step.h"

namespace heddle {

struct JudgingEffort {
  size_t most = 0;  // at most so many plans that fit
  double work = 0;  // sum of SimulationSize over the judged plans, once one fits
};

// Is a simulation of this size a negligible part of the effort?
bool IsQuick(double work, const JudgingEffort& effort);

// The kind of a plan. Estimates of plans of one kind have similar errors. It consists of the ZeRO level, offload,
// recomputation, data axis, number of other axes, whether there are stages, chunks, a split backward, gpipe, gradients by
// factors, and whether messages between stages occupy links for long (false here, because a plan does not say so).
std::vector<int64_t> KindOf(const Plan& plan);

// Simulated step times divided by their estimates, by kind of plan.
class EstimateErrors {
 public:
  void Add(const std::vector<int64_t>& kind, double estimate, double step);
  void AddBytes(const std::vector<int64_t>& kind, double estimate, double reserved);
  // Counts one more plan of this kind whose estimate is taken to be right, until a plan of the kind was simulated.
  void AssumeRight(const std::vector<int64_t>& kind);
  bool IsAssumed(const std::vector<int64_t>& kind) const;
  void ForgetAssumed() { assumed_.clear(); }
  // Expected step time and bytes of a proposal that has an estimate.
  double Expected(const Proposal& proposal) const;
  double ExpectedBytes(const Proposal& proposal) const;
  // A step time that the proposal is unlikely to be faster than. `spread` is the relative spread of errors within a kind; a
  // proposal may state a larger one.
  double AtLeast(const Proposal& proposal, double spread) const;

 private:
  struct Ratios {
    int count = 0;
    double sum = 0, least = 0;
  };
  using Kind = std::vector<int64_t>;
  const Ratios* Like(
      const Proposal& proposal) const;  // null: no plan of its kind was simulated yet
  std::map<Kind, Ratios> by_kind_, assumed_, bytes_by_kind_;
};

class Finalists {
 public:
  // Both arguments must outlive it. Judged plans are added to `out.judged`.
  Finalists(const SearchTask& task, SearchResult& out);
  ~Finalists();

  // Judges until none of the other plans can win, the effort is spent or the budget is over.
  void Judge(std::vector<Proposal> plans, const JudgingEffort& effort);
  // Judges all plans in order, until the budget is over.
  void JudgeAll(std::vector<Proposal> plans);
  // Waits for the simulations that Judge did not wait for, and judges the plans that it left out because of them.
  void TakeLate(const JudgingEffort& effort);
  // Begins to simulate a plan that will probably be passed to Judge or JudgeAll later. The result is the same, only sooner.
  // Prepare and has_room may be called by any thread.
  void Prepare(Proposal plan);
  bool has_room() const;  // is a core free for another plan?

  double best_seconds() const { return best_; }  // of the plans that fit; infinite if none does

 private:
  class Running;
  struct Ahead;
  using AllRunning = std::vector<std::unique_ptr<Running>>;

  static void Complete(Proposal& plan);
  std::unique_ptr<Running> Start(const Proposal& plan);
  AllRunning::iterator FindPrepared(const Proposal& plan);  // requires that mutex_ is locked
  bool HasRoom(size_t running) const;
  void Take(std::optional<JudgedPlan> judged, const Proposal& proposal);
  bool Ended();

  const SearchTask task_;
  SearchResult& out_;
  RebatchedModels models_;
  EstimateErrors errors_;
  size_t fitting_ = 0;
  double best_ = std::numeric_limits<double>::infinity();
  std::vector<Proposal> left_;  // not judged, because estimates of their kind are taken to be right
  mutable std::mutex mutex_;    // guards prepared_ and late_
  AllRunning prepared_, late_;  // last members: their threads end before the members that they use
};

}  // namespace heddle
