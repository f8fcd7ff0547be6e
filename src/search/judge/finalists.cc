#include "search/judge/finalists.h"

#include <algorithm>
#include <future>

#include "base/log.h"
#include "base/parallel.h"
#include "plan/axes.h"
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
  bool data = BeginsWithData(plan.stages.front().mesh);
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

void EstimateErrors::AssumeRight(const Kind& kind) {
  Ratios& ratios = assumed_[kind];
  ratios.sum = ++ratios.count;
  ratios.least = 1;
}

bool EstimateErrors::IsAssumed(const Kind& kind) const {
  return assumed_.count(kind) > 0 && by_kind_.count(kind) == 0;
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
  for (const auto* ratios : {&by_kind_, &assumed_}) {
    if (auto found = ratios->find(proposal.kind); found != ratios->end()) return &found->second;
  }
  return nullptr;
}

double EstimateErrors::Expected(const Proposal& proposal) const {
  const Ratios* like = Like(proposal);
  return proposal.estimate * (like == nullptr ? 1 : like->sum / like->count);
}

double EstimateErrors::AtLeast(const Proposal& proposal, double spread) const {
  // Errors within a kind spread by kSpreadOfOne, divided by the number of plans seen, because one or two plans do not show the
  // least error of the kind. For a kind without simulated plans, errors of other kinds say nothing.
  constexpr double kSpreadOfOne = 0.02, kSpreadOfKinds = 0.03, kOfKinds = 1.5;
  const Ratios* like = Like(proposal);
  spread = std::max(spread, proposal.spread);
  double least = 1 - std::max(kSpreadOfKinds, kOfKinds * spread);
  if (like != nullptr) least = (1 - std::max(spread, kSpreadOfOne / like->count)) * like->least;
  return std::max(proposal.bound, proposal.estimate * least);
}

// A proposal that is being judged by a thread. The destructor tells the thread to stop and waits for it.
class Finalists::Running {
 public:
  Running(const SearchTask& task, RebatchedModels& models, Proposal proposal)
      : of_(std::move(proposal)) {
    judged_ = std::async(std::launch::async, [this, &task, &models] {
      JudgeOptions options{&abandoned_, &models, [this](const Proposal& at) { Fitted(at); }};
      std::optional<JudgedPlan> judged;
      try {
        judged = heddle::Judge(task, of_, options);
      } catch (const SimulationStopped&) {
      } catch (...) {
        Fitted(of_);
        throw;
      }
      Fitted(of_);  // if the plan was never fitted
      return judged;
    });
  }
  ~Running() { Abandon(); }

  const Proposal& of() const { return of_; }
  void Abandon() { abandoned_ = true; }
  // The proposal with its estimate after it was fitted to memory. The simulation may still be running then.
  Proposal WaitFitted() { return fitted_.get_future().get(); }
  // Nothing if the budget ended first.
  std::optional<JudgedPlan> Wait() { return judged_.get(); }
  bool ended() const {
    return judged_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

 private:
  void Fitted(const Proposal& at) {
    if (std::exchange(is_fitted_, true)) return;
    Proposal said;
    said.estimate = at.estimate;
    said.bound = at.bound;
    said.kind = at.kind;
    said.spread = at.spread;
    fitted_.set_value(std::move(said));
  }

  const Proposal of_;
  std::atomic<bool> abandoned_ = false;
  bool is_fitted_ = false;  // used by the judging thread only
  std::promise<Proposal> fitted_;
  std::future<std::optional<JudgedPlan>>
      judged_;  // the last member: its destructor waits for the thread
};

// The plans of a list that are being judged, by their index in it. The destructor stops all of them, then waits for them.
struct Finalists::Ahead {
  ~Ahead() {
    for (auto& [i, running] : all) running->Abandon();
  }
  std::unique_ptr<Running> Release(size_t i) { return std::move(all.extract(i).mapped()); }

  std::map<size_t, std::unique_ptr<Running>> all;
};

Finalists::Finalists(const SearchTask& task, SearchResult& out)
    : task_(task), out_(out), models_(task.model) {}

Finalists::~Finalists() {
  for (auto* running : {&prepared_, &late_}) {
    for (std::unique_ptr<Running>& at : *running) at->Abandon();
  }
}

bool IsQuick(double work, const JudgingEffort& effort) {
  constexpr double kQuick = 0.0008;
  return work < kQuick * effort.work;
}

void Finalists::Complete(Proposal& plan) {
  plan.MakePlan();
  if (plan.kind.empty()) plan.kind = KindOf(plan.plan);
}

void Finalists::Prepare(Proposal plan) {
  Complete(plan);
  std::lock_guard lock(mutex_);
  if (FindPrepared(plan) != prepared_.end()) return;
  prepared_.push_back(std::make_unique<Running>(task_, models_, std::move(plan)));
}

std::unique_ptr<Finalists::Running> Finalists::Start(const Proposal& plan) {
  std::lock_guard lock(mutex_);
  auto at = FindPrepared(plan);
  if (at == prepared_.end()) return std::make_unique<Running>(task_, models_, plan);
  std::unique_ptr<Running> found = std::move(*at);
  prepared_.erase(at);
  return found;
}

Finalists::AllRunning::iterator Finalists::FindPrepared(const Proposal& plan) {
  return std::find_if(prepared_.begin(), prepared_.end(), [&](const auto& at) {
    const Proposal& of = at->of();
    return of.from == plan.from && of.estimate == plan.estimate &&
           of.plan == Proposal(plan).MakePlan();
  });
}

// One plan for every two cores: some parts of judging a plan use one thread and others several, and some of the plans that run
// ahead turn out not to be needed. On two cores two plans: one uses the core that the other leaves idle.
bool Finalists::HasRoom(size_t running) const {
  size_t cores = CoreCount();
  std::lock_guard lock(mutex_);
  for (const auto* others : {&prepared_, &late_}) {
    running += static_cast<size_t>(std::count_if(
        others->begin(), others->end(), [](const auto& other) { return !other->ended(); }));
  }
  return running < (cores == 2 ? 2 : std::max<size_t>(1, cores / 2));
}

bool Finalists::has_room() const { return HasRoom(0); }

// While no plan fits, plans whose expected memory exceeds the limit by less than this factor come first: fitting them to
// memory adds little to their time.
constexpr double kFits = 1.1;

// The assumed spread of errors within a kind. If a simulation is a negligible part of the effort, the spread is larger, so that
// plans that are less likely to be faster are simulated as well.
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
  // The error is that of the estimate after fitting to memory, and it counts for the kind after fitting.
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
  for (Proposal& plan : plans) Complete(plan);
  Ahead ahead;
  size_t started = 0;
  for (size_t i = 0; i < plans.size() && !Ended(); ++i) {
    task_.effort.Report("simulating " + plans[i].from);
    for (; started < plans.size() && (started == i || HasRoom(started - i)); ++started) {
      ahead.all[started] = Start(plans[started]);
    }
    Take(ahead.Release(i)->Wait(), plans[i]);
  }
}

void Finalists::TakeLate(const JudgingEffort& effort) {
  auto all = [&] {
    std::lock_guard lock(mutex_);
    return std::exchange(late_, {});
  };
  for (AllRunning now = all(); !now.empty(); now = all()) {
    for (std::unique_ptr<Running>& late : now) {
      if (!Ended()) Take(late->Wait(), late->of());
    }
    errors_.ForgetAssumed();
    Judge(std::exchange(left_, {}), effort);
  }
}

void Finalists::Judge(std::vector<Proposal> plans, const JudgingEffort& effort) {
  Ahead ahead;
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
      bool slow = one_fits && errors_.AtLeast(plans[i], SpreadOf(plans[i], effort)) >= best_;
      if (slow && errors_.IsAssumed(plans[i].kind)) left_.push_back(plans[i]);
      return slow;
    });
    // Plans that probably fit come first.
    auto rank = [&](size_t i) {
      return std::pair(!one_fits && errors_.ExpectedBytes(plans[i]) > kFits * limit,
                       errors_.Expected(plans[i]));
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return rank(a) < rank(b); });
    if (order.empty()) return;
    task_.effort.Report("simulating " + plans[order[0]].from);
    for (size_t i : order) {
      if (ahead.all.count(i) > 0) continue;
      if (!HasRoom(ahead.all.size()) && i != order[0]) break;
      ahead.all[i] = Start(plans[i]);
    }
    size_t next = order[0];
    order.erase(order.begin());
    work += plans[next].work;
    std::unique_ptr<Running> running = ahead.Release(next);
    // A plan that turns out to be slow after it is fitted to memory is not waited for. Until its simulation has ended,
    // estimates of its kind are taken to be right.
    if (one_fits) {
      Proposal fitted = running->WaitFitted();
      if (errors_.AtLeast(fitted, SpreadOf(plans[next], effort)) >= best_) {
        bool same = fitted.estimate == plans[next].estimate;
        errors_.AssumeRight(same ? plans[next].kind : fitted.kind);
        std::lock_guard lock(mutex_);
        late_.push_back(std::move(running));
        continue;
      }
    }
    Take(running->Wait(), plans[next]);
    ++unfit;
  }
}

}  // namespace heddle
