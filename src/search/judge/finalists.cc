#include "search/judge/finalists.h"

#include <algorithm>
#include <future>

#include "base/log.h"
#include "base/parallel.h"
#include "schedule/schedule.h"

namespace heddle {

namespace {

bool HasFactors(const Plan& plan) {
  return std::any_of(plan.stages.begin(), plan.stages.end(),
                     [](const Stage& stage) { return !stage.sync.empty(); });
}

}  // namespace

std::vector<int64_t> KindOf(const Plan& plan) {
  const std::vector<MeshAxis>& axes = plan.stages.front().mesh.axes;
  bool data = !axes.empty() && axes.front().name == "dp";
  int64_t stages = static_cast<int64_t>(plan.stages.size()) / plan.chunks;
  return {plan.zero.level,
          static_cast<int64_t>(plan.offload),
          Recomputes(plan),
          data,
          static_cast<int64_t>(axes.size()) - data,
          stages > 1,
          plan.chunks > 1,
          stages > 1 && FindSchedule(plan.schedule)->splits_backward,
          stages > 1 && plan.schedule == "gpipe",
          HasFactors(plan),
          false};
}

void EstimateErrors::Add(const Kind& kind, double estimate, double step) {
  double ratio = step / estimate;
  Ratios& ratios = by_kind_[kind];
  ratios.least = ratios.count == 0 ? ratio : std::min(ratios.least, ratio);
  ratios.sum += ratio;
  ++ratios.count;
}

void EstimateErrors::AddBytes(const Kind& kind, double estimate, double reserved) {
  Ratios& ratios = bytes_by_kind_[kind];
  ratios.sum += reserved / estimate;
  ++ratios.count;
}

double EstimateErrors::ExpectedBytes(const Proposal& proposal) const {
  auto found = bytes_by_kind_.find(proposal.kind);
  if (found == bytes_by_kind_.end()) return proposal.bytes;
  return proposal.bytes * found->second.sum / found->second.count;
}

const EstimateErrors::Ratios* EstimateErrors::Like(const Proposal& proposal) const {
  auto found = by_kind_.find(proposal.kind);
  return found == by_kind_.end() ? nullptr : &found->second;
}

double EstimateErrors::Expected(const Proposal& proposal) const {
  const Ratios* like = Like(proposal);
  return proposal.estimate * (like == nullptr ? 1 : like->sum / like->count);
}

double EstimateErrors::AtLeast(const Proposal& proposal, double spread) const {
  // Estimates of plans of one kind differ by so much in their errors, and one or two plans do not show the least of them.
  // That other kinds of plans were slower than their estimates says nothing.
  constexpr double kSpreadOfOne = 0.02, kSpreadOfKinds = 0.03, kOfKinds = 1.5;
  const Ratios* like = Like(proposal);
  spread = std::max(spread, proposal.spread);
  double least = 1 - std::max(kSpreadOfKinds, kOfKinds * spread);
  if (like != nullptr) least = (1 - std::max(spread, kSpreadOfOne / like->count)) * like->least;
  return std::max(proposal.bound, proposal.estimate * least);
}

// Proposals that are being simulated. Its end waits for all of them, after telling them to stop.
class Finalists::Ahead {
 public:
  // `prepared`: where some of the proposals may be at work already; null: nowhere.
  Ahead(const SearchTask& task, RebatchedModels& models, Ahead* prepared = nullptr)
      : task_(task), models_(models), prepared_(prepared) {}
  ~Ahead() { abandoned_ = true; }

  // One for two cores: parts of each are done by one thread and others by several, and of those that are ahead some turn
  // out not to be needed. On two cores two: one is at work while the other has but one thread.
  bool has_room() const {
    size_t cores = CoreCount();
    return running_.size() < (cores == 2 ? 2 : std::max<size_t>(1, cores / 2));
  }
  bool Has(size_t id) const { return running_.count(id) > 0; }
  void Start(size_t id, Proposal proposal) {
    if (prepared_ != nullptr && prepared_->HandOver(proposal, running_[id])) return;
    Running& at = running_[id];
    if (prepared_ == nullptr) at.of = proposal;
    at.judged = std::async(std::launch::async, [this, proposal = std::move(proposal)]() mutable {
      std::optional<JudgedPlan> judged;
      try {
        judged = heddle::Judge(task_, std::move(proposal), &abandoned_, &models_);
      } catch (const SimulationStopped&) {
      }
      return judged;
    });
  }
  // Nothing where the problem was over first.
  std::optional<JudgedPlan> Wait(size_t id) {
    auto at = running_.find(id);
    std::optional<JudgedPlan> judged = at->second.judged.get();
    running_.erase(at);
    return judged;
  }
  size_t running() const { return running_.size(); }

 private:
  struct Running {
    Proposal of;  // of one that may be handed over
    std::future<std::optional<JudgedPlan>> judged;
  };

  // What this one is judging is another's from now on. False where it is not.
  bool HandOver(const Proposal& wanted, Running& to) {
    for (auto at = running_.begin(); at != running_.end(); ++at) {
      const Proposal& of = at->second.of;
      bool same =
          of.from == wanted.from && of.estimate == wanted.estimate && of.plan == wanted.plan;
      if (!same) continue;
      to = std::move(at->second);
      running_.erase(at);
      return true;
    }
    return false;
  }

  const SearchTask& task_;
  RebatchedModels& models_;
  Ahead* prepared_;
  std::atomic<bool> abandoned_ = false;
  std::map<size_t, Running> running_;
};

Finalists::Finalists(const SearchTask& task, SearchResult& out)
    : task_(task),
      out_(out),
      models_(task.model),
      prepared_(std::make_unique<Ahead>(task_, models_)) {}

Finalists::~Finalists() = default;

bool IsQuick(double work, const JudgingEffort& effort) {
  constexpr double kQuick = 0.0008;
  return work < kQuick * effort.work;
}

void Finalists::Prepare(Proposal plan) {
  plan.MakePlan();
  if (plan.kind.empty()) plan.kind = KindOf(plan.plan);
  prepared_->Start(prepared_->running(), std::move(plan));
}

// Plans whose expected memory exceeds the limit by less than this factor are tried first as long as no plan fits: fitting
// them to memory costs little time.
constexpr double kFits = 1.1;

// Errors of one kind differ by so much. Where a simulation takes next to nothing of the effort, plans that are less likely to
// be faster are simulated as well.
double SpreadOf(const Proposal& proposal, const JudgingEffort& effort) {
  constexpr double kSpread = 0.01, kSpreadOfQuick = 0.1;
  return IsQuick(proposal.work, effort) ? kSpreadOfQuick : kSpread;
}

bool Finalists::Ended() {
  out_.stopped = out_.stopped || (!out_.judged.empty() && task_.effort.Over());
  return out_.stopped;
}

void Finalists::Take(std::optional<JudgedPlan> judged, const Proposal& proposal) {
  out_.stopped = out_.stopped || !judged;
  if (!judged) return;
  constexpr double kGiB = 1 << 30;
  LogDebug(
      "{}: estimated {:.6g} s, as fitted {:.6g} s, {:.4g} GiB; simulated {:.6g} s, {:.4g} GiB, "
      "reserved {:.4g} GiB, {}",
      judged->from, proposal.estimate, judged->estimate, judged->estimated_bytes / kGiB,
      judged->result.step_seconds, static_cast<double>(judged->result.peak_memory_bytes) / kGiB,
      static_cast<double>(judged->reserved()) / kGiB, judged->fits ? "fits" : "does not fit");
  // Of a plan that was fitted to memory the estimate as it was fitted, and its kind.
  bool fitted = judged->estimate != proposal.estimate;
  std::vector<int64_t> kind = fitted ? judged->kind : proposal.kind;
  if (judged->simulated && judged->estimate > 0) {
    errors_.Add(kind, judged->estimate, judged->result.step_seconds);
  }
  if (judged->simulated && proposal.bytes > 0) {
    errors_.AddBytes(proposal.kind, proposal.bytes, static_cast<double>(judged->reserved()));
  }
  if (judged->fits) {
    ++fitting_;
    best_ = std::min(best_, judged->result.step_seconds);
  }
  out_.judged.push_back(std::move(*judged));
}

void Finalists::JudgeAll(std::vector<Proposal> plans) {
  for (Proposal& plan : plans) {
    plan.MakePlan();
    if (plan.kind.empty()) plan.kind = KindOf(plan.plan);
  }
  Ahead ahead(task_, models_, prepared_.get());
  size_t started = 0;
  for (size_t i = 0; i < plans.size() && !Ended(); ++i) {
    task_.effort.Report("simulating " + plans[i].from);
    for (; started < plans.size() && ahead.has_room(); ++started) {
      ahead.Start(started, plans[started]);
    }
    Take(ahead.Wait(i), plans[i]);
  }
}

void Finalists::Judge(std::vector<Proposal> plans, const JudgingEffort& effort) {
  Ahead ahead(task_, models_, prepared_.get());
  std::vector<size_t> order(plans.size());
  for (size_t i = 0; i < order.size(); ++i) {
    order[i] = i;
    if (plans[i].kind.empty()) plans[i].kind = KindOf(plans[i].MakePlan());
    if (plans[i].work == 0) plans[i].work = SimulationSize(task_, plans[i].MakePlan());
  }
  auto limit = static_cast<double>(MemoryLimit(task_));
  size_t fitting_before = fitting_, unfit = 0;
  double work = 0;
  while (!order.empty() && !Ended()) {
    // While no plan fits, at most kMostUnfit plans are judged per call.
    constexpr size_t kMostUnfit = 40;
    bool one_fits = best_ < std::numeric_limits<double>::infinity();
    if (one_fits && (work >= effort.work || fitting_ - fitting_before >= effort.most)) return;
    if (!one_fits && unfit >= kMostUnfit) return;
    std::erase_if(order, [&](size_t i) {
      return one_fits && errors_.AtLeast(plans[i], SpreadOf(plans[i], effort)) >= best_;
    });
    // Those first that probably fit.
    auto rank = [&](size_t i) {
      return std::pair(!one_fits && errors_.ExpectedBytes(plans[i]) > kFits * limit,
                       errors_.Expected(plans[i]));
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return rank(a) < rank(b); });
    if (order.empty()) return;
    task_.effort.Report("simulating " + plans[order[0]].from);
    for (size_t i : order) {
      if (ahead.Has(i)) continue;
      if (!ahead.has_room() && i != order[0]) break;
      ahead.Start(i, plans[i]);
    }
    size_t next = order[0];
    order.erase(order.begin());
    work += plans[next].work;
    Take(ahead.Wait(next), plans[next]);
    ++unfit;
  }
}

}  // namespace heddle
