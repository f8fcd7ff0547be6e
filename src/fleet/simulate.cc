#include "fleet/simulate.h"

#include <algorithm>
#include <queue>

#include "base/check.h"

namespace heddle {
namespace {

// The state of a job. It is idle, on a device, or promised to one.
struct LiveJob {
  const JobWork* work = nullptr;
  int64_t step = 0;
  size_t run = 0;  // the next run, or the current one
  bool running = false;
  int promised = -1;  // the device that will run it next
  int last_device = -1;
  double ready = 0;  // when the results of its last run are on the host
  int64_t last_turn = 0;
  double total = 0, step_seconds = 0;
  std::vector<double> before;       // of each run of a step: seconds of the runs before it
  std::vector<double> shard_ready;  // of each shard: when its last eviction is complete

  bool done() const { return step >= work->steps; }
  const ShardRun& next() const { return work->runs[run]; }
  double remaining(bool after) const {
    double left = step_seconds * static_cast<double>(work->steps - step) - before[run];
    return after ? left - next().seconds : left;
  }
};

struct LiveDevice {
  int job = -1;  // the running job
  double end = 0;
  int next = -1;          // the job whose shard is in the buffer or being fetched
  double next_ready = 0;  // when it is in the buffer
  bool stays = false;     // the next run uses the resident shard
  double copy_free = 0;
  // Bytes of the resident shard to write back before it is replaced: weights and optimizer state, and inputs of blocks.
  int64_t changed = 0, kept = 0;
  int resident_job = -1, resident_shard = -1;  // the shard that ran last
  int span = -1;                               // index of the current span in the result
};

struct RunEnd {
  double time = 0;
  int device = 0;
  bool operator>(const RunEnd& other) const {
    return time != other.time ? time > other.time : device > other.device;
  }
};

class FleetSimulation {
 public:
  FleetSimulation(const std::vector<JobWork>& jobs, const FleetDevices& devices,
                  const PolicyDef& policy)
      : options_(devices), policy_(policy), devices_(static_cast<size_t>(devices.devices)) {
    for (const JobWork& work : jobs) {
      HEDDLE_CHECK(!work.runs.empty() && work.steps >= 0);
      LiveJob job;
      job.work = &work;
      int shards = 0;
      for (const ShardRun& run : work.runs) {
        job.before.push_back(job.step_seconds);
        job.step_seconds += run.seconds;
        shards = std::max(shards, run.shard + 1);
      }
      job.total = TotalSeconds(work);
      job.shard_ready.assign(static_cast<size_t>(shards), 0);
      jobs_.push_back(std::move(job));
    }
    result_.finished.assign(jobs.size(), 0);
    result_.busy.assign(devices_.size(), 0);
  }

  FleetResult Run() {
    WakeAll(0);
    while (!ends_.empty()) {
      double now = ends_.top().time;
      while (!ends_.empty() && ends_.top().time == now) {
        int ended = ends_.top().device;
        ends_.pop();
        EndRun(ended, now);
      }
      WakeAll(now);
    }
    for (const LiveJob& at : jobs_) {
      HEDDLE_CHECK(at.done() || result_.makespan >= options_.until);
      result_.remaining.push_back(at.done() ? 0 : at.remaining(false));
    }
    return std::move(result_);
  }

 private:
  LiveDevice& device(int d) { return devices_[static_cast<size_t>(d)]; }
  LiveJob& job(int j) { return jobs_[static_cast<size_t>(j)]; }

  double CopySeconds(int64_t bytes) const {
    if (bytes == 0 || options_.host_bandwidth == 0) return 0;
    return options_.host_latency + static_cast<double>(bytes) / options_.host_bandwidth;
  }

  JobState StateOf(int j, int d, bool after) {
    const LiveJob& at = job(j);
    return {.job = j,
            .priority = at.work->priority,
            .total_seconds = at.total,
            .remaining_seconds = at.remaining(after),
            .last_turn = at.last_turn,
            .here = at.last_device == d};
  }

  // Chooses a job for a device, or -1. `behind`: the job is to follow the current run of the device.
  int Choose(int d, bool behind, bool promised) {
    candidates_.clear();
    for (int j = 0; j < static_cast<int>(jobs_.size()); ++j) {
      const LiveJob& at = job(j);
      if (at.done()) continue;
      bool own = behind && device(d).job == j;
      if (own && at.step + 1 == at.work->steps && at.run + 1 == at.work->runs.size()) continue;
      if (!own && (at.running || (at.promised >= 0) != promised)) continue;
      candidates_.push_back(StateOf(j, d, own));
      if (behind) candidates_.back().exposed_seconds = ExposedSeconds(d, j);
    }
    if (candidates_.empty()) return -1;
    if (behind) CompareToOwn(device(d).job);
    return candidates_[ChooseJob(policy_, candidates_)].job;
  }

  // How long a device would wait for the next shard of a job after its current run.
  double ExposedSeconds(int d, int j) {
    const LiveDevice& on = device(d);
    const LiveJob& at = job(j);
    bool own = on.job == j;
    const ShardRun& run = own ? at.work->runs[(at.run + 1) % at.work->runs.size()] : at.next();
    bool stays = own && run.shard == at.next().shard;
    int64_t bytes = (stays ? 0 : run.fetch_bytes) + (own ? 0 : run.boundary_in);
    // The current shard is written back after its run, which delays later copies.
    int64_t left = stays ? 0 : job(on.job).next().evict_bytes;
    return std::max(0.0, on.copy_free + CopySeconds(bytes) + CopySeconds(left) - on.end);
  }

  // Waits that the device has in any case do not count: they are subtracted.
  void CompareToOwn(int own) {
    double least = 0;
    for (const JobState& at : candidates_) {
      if (at.job == own) least = at.exposed_seconds;
    }
    for (JobState& at : candidates_) {
      at.exposed_seconds = std::max(0.0, at.exposed_seconds - least);
    }
  }

  // Fetches the next shard of job j to device d, during the current run of d if there is one.
  void Fetch(int d, int j, double now) {
    LiveDevice& on = device(d);
    LiveJob& at = job(j);
    bool behind = on.job == j;
    bool own = behind || (on.job < 0 && on.resident_job == j && at.last_device == d);
    const ShardRun& run = behind ? at.work->runs[(at.run + 1) % at.work->runs.size()] : at.next();
    on.next = j;
    on.stays = own && run.shard == (behind ? at.next().shard : on.resident_shard);
    if (!behind) at.promised = d;
    int64_t bytes = (on.stays ? 0 : run.fetch_bytes) + (own ? 0 : run.boundary_in);
    double begin = std::max(now, on.copy_free);
    if (!on.stays) begin = std::max(begin, at.shard_ready[static_cast<size_t>(run.shard)]);
    if (!own) begin = std::max(begin, at.ready);
    on.next_ready = now;
    if (bytes == 0) return;
    result_.fetched += bytes;
    on.next_ready = on.copy_free = begin + CopySeconds(bytes);
  }

  // Starts the next job of a device.
  void Begin(int d, double now) {
    LiveDevice& on = device(d);
    int j = on.next;
    LiveJob& at = job(j);
    double start = std::max(now, on.next_ready);
    result_.waited += start - now;
    if (at.last_device >= 0 && at.last_device != d) ++result_.moves;
    on.next = -1;
    on.job = j;
    at.promised = -1;
    at.running = true;
    at.last_device = d;
    at.last_turn = ++turns_;
    on.end = start + at.next().seconds;
    ++result_.runs;
    result_.busy[static_cast<size_t>(d)] += at.next().seconds;
    Extend(d, j, start, on.end);
    ends_.push({on.end, d});
    if (options_.double_buffering) LookAhead(d, now);
  }

  void LookAhead(int d, double now) {
    int next = Choose(d, /*behind=*/true, /*promised=*/false);
    if (next >= 0) Fetch(d, next, now);
  }

  void Extend(int d, int j, double begin, double end) {
    LiveDevice& on = device(d);
    if (on.span >= 0) {
      FleetSpan& last = result_.spans[static_cast<size_t>(on.span)];
      if (last.job == j && last.end == begin) {
        last.end = end;
        return;
      }
    }
    on.span = static_cast<int>(result_.spans.size());
    result_.spans.push_back({d, j, begin, end});
  }

  // Writes the results and changes of a shard to the host when it leaves the device.
  void WriteBack(int d, LiveJob& at, int shard, double now) {
    LiveDevice& on = device(d);
    int64_t bytes = on.changed + on.kept;
    on.changed = on.kept = 0;
    if (bytes == 0) return;
    result_.evicted += bytes;
    on.copy_free = std::max(now, on.copy_free) + CopySeconds(bytes);
    at.shard_ready[static_cast<size_t>(shard)] = on.copy_free;
  }

  void EndRun(int d, double now) {
    LiveDevice& on = device(d);
    int j = on.job;
    LiveJob& at = job(j);
    const ShardRun& ended = at.next();
    at.running = false;
    at.run = (at.run + 1) % at.work->runs.size();
    if (at.run == 0) ++at.step;
    on.job = -1;
    on.resident_job = j;
    on.resident_shard = ended.shard;
    (ended.backward ? on.changed : on.kept) = ended.evict_bytes;
    bool goes_on = on.next == j;
    if (!goes_on && !at.done()) SendBoundary(d, at, ended, now);
    if (!goes_on || !on.stays) WriteBack(d, at, ended.shard, now);
    if (at.done()) {
      double end = std::max(now, on.copy_free);
      result_.finished[static_cast<size_t>(j)] = end;
      result_.makespan = std::max(result_.makespan, end);
    }
    if (now >= options_.until) {
      if (on.next >= 0) job(on.next).promised = -1;
      on.next = -1;
      result_.makespan = std::max(result_.makespan, std::max(now, on.copy_free));
    }
    if (on.next >= 0) Begin(d, now);
  }

  void SendBoundary(int d, LiveJob& at, const ShardRun& ended, double now) {
    LiveDevice& on = device(d);
    on.copy_free = std::max(now, on.copy_free) + CopySeconds(ended.boundary_out);
    result_.evicted += ended.boundary_out;
    at.ready = on.copy_free;
  }

  // Gives idle devices work: free jobs first, then jobs that are promised to a busy device.
  void WakeAll(double now) {
    if (now >= options_.until) return;
    for (int d = 0; d < static_cast<int>(devices_.size()); ++d) {
      if (device(d).job >= 0) continue;
      int chosen = Choose(d, /*behind=*/false, /*promised=*/false);
      int from = -1;
      if (chosen < 0) {
        chosen = Choose(d, /*behind=*/false, /*promised=*/true);
        if (chosen < 0) return;  // the other idle devices would find none either
        from = job(chosen).promised;
      }
      if (from >= 0) device(from).next = -1;
      Fetch(d, chosen, now);
      Begin(d, now);
      if (from >= 0) LookAhead(from, now);
    }
  }

  FleetDevices options_;
  const PolicyDef& policy_;
  std::vector<LiveJob> jobs_;
  std::vector<LiveDevice> devices_;
  std::priority_queue<RunEnd, std::vector<RunEnd>, std::greater<>> ends_;
  std::vector<JobState> candidates_;
  FleetResult result_;
  int64_t turns_ = 0;
};

}  // namespace

double FleetResult::utilisation() const {
  double compute = 0;
  for (double seconds : busy) compute += seconds;
  return makespan > 0 ? compute / (makespan * static_cast<double>(busy.size())) : 0;
}

FleetResult SimulateFleet(const std::vector<JobWork>& jobs, const FleetDevices& devices,
                          const PolicyDef& policy) {
  HEDDLE_CHECK(devices.devices > 0 && devices.host_bandwidth >= 0);
  return FleetSimulation(jobs, devices, policy).Run();
}

}  // namespace heddle
