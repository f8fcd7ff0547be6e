// Accuracy of the memory estimates that were made before plans were simulated.
//
//   ByteErrors errors([&](const Plan& plan) { return Simulate(Lower(model, plan), cluster, sim); });
//   errors.Add(result, options);          // every plan that a search judged
//   fmt::print("{}", errors.Table());
//
// The estimate of a plan is what the search's replay of its instruction list allocates, for a step
// of a few micro-batches where there are many. It is compared with a simulation of the whole step.
// Plans that the searcher estimated to need less than 0.4 of a device are not replayed
// (search/judge/judge.cc); for those only the fit of the whole step is checked. Where whole steps
// take long, only the best plans of a search are simulated like this, within `kMostWork`.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "search/searcher.h"

namespace heddle {

class ByteErrors {
 public:
  static constexpr double kAllowed = 0.02;
  // Limit on nodes times micro-batches of the whole steps that are simulated for one search.
  static constexpr double kMostWork = 2e6;

  using WholeStep = std::function<SimResult(const Plan&)>;
  // `nodes`: number of nodes of the model.
  ByteErrors(WholeStep simulate, size_t nodes)
      : simulate_(std::move(simulate)), nodes_(static_cast<double>(nodes)) {}

  // Compares estimated and simulated allocation on the device that needs most. A plan that several
  // searches judged counts once.
  void Add(const SearchResult& result, const std::string& options) {
    double work = 0;
    for (const JudgedPlan& judged : result.judged) {
      if (!judged.simulated) continue;
      bool proposed = &judged == &result.judged.front();
      std::string key =
          fmt::format("{} {} {} {} {}", judged.from, judged.estimated_bytes,
                      judged.result.peak_memory_bytes, judged.result.step_seconds, proposed);
      if (seen_.count(key) > 0) continue;
      bool shortened = judged.simulated_microbatches < judged.plan.microbatches;
      if (shortened) work += nodes_ * static_cast<double>(judged.plan.microbatches);
      if (work > kMostWork) {
        ++left_out_;
        continue;
      }
      seen_.insert(key);
      SimResult whole = shortened ? simulate_(judged.plan) : judged.result;
      // For a plan that others beat, simulating a few micro-batches is enough.
      bool exceeds = whole.reserved_memory_bytes > judged.memory_limit;
      if (proposed && judged.fits && exceeds) ++wrongly_fits_;
      Add(judged, whole, options);
    }
  }

  size_t estimated() const { return Of("all").size(); }
  size_t within(double share, const std::string& kind = "all") const {
    const std::vector<double>& errors = Of(kind);
    return static_cast<size_t>(std::count_if(errors.begin(), errors.end(), [&](double error) {
      return std::abs(error) <= share * (1 + 1e-9);
    }));
  }
  // Plans that a search proposed as the best and that do not fit.
  int wrongly_fits() const { return wrongly_fits_; }
  const std::string& worst() const { return worst_text_; }

  // One line: "bytes: 60 whole steps simulated, 57 replayed before: 56 within 2 %, ...".
  std::string Summary() const {
    return fmt::format(
        "bytes: {} whole steps simulated, {} replayed before: {} within 2 %, {} within 5 %, {} "
        "within 10 %; {} of them do not fit; {} plans left out",
        simulated_, estimated(), within(0.02), within(0.05), within(0.1), unfitting_, left_out_);
  }

  // One row per kind of plan.
  std::string Table() const {
    std::string text;
    for (const auto& [kind, errors] : by_kind_) {
      auto [low, high] = std::minmax_element(errors.begin(), errors.end());
      text += fmt::format(
          "bytes by kind: {:<24} {:>5} plans {:>5} within 2 % {:>5} within 5 % {:>5} within 10 %  "
          "errors {:+.1f} % to {:+.1f} %\n",
          kind, errors.size(), within(0.02, kind), within(0.05, kind), within(0.1, kind),
          100 * *low, 100 * *high);
    }
    return text;
  }

 private:
  void Add(const JudgedPlan& judged, const SimResult& whole, const std::string& options) {
    ++simulated_;
    if (!judged.replayed) return;
    auto allocated = static_cast<double>(whole.peak_memory_bytes);
    double error = judged.estimated_bytes / allocated - 1;
    if (!judged.fits) ++unfitting_;
    Add("all", error);
    for (const std::string& kind : KindsOf(judged.plan)) Add(kind, error);
    if (std::abs(error) <= std::abs(worst_)) return;
    worst_ = error;
    worst_text_ = fmt::format("estimated {:.3f} GB, allocated {:.3f} GB ({:+.1f} %): {}{}{}",
                              judged.estimated_bytes / 1e9, allocated / 1e9, 100 * error,
                              judged.from, options.empty() ? "" : "; asked for ", options);
  }

  static std::vector<std::string> KindsOf(const Plan& plan) {
    std::vector<std::string> kinds = {fmt::format("ZeRO {}", plan.zero.level)};
    bool staged = static_cast<int>(plan.stages.size()) > plan.chunks;
    kinds.push_back(staged ? plan.schedule : "one stage");
    if (plan.chunks > 1) kinds.push_back(plan.chunks > 4 ? "more than 4 chunks" : "2 to 4 chunks");
    std::set<RecomputePolicy> policies;
    for (const Stage& stage : plan.stages) {
      policies.insert(stage.recompute.begin(), stage.recompute.end());
    }
    bool mixed = policies.size() > 1;
    kinds.push_back(fmt::format("recompute {}", mixed ? "mixed" : Name(*policies.begin())));
    kinds.push_back(fmt::format("offload {}", Name(plan.offload)));
    return kinds;
  }

  void Add(const std::string& kind, double error) { by_kind_[kind].push_back(error); }
  const std::vector<double>& Of(const std::string& kind) const {
    static const std::vector<double> kNone;
    auto found = by_kind_.find(kind);
    return found == by_kind_.end() ? kNone : found->second;
  }

  WholeStep simulate_;
  double nodes_;
  std::map<std::string, std::vector<double>> by_kind_;
  std::set<std::string> seen_;
  int simulated_ = 0, unfitting_ = 0, wrongly_fits_ = 0, left_out_ = 0;
  double worst_ = 0;
  std::string worst_text_ = "the estimates of all plans were right";
};

}  // namespace heddle
