#include "fleet/dispatch.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>

#include "base/check.h"
#include "base/clock.h"

namespace heddle {
namespace {

constexpr int kNone = -1;

enum class Place : uint8_t {
  kAway,      // on no device: any device may take it
  kPromised,  // being fetched to a device, or fetched
  kRunning,
  kResting,  // on the device that ran it last
  kEnded
};

struct Job {
  DispatchJob in;
  Place place = Place::kAway;
  int visit = 0;
  int64_t step = 0, last_turn = 0;
  bool to_end = false, stopped = false, paused = false;
  bool running = false;         // a thread is in its Run
  std::vector<double> seconds;  // mean seconds of each visit
  std::vector<int64_t> runs;    // number of runs of each visit
};

// The next copies of a device's second thread.
struct Copies {
  int leaving = kNone, coming = kNone;
  int visit = 0;  // the visit of the job to fetch
};

struct Device {
  std::optional<Copies> order;
  bool copying = false;
  int promised = kNone;  // the job being fetched, or fetched
  int resting = kNone;   // the job that is on the device without running
};

class Dispatcher : DispatchControl {
 public:
  Dispatcher(const std::vector<DispatchJob>& jobs, const DispatchOptions& options,
             const PolicyDef& policy, FleetObserver* observer)
      : options_(options),
        policy_(policy),
        observer_(observer),
        devices_(static_cast<size_t>(options.devices)),
        began_(SteadySeconds()) {
    out_.jobs.resize(jobs.size());
    out_.busy.assign(devices_.size(), 0);
    for (size_t j = 0; j < jobs.size(); ++j) {
      Job job;
      job.in = jobs[j];
      job.paused = jobs[j].paused;
      job.step = out_.jobs[j].step = jobs[j].runner->first_step();
      job.seconds = jobs[j].visit_seconds;
      job.seconds.resize(static_cast<size_t>(jobs[j].runner->visits()), 0);
      job.runs.assign(job.seconds.size(), 0);
      jobs_.push_back(std::move(job));
    }
    for (size_t j = 0; j < jobs.size(); ++j) {
      if (jobs_[j].step >= jobs[j].steps)
        Ended(static_cast<int>(j));
      else
        out_.jobs[j].remaining_seconds = Remaining(jobs_[j]);
    }
  }

  FleetRun Run() {
    std::vector<std::thread> threads;
    for (size_t d = 0; d < devices_.size(); ++d) {
      threads.emplace_back([this, d] { Work(static_cast<int>(d)); });
      threads.emplace_back([this, d] { Copy(static_cast<int>(d)); });
    }
    for (std::thread& thread : threads) thread.join();
    out_.seconds = SteadySeconds() - began_;
    return std::move(out_);
  }

 private:
  void End(int j) override {
    job(j).to_end = true;
    job(j).paused = false;
    changed_.notify_all();
  }
  void Pause(int j) override { job(j).paused = true; }
  void Resume(int j) override {
    job(j).paused = false;
    changed_.notify_all();
  }

  Device& device(int d) { return devices_[static_cast<size_t>(d)]; }
  Job& job(int j) { return jobs_[static_cast<size_t>(j)]; }
  DispatchedJob& out(int j) { return out_.jobs[static_cast<size_t>(j)]; }

  // ---- Choosing jobs. The lock is held.

  double Remaining(const Job& at) const {
    double step = std::accumulate(at.seconds.begin(), at.seconds.end(), 0.0);
    double rest = std::accumulate(at.seconds.begin() + at.visit, at.seconds.end(), 0.0);
    return rest + static_cast<double>(at.in.steps - at.step - 1) * step;
  }

  // A device may take jobs that are on no device, the job that rests on it, and `also`, which will rest on it.
  int Choose(int d, int also = kNone) {
    std::vector<JobState> candidates;
    for (int j = 0; j < static_cast<int>(jobs_.size()); ++j) {
      const Job& at = job(j);
      bool here = device(d).resting == j || also == j;
      if ((at.place != Place::kAway && !here) || (at.paused && also != j)) continue;
      double all = std::accumulate(at.seconds.begin(), at.seconds.end(), 0.0) *
                   static_cast<double>(at.in.steps);
      candidates.push_back({.job = j,
                            .priority = at.in.priority,
                            .total_seconds = all,
                            .remaining_seconds = Remaining(at),
                            .last_turn = at.last_turn,
                            .here = here});
    }
    return candidates.empty() ? kNone : candidates[ChooseJob(policy_, candidates)].job;
  }

  bool IsStopped() const { return options_.stop != nullptr && options_.stop->load(); }

  bool AllEnded() const {
    return std::all_of(jobs_.begin(), jobs_.end(),
                       [](const Job& at) { return at.place == Place::kEnded; });
  }

  // The visit after the current one; nullopt after the last visit of the job.
  std::optional<int> VisitAfter(const Job& at) const {
    if (at.visit + 1 < static_cast<int>(at.seconds.size())) return at.visit + 1;
    return at.step + 1 < at.in.steps ? std::optional(0) : std::nullopt;
  }

  // ---- The second thread of a device, for copies.

  void Copy(int d) {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return device(d).order || over_; });
      if (!device(d).order) return;
      Copies order = *device(d).order;
      device(d).order.reset();
      if (order.leaving != kNone) {
        Guarded(lock, order.leaving, [&] { job(order.leaving).in.runner->Leave(); });
        if (job(order.leaving).place == Place::kEnded) {
          FreeMemory(lock, order.leaving);
        } else {
          job(order.leaving).place = Place::kAway;
        }
        changed_.notify_all();
      }
      if (order.coming != kNone && job(order.coming).place != Place::kEnded) {
        Guarded(lock, order.coming, [&] { job(order.coming).in.runner->Prefetch(order.visit, d); });
        if (job(order.coming).place == Place::kEnded) FreeMemory(lock, order.coming);
      }
      device(d).copying = false;
      changed_.notify_all();
    }
  }

  void Order(int d, const Copies& copies) {
    if (copies.leaving == kNone && copies.coming == kNone) return;
    device(d).order = copies;
    device(d).copying = true;
    changed_.notify_all();
  }

  // Runs `body` without the lock. An exception ends the job.
  template <typename Body>
  void Guarded(std::unique_lock<std::mutex>& lock, int j, const Body& body) {
    std::string error;
    lock.unlock();
    try {
      body();
    } catch (const std::exception& thrown) {
      error = thrown.what();
    }
    lock.lock();
    if (error.empty() || job(j).place == Place::kEnded) return;
    out(j).error = error;
    Ended(j);
  }

  // Frees the device memory of a failed job. If the job is running, its worker does so.
  void FreeMemory(std::unique_lock<std::mutex>& lock, int j) {
    if (job(j).running) return;
    lock.unlock();
    try {
      job(j).in.runner->Leave();
    } catch (const std::exception&) {
    }
    lock.lock();
  }

  void Ended(int j) {
    out(j).finished = std::max(SteadySeconds() - began_, 1e-9);
    out(j).remaining_seconds = 0;
    MarkEnded(j);
    if (observer_ != nullptr) observer_->OnEnd(j, out_, *this);
  }

  // Marks a job as gone: it has ended, or all jobs are stopped.
  void MarkEnded(int j) {
    job(j).place = Place::kEnded;
    out(j).device = kNone;
    if (AllEnded()) over_ = true;
    changed_.notify_all();
  }

  // ---- The worker of a device.

  void Work(int d) {
    std::unique_lock lock(mutex_);
    for (;;) {
      int j = Take(lock, d);
      if (j == kNone) return;
      RunOne(lock, d, j);
    }
  }

  // Takes the next job of a device. If its shard is being fetched, waits until the copy has ended.
  int Take(std::unique_lock<std::mutex>& lock, int d) {
    for (;;) {
      if (over_) return kNone;
      if (IsStopped()) StopAll();
      if (int j = device(d).promised; j != kNone) {
        if (device(d).copying) {
          changed_.wait(lock);
          continue;
        }
        device(d).promised = kNone;
        if (job(j).place == Place::kEnded) continue;
        return j;
      }
      // A shard that is still being evicted has the memory that the next one needs.
      int j = device(d).copying ? kNone : Choose(d);
      if (j == kNone) {
        changed_.wait(lock);
        continue;
      }
      return j;
    }
  }

  // Stops all jobs: none of them starts another step. Paused jobs are resumed so that they can end.
  void StopAll() {
    for (Job& at : jobs_) {
      at.stopped = true;
      at.paused = false;
    }
  }

  void RunOne(std::unique_lock<std::mutex>& lock, int d, int j) {
    int before = device(d).resting;
    device(d).resting = kNone;
    Job& at = job(j);
    at.place = Place::kRunning;
    at.last_turn = ++turns_;
    if ((at.to_end || at.stopped) && at.visit == 0) {  // the job is between two steps
      device(d).resting = before == j ? kNone : before;
      return Conclude(lock, j);
    }
    out(j).device = d;
    int leaving = before != j ? before : kNone;
    if (options_.double_buffering) {
      Order(d, {leaving, Promise(d, j), next_visit_});
    } else if (leaving != kNone) {
      Order(d, {leaving, kNone, 0});
      changed_.wait(lock, [&] { return !device(d).copying; });
    }
    double begin = SteadySeconds();
    std::optional<StepRecord> record;
    at.running = true;
    Guarded(lock, j, [&] { record = at.in.runner->Run(at.step, at.visit, d); });
    at.running = false;
    double end = SteadySeconds();
    Note(d, j, begin, end);
    if (at.place == Place::kEnded) return FreeMemory(lock, j);  // the job failed
    Advance(lock, d, j, end - begin, record);
  }

  // Chooses the job that follows the running one. It is promised to this device from now on.
  int Promise(int d, int running) {
    Job& at = job(running);
    std::optional<int> after = VisitAfter(at);
    int next = Choose(d, after && !at.to_end ? running : kNone);
    if (next == kNone) return kNone;
    device(d).promised = next;
    next_visit_ = next == running ? *after : job(next).visit;
    if (next != running) job(next).place = Place::kPromised;
    // The next step begins with the shard that the current visit updates on the device, so nothing is fetched.
    return next == running && next_visit_ == 0 ? kNone : next;
  }

  void Note(int d, int j, double begin, double end) {
    out_.busy[static_cast<size_t>(d)] += end - begin;
    out_.spans.push_back({d, j, begin - began_, end - began_});
  }

  void Advance(std::unique_lock<std::mutex>& lock, int d, int j, double seconds,
               const std::optional<StepRecord>& record) {
    Job& at = job(j);
    auto v = static_cast<size_t>(at.visit);
    double runs = static_cast<double>(at.runs[v]++);
    at.seconds[v] = (at.seconds[v] * runs + seconds) / (runs + 1);
    out(j).device = kNone;
    ++at.visit;
    if (record) {
      at.visit = 0;
      out(j).step = ++at.step;
      out(j).records.push_back(*record);
      out(j).remaining_seconds = at.step < at.in.steps ? Remaining(at) : 0;
      if (observer_ != nullptr) observer_->OnStep(j, *record, out_, *this);
      if (IsStopped()) StopAll();
      if (at.step >= at.in.steps || at.to_end || at.stopped) {
        if (device(d).promised == j) {
          changed_.wait(lock, [&] { return !device(d).copying; });
          device(d).promised = kNone;
        }
        return Conclude(lock, j);
      }
      // The paused job was promised to this device.
      if (at.paused && device(d).promised == j) device(d).promised = kNone;
    }
    at.place = device(d).promised == j ? Place::kPromised : Place::kResting;
    device(d).resting = j;
    changed_.notify_all();
  }

  // Ends a job that is between two steps.
  void Conclude(std::unique_lock<std::mutex>& lock, int j) {
    Job& at = job(j);
    Guarded(lock, j, [&] {
      at.in.runner->Finish();
      at.in.runner->Leave();
    });
    if (at.place == Place::kEnded) return;  // Finish or Leave failed
    bool all = at.step >= at.in.steps;
    if (!all && !at.to_end) return MarkEnded(j);
    out(j).ended_early = !all;
    Ended(j);
  }

  const DispatchOptions& options_;
  const PolicyDef& policy_;
  FleetObserver* observer_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Job> jobs_;
  std::vector<Device> devices_;
  int64_t turns_ = 0;
  int next_visit_ = 0;
  bool over_ = false;
  double began_;
  FleetRun out_;
};

}  // namespace

double FleetRun::utilisation() const {
  double all = std::accumulate(busy.begin(), busy.end(), 0.0);
  return seconds > 0 ? all / (seconds * static_cast<double>(busy.size())) : 0;
}

FleetRun Dispatch(const std::vector<DispatchJob>& jobs, const DispatchOptions& options,
                  const PolicyDef& policy, FleetObserver* observer) {
  HEDDLE_CHECK(options.devices > 0, "{} devices", options.devices);
  return Dispatcher(jobs, options, policy, observer).Run();
}

}  // namespace heddle
