#include "fleet/widen.h"

#include <algorithm>
#include <set>

#include "base/check.h"

namespace heddle {
namespace {

// The time of a job alone on one device / its compute time: the slowdown by copies that nothing hides.
double SlowdownAlone(JobWork job, FleetDevices devices, const PolicyDef& policy) {
  job.steps = std::min<int64_t>(job.steps, 20);
  devices.devices = 1;
  double compute = TotalSeconds(job);
  return compute > 0 ? SimulateFleet({job}, devices, policy).makespan / compute : 1;
}

// The remaining problem: jobs run in shards on one device, or by their curve on several. Sets `jobs` to their numbers.
SpaseProblem RemainingProblem(const std::vector<JobWork>& works,
                              const std::vector<JobCurve>& curves,
                              const std::vector<double>& remaining,
                              const std::vector<double>& slowdown, int64_t devices,
                              double switch_seconds, std::vector<int>& jobs) {
  SpaseProblem problem;
  problem.devices = devices;
  problem.switch_seconds = switch_seconds;
  jobs.clear();
  for (size_t j = 0; j < works.size(); ++j) {
    if (remaining[j] <= 0) continue;
    double part = remaining[j] / TotalSeconds(works[j]);
    bool begun = part < 1;
    JobCurve curve{works[j].name, {{1, remaining[j] * slowdown[j]}}};
    for (const CurvePoint& point : curves[j].points) {
      double seconds = point.seconds * part + (begun ? switch_seconds : 0);
      if (point.devices < 2 || point.devices > devices) continue;
      if (seconds < curve.points.back().seconds) curve.points.push_back({point.devices, seconds});
    }
    problem.jobs.push_back(std::move(curve));
    jobs.push_back(static_cast<int>(j));
  }
  return problem;
}

}  // namespace

WideFleet WidenFleet(const std::vector<JobWork>& jobs, const FleetDevices& devices,
                     const PolicyDef& policy, const std::vector<JobCurve>& curves,
                     double switch_seconds, const ResolveOptions& options) {
  HEDDLE_CHECK(curves.size() == jobs.size());
  WideFleet best;
  best.shards = SimulateFleet(jobs, devices, policy);
  best.makespan = best.from = best.shards.makespan;
  std::vector<double> all, slowdown;
  for (const JobWork& job : jobs) {
    all.push_back(TotalSeconds(job));
    slowdown.push_back(SlowdownAlone(job, devices, policy));
  }
  std::vector<int> numbers;
  best.bound = SpaseBound(RemainingProblem(jobs, curves, all, std::vector<double>(jobs.size(), 1),
                                           devices.devices, 0, numbers));
  std::set<double> moments(best.shards.finished.begin(), best.shards.finished.end());
  moments.insert(0);
  moments.erase(*moments.rbegin());
  for (double moment : moments) {
    FleetDevices until = devices;
    until.until = moment;
    FleetResult first = SimulateFleet(jobs, until, policy);
    double from = first.makespan;
    SpaseProblem problem = RemainingProblem(jobs, curves, first.remaining, slowdown,
                                            devices.devices, switch_seconds, numbers);
    if (problem.jobs.empty() || from + SpaseBound(problem) >= best.makespan) continue;
    SpaseSchedule several = RunSpase(problem, options);
    if (from + several.makespan >= best.makespan) continue;
    for (SpasePiece& piece : several.pieces) {
      piece.job = numbers[static_cast<size_t>(piece.job)];
      piece.begin += from;
      piece.end += from;
    }
    best.makespan = from + several.makespan;
    best.from = from;
    best.shards = std::move(first);
    best.several = std::move(several);
  }
  return best;
}

FleetResult Combined(const WideFleet& wide) {
  FleetResult out = wide.shards;
  out.makespan = wide.makespan;
  for (const SpasePiece& piece : wide.several.pieces) {
    auto j = static_cast<size_t>(piece.job);
    out.finished[j] = std::max(out.finished[j], piece.end);
    out.remaining[j] = 0;
    for (int64_t d = piece.first; d < piece.first + piece.devices; ++d) {
      out.busy[static_cast<size_t>(d)] += piece.end - piece.begin - piece.lost;
      out.waited += piece.lost;
      out.spans.push_back({static_cast<int>(d), piece.job, piece.begin, piece.end});
    }
  }
  return out;
}

}  // namespace heddle
