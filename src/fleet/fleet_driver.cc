#include "fleet/fleet_driver.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "fleet/gangs.h"
#include "fleet/widen.h"

namespace heddle {

FleetDriver::FleetDriver(const PreparedFleet& fleet, std::vector<JobRunner*> jobs,
                         FleetDriverOptions options)
    : fleet_(fleet), jobs_(std::move(jobs)), options_(std::move(options)) {
  StartHalving();
}

FleetRun FleetDriver::Run() {
  FleetRun run;
  run.jobs.resize(jobs_.size());
  for (size_t j = 0; j < jobs_.size(); ++j) {
    run.jobs[j].step = jobs_[j]->first_step();
    run.jobs[j].remaining_seconds = TotalSeconds(Left(j, run.jobs[j].step));
  }
  if (!ShouldLeaveShards(run)) run = RunShards();
  if (goes_wide_ && !Interrupted()) RunSeveral(run);
  return run;
}

void FleetDriver::OnStep(int j, const StepRecord& record, const FleetRun& so_far,
                         DispatchControl& control) {
  jobs_[static_cast<size_t>(j)]->Add(record);
  if (halving_) {
    halving_->Report(j, record.step + 1, record.loss);
    Apply(control);
  }
  if (Interrupted()) stopped_ = true;
  if (options_.on_step) options_.on_step(so_far);
}

void FleetDriver::OnEnd(int j, const FleetRun& so_far, DispatchControl& control) {
  if (halving_ && !so_far.jobs[static_cast<size_t>(j)].error.empty()) {
    // A failed job neither waits for others nor do they wait for it.
    halving_->Report(j, halving_->NextReport(j), std::nan(""));
    Apply(control);
  }
  if (options_.on_end) options_.on_end(j, so_far);
  if (ShouldLeaveShards(so_far)) stopped_ = true;
}

FleetRun FleetDriver::RunShards() {
  std::vector<DispatchJob> jobs;
  for (size_t j = 0; j < jobs_.size(); ++j) {
    DispatchJob job{&jobs_[j]->Shards(), StepsOf(j), fleet_.spec().jobs[j].priority, {}, false};
    for (const ShardRun& run : fleet_.works()[j].runs) job.visit_seconds.push_back(run.seconds);
    job.paused = Verdict(j) == HalvingVerdict::kWait;
    if (Verdict(j) == HalvingVerdict::kEnd) job.steps = jobs_[j]->first_step();
    jobs.push_back(std::move(job));
  }
  return Dispatch(jobs,
                  {.devices = static_cast<int>(fleet_.machine().devices),
                   .double_buffering = fleet_.options().double_buffering,
                   .stop = &stopped_},
                  options_.policy, this);
}

JobWork FleetDriver::Left(size_t j, int64_t steps) const {
  JobWork work = fleet_.works()[j];
  work.steps -= steps;
  return work;
}

bool FleetDriver::ShouldLeaveShards(const FleetRun& so_far) {
  if (!fleet_.several() || goes_wide_) return false;
  std::vector<JobWork> works;
  std::vector<JobCurve> curves;
  for (size_t j = 0; j < jobs_.size(); ++j) {
    const DispatchedJob& job = so_far.jobs[j];
    if (job.finished > 0 || Verdict(j) != HalvingVerdict::kGoOn || job.step >= StepsOf(j)) continue;
    JobWork work = Left(j, job.step);
    double pace = job.remaining_seconds / TotalSeconds(work);
    for (ShardRun& run : work.runs) run.seconds *= pace;
    JobCurve curve = fleet_.PlannedOf(j).curve;
    bool begun = job.step > 0 || !job.records.empty();
    for (CurvePoint& point : curve.points) {
      point.seconds = point.seconds * pace * static_cast<double>(work.steps) +
                      (begun ? fleet_.options().switch_seconds : 0);
    }
    works.push_back(std::move(work));
    curves.push_back(std::move(curve));
  }
  if (works.empty()) return false;
  WideFleet wide =
      WidenFleet(works, fleet_.devices(), options_.policy, curves, fleet_.options().switch_seconds);
  goes_wide_ = wide.from == 0 && !wide.several.pieces.empty();
  return goes_wide_;
}

void FleetDriver::RunSeveral(FleetRun& run) {
  std::vector<GangJob> gangs;
  for (size_t j = 0; j < jobs_.size(); ++j) {
    jobs_[j]->LetGo();
    GangJob gang{.runner = jobs_[j], .steps = StepsOf(j)};
    // The time in shards is measured if the job ran in shards. Plans for more devices are scaled by the same error.
    JobWork left = Left(j, run.jobs[j].step);
    double pace = left.steps > 0 ? run.jobs[j].remaining_seconds / TotalSeconds(left) : 1;
    gang.step = {fleet_.spec().jobs[j].name, {{1, StepSeconds(left) * pace}}};
    for (const CurvePoint& point : fleet_.PlannedOf(j).curve.points)
      gang.step.points.push_back({point.devices, point.seconds * pace});
    gang.paused = Verdict(j) == HalvingVerdict::kWait;
    // The job has finished its steps, or early stopping ended it while it was stopped.
    bool over = left.steps <= 0 || Verdict(j) == HalvingVerdict::kEnd;
    if (over && run.jobs[j].finished == 0) {
      run.jobs[j].finished = std::max(run.seconds, 1e-9);
      run.jobs[j].ended_early = left.steps > 0;
    }
    gangs.push_back(std::move(gang));
  }
  RunGangs(gangs,
           {.devices = fleet_.machine().devices,
            .switch_seconds = fleet_.options().switch_seconds,
            .stop = options_.interrupted},
           run, this);
}

HalvingVerdict FleetDriver::Verdict(size_t j) const {
  return halving_ ? halving_->VerdictOf(static_cast<int>(j)) : HalvingVerdict::kGoOn;
}

// After a restart, rungs that jobs had already reached are evaluated with the losses of that time.
void FleetDriver::StartHalving() {
  if (!fleet_.spec().halving) return;
  std::vector<int64_t> steps;
  for (size_t j = 0; j < jobs_.size(); ++j) steps.push_back(StepsOf(j));
  halving_.emplace(*fleet_.spec().halving, std::move(steps));
  for (bool more = true; more;) {
    more = false;
    for (size_t j = 0; j < jobs_.size(); ++j) {
      int job = static_cast<int>(j);
      int64_t next = halving_->NextReport(job);
      if (halving_->VerdictOf(job) != HalvingVerdict::kGoOn || next < 1 ||
          next > std::ssize(jobs_[j]->losses()) || next >= StepsOf(j))
        continue;
      halving_->Report(job, next, jobs_[j]->losses()[static_cast<size_t>(next - 1)]);
      more = true;
    }
  }
}

void FleetDriver::Apply(DispatchControl& control) const {
  for (int j = 0; j < static_cast<int>(jobs_.size()); ++j) {
    switch (halving_->VerdictOf(j)) {
      case HalvingVerdict::kWait:
        control.Pause(j);
        break;
      case HalvingVerdict::kGoOn:
        control.Resume(j);
        break;
      case HalvingVerdict::kEnd:
        control.End(j);
        break;
    }
  }
}

}  // namespace heddle
