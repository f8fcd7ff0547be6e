#include "fleet/gangs.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "base/clock.h"

namespace heddle {
namespace {

struct Gang {
  GangJob in;
  std::map<int64_t, double> measured;  // mean seconds of a step by number of devices
  double pace = 1;                     // measured / predicted time
  JobPlace place = {};                 // the devices it runs on; none: it does not run
  std::atomic<bool> stop = false;
  bool to_end = false, paused = false;
  int64_t steps_here = 0;  // steps since it began on these devices
  double begin = 0, end = 0;
  std::thread thread = {};

  bool runs() const { return place.first >= 0; }
  bool IsAt(const SpasePiece& piece) const {
    return place.first == piece.first && place.devices == piece.devices;
  }
};

class GangScheduler : DispatchControl {
 public:
  GangScheduler(const std::vector<GangJob>& jobs, const GangOptions& options, FleetRun& run,
                FleetObserver* observer)
      : options_(options), observer_(observer), out_(run), began_(SteadySeconds() - run.seconds) {
    for (const GangJob& job : jobs) {
      Gang& gang = gangs_.emplace_back();
      gang.in = job;
      gang.paused = job.paused;
    }
  }

  void Run() {
    std::unique_lock lock(mutex_);
    Resolve(options_.resolve.first);
    for (;;) {
      if (IsStopped()) StopAll();
      if (plan_is_void_ || ended_) Resolve(options_.resolve.solve);
      if (!IsStopped()) Start();
      bool any = std::any_of(gangs_.begin(), gangs_.end(), [](const Gang& g) { return g.runs(); });
      if (!any && IsStopped()) break;
      if (!any && LeftToRun() == 0) break;
      HEDDLE_CHECK(any, "jobs are left but none is running");
      changed_.wait(lock, [&] { return wake_; });
      wake_ = false;
    }
    lock.unlock();
    for (Gang& gang : gangs_) {
      if (gang.thread.joinable()) gang.thread.join();
    }
    out_.seconds = Now();
  }

 private:
  void End(int j) override {
    gang(j).to_end = true;
    gang(j).paused = false;
    gang(j).stop = true;
    if (!gang(j).runs() && !IsOver(j)) Over(j);  // a running job ends by itself
    DiscardSchedule();
  }
  void Pause(int j) override {
    if (gang(j).paused) return;
    gang(j).paused = gang(j).stop = true;
    DiscardSchedule();
  }
  void Resume(int j) override {
    if (!gang(j).paused) return;
    gang(j).paused = false;
    DiscardSchedule();
  }

  Gang& gang(int j) { return gangs_[static_cast<size_t>(j)]; }
  DispatchedJob& out(int j) { return out_.jobs[static_cast<size_t>(j)]; }
  int count() const { return static_cast<int>(gangs_.size()); }
  double Now() const { return SteadySeconds() - began_; }
  bool IsStopped() const { return options_.stop != nullptr && options_.stop->load(); }
  bool IsOver(int j) { return out(j).finished > 0; }
  int LeftToRun() {
    int left = 0;
    for (int j = 0; j < count(); ++j) left += !IsOver(j) && !gang(j).paused;
    return left;
  }

  void Wake() {
    wake_ = true;
    changed_.notify_all();
  }
  // Discards the schedule, because it is not for the current jobs.
  void DiscardSchedule() {
    plan_is_void_ = true;
    Wake();
  }
  void StopAll() {
    for (Gang& at : gangs_) at.stop = true;
  }

  // ---- Scheduling. The lock is held.

  double StepSeconds(const Gang& at, const CurvePoint& point) const {
    auto found = at.measured.find(point.devices);
    return found != at.measured.end() ? found->second : point.seconds * at.pace;
  }

  double SecondsLeft(int j, int64_t devices) {
    for (const CurvePoint& point : gang(j).in.step.points) {
      if (point.devices == devices)
        return StepSeconds(gang(j), point) * static_cast<double>(gang(j).in.steps - out(j).step);
    }
    HEDDLE_CHECK(false, "job {} has no plan for {} devices", j, devices);
  }

  // The problem of all jobs that may run.
  SpaseProblem RemainingProblem(std::vector<int>& numbers) {
    SpaseProblem problem{.devices = options_.devices, .switch_seconds = options_.switch_seconds};
    for (int j = 0; j < count(); ++j) {
      if (IsOver(j) || gang(j).paused) continue;
      JobCurve curve{gang(j).in.step.name};
      for (const CurvePoint& point : gang(j).in.step.points) {
        if (point.devices > options_.devices) break;
        double seconds = SecondsLeft(j, point.devices);
        bool better = curve.points.empty() || seconds < curve.points.back().seconds;
        // The current number of devices stays in the problem; without it, leaving it would cost nothing.
        bool here = gang(j).runs() && gang(j).place.devices == point.devices;
        if (here && !better) seconds = curve.points.back().seconds * (1 - 1e-9);
        if (better || here) curve.points.push_back({point.devices, seconds});
      }
      problem.jobs.push_back(std::move(curve));
      problem.places.push_back(gang(j).place);
      numbers.push_back(j);
    }
    return problem;
  }

  // The remaining time of the current schedule with the step times known now.
  double PlannedSeconds() {
    std::vector<double> free(static_cast<size_t>(options_.devices), 0);
    double all = 0;
    auto add = [&](const SpasePiece& piece) {
      auto first = free.begin() + piece.first;
      double begin = *std::max_element(first, first + piece.devices);
      double end = begin + SecondsLeft(piece.job, piece.devices);
      std::fill(first, first + piece.devices, end);
      all = std::max(all, end);
    };
    for (bool running : {true, false}) {
      for (const SpasePiece& piece : plan_) {
        if (!IsOver(piece.job) && gang(piece.job).runs() == running) add(piece);
      }
    }
    return all;
  }

  void Resolve(const SpaseOptions& how) {
    ended_ = false;
    std::vector<int> numbers;
    SpaseProblem problem = RemainingProblem(numbers);
    if (problem.jobs.empty()) {
      plan_.clear();
      plan_is_void_ = false;
      return;
    }
    SpaseSchedule found = SolveSpase(problem, how);
    if (!plan_is_void_ && !plan_.empty() &&
        found.makespan >= PlannedSeconds() * (1 - options_.resolve.threshold))
      return;
    plan_is_void_ = false;
    plan_ = std::move(found.pieces);
    for (SpasePiece& piece : plan_) {
      piece.job = numbers[static_cast<size_t>(piece.job)];
      Gang& at = gang(piece.job);
      if (!at.runs() || (at.IsAt(piece) && piece.begin == 0)) continue;
      at.stop = true;
      ++out_.switches;
    }
  }

  // Starts the pieces whose devices are free, in the order of the schedule. A device waits for the first piece that
  // needs it.
  void Start() {
    std::vector<bool> taken(static_cast<size_t>(options_.devices), false);
    auto mark = [&](int64_t first, int64_t devices) {
      std::fill_n(taken.begin() + first, devices, true);
    };
    for (const Gang& at : gangs_) {
      if (at.runs()) mark(at.place.first, at.place.devices);
    }
    for (const SpasePiece& piece : plan_) {
      Gang& at = gang(piece.job);
      if (IsOver(piece.job) || at.paused || (at.runs() && !at.stop)) continue;
      auto first = taken.begin() + piece.first;
      bool waits =
          at.runs() || std::find(first, first + piece.devices, true) != first + piece.devices;
      mark(piece.first, piece.devices);
      if (!waits) Begin(piece);
    }
  }

  void Begin(const SpasePiece& piece) {
    Gang& at = gang(piece.job);
    if (at.thread.joinable()) at.thread.join();  // the thread has ended its work
    at.place = {piece.first, piece.devices};
    at.stop = false;
    at.steps_here = 0;
    out(piece.job).device = static_cast<int>(piece.first);
    out(piece.job).devices = piece.devices;
    at.thread = std::thread([this, job = piece.job] { Work(job); });
  }

  // ---- The thread of a job.

  void Work(int j) {
    JobPlace place = gang(j).place;
    std::string error;
    try {
      gang(j).in.runner->Run(place.first, place.devices, gang(j).stop,
                             [&](const StepRecord& record) { Step(j, record); });
    } catch (const std::exception& thrown) {
      error = thrown.what();
      if (error.empty()) error = "unknown error";
    }
    std::unique_lock lock(mutex_);
    Gang& at = gang(j);
    if (at.steps_here > 0) {
      for (int64_t d = 0; d < place.devices; ++d) {
        out_.spans.push_back(
            {static_cast<int>(place.first + d), j, at.begin, at.end, place.devices});
      }
    }
    at.place = {};
    out(j).device = -1;
    out(j).error = error;
    if (!error.empty() || out(j).step >= at.in.steps || at.to_end) {
      Over(j);
      ended_ = true;
    }
    Wake();
  }

  void Step(int j, const StepRecord& record) {
    std::unique_lock lock(mutex_);
    Gang& at = gang(j);
    at.end = Now();
    if (at.steps_here == 0) at.begin = at.end - record.seconds;
    for (int64_t d = 0; d < at.place.devices; ++d)
      out_.busy[static_cast<size_t>(at.place.first + d)] += record.seconds;
    Measure(at, record.seconds);
    ++at.steps_here;
    ++out(j).step;
    out(j).records.push_back(record);
    out(j).remaining_seconds = SecondsLeft(j, at.place.devices);
    if (observer_ != nullptr) observer_->OnStep(j, record, out_, *this);
    if (IsStopped()) StopAll();
  }

  // The first step on new devices is slower and is not measured.
  void Measure(Gang& at, double seconds) {
    if (at.steps_here == 0) return;
    double n = static_cast<double>(at.steps_here);
    double& mean = at.measured[at.place.devices];
    mean = at.steps_here == 1 ? seconds : mean + (seconds - mean) / n;
    for (const CurvePoint& point : at.in.step.points) {
      if (point.devices == at.place.devices && point.seconds > 0) at.pace = mean / point.seconds;
    }
  }

  void Over(int j) {
    out(j).finished = std::max(Now(), 1e-9);
    out(j).ended_early = out(j).step < gang(j).in.steps;
    out(j).remaining_seconds = 0;
    if (observer_ != nullptr) observer_->OnEnd(j, out_, *this);
  }

  const GangOptions& options_;
  FleetObserver* observer_;
  FleetRun& out_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Gang> gangs_;
  std::vector<SpasePiece> plan_;
  bool plan_is_void_ = true, ended_ = false, wake_ = false;
  double began_;
};

}  // namespace

void RunGangs(const std::vector<GangJob>& jobs, const GangOptions& options, FleetRun& run,
              FleetObserver* observer) {
  HEDDLE_CHECK(options.devices > 0 && jobs.size() == run.jobs.size());
  run.busy.resize(static_cast<size_t>(options.devices), 0);
  GangScheduler(jobs, options, run, observer).Run();
}

}  // namespace heddle
