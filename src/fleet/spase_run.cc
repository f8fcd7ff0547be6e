// Simulates a schedule of jobs on several devices and solves the remaining problem again on the way.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "fleet/spase.h"

namespace heddle {
namespace {

// The remaining problem at some time. Its jobs have new numbers.
struct RestOfJobs {
  SpaseProblem problem;
  std::vector<int> job;  // their numbers in the whole problem
};

class SpaseRun {
 public:
  SpaseRun(const SpaseProblem& problem, const ResolveOptions& options)
      : problem_(problem),
        options_(options),
        left_(problem.jobs.size(), 1),
        places_(problem.jobs.size()) {}

  SpaseSchedule Run() {
    plan_ = SolveSpase(problem_, options_.first);
    out_.evaluations = plan_.evaluations;
    double interval = plan_.makespan / 16;
    double now = 0;
    while (!plan_.pieces.empty()) {
      double next = now + interval;
      for (const SpasePiece& piece : plan_.pieces) next = std::min(next, piece.end);
      Advance(now, next);
      now = next;
      if (!plan_.pieces.empty()) Resolve(now);
    }
    out_.makespan = now;
    std::stable_sort(out_.pieces.begin(), out_.pieces.end(),
                     [](const SpasePiece& a, const SpasePiece& b) { return a.begin < b.begin; });
    return std::move(out_);
  }

 private:
  // Advances the schedule from `now` to `next`. No piece ends in between.
  void Advance(double now, double next) {
    std::vector<SpasePiece> rest;
    for (const SpasePiece& piece : plan_.pieces) {
      if (piece.begin >= next) {
        rest.push_back(piece);
        continue;
      }
      auto j = static_cast<size_t>(piece.job);
      double begun = std::max(piece.begin, now);
      double works = std::max(begun, piece.begin + piece.lost);  // the end of the switch
      double lost = std::min(works, next) - begun;
      Note({piece.job, piece.first, piece.devices, begun, next, lost});
      places_[j] = {piece.first, piece.devices, std::max(0.0, works - next)};
      if (piece.end <= next) {
        left_[j] = 0;
        continue;
      }
      if (next > works) left_[j] *= (piece.end - next) / (piece.end - works);
      rest.push_back(piece);
    }
    plan_.pieces = std::move(rest);
  }

  // Adds a piece to the result. A job that continues on the same devices stays one piece.
  void Note(const SpasePiece& piece) {
    for (SpasePiece& before : out_.pieces) {
      if (before.job != piece.job || before.end != piece.begin) continue;
      if (before.first == piece.first && before.devices == piece.devices) {
        before.end = piece.end;
        before.lost += piece.lost;
        return;
      }
    }
    out_.pieces.push_back(piece);
  }

  RestOfJobs RestAt() const {
    RestOfJobs rest;
    rest.problem.devices = problem_.devices;
    rest.problem.switch_seconds = problem_.switch_seconds;
    for (size_t j = 0; j < left_.size(); ++j) {
      if (left_[j] <= 0) continue;
      JobCurve curve = problem_.jobs[j];
      for (CurvePoint& point : curve.points) point.seconds *= left_[j];
      rest.problem.jobs.push_back(std::move(curve));
      rest.problem.places.push_back(places_[j]);
      rest.job.push_back(static_cast<int>(j));
    }
    return rest;
  }

  void Resolve(double now) {
    double planned = 0;
    for (const SpasePiece& piece : plan_.pieces) planned = std::max(planned, piece.end);
    RestOfJobs rest = RestAt();
    if (SpaseBound(rest.problem) >= (planned - now) * (1 - options_.threshold)) return;
    SpaseSchedule better = SolveSpase(rest.problem, options_.solve);
    out_.evaluations += better.evaluations;
    if (better.makespan >= (planned - now) * (1 - options_.threshold)) return;
    for (SpasePiece& piece : better.pieces) {
      const JobPlace& place = rest.problem.places[static_cast<size_t>(piece.job)];
      bool stays = place.first == piece.first && place.devices == piece.devices && piece.begin == 0;
      out_.switches += place.first >= 0 && !stays;
      piece.job = rest.job[static_cast<size_t>(piece.job)];
      piece.begin += now;
      piece.end += now;
    }
    plan_.pieces = std::move(better.pieces);
  }

  const SpaseProblem& problem_;
  ResolveOptions options_;
  std::vector<double> left_;  // fraction of each job's work
  std::vector<JobPlace> places_;
  SpaseSchedule plan_, out_;
};

}  // namespace

SpaseSchedule RunSpase(const SpaseProblem& problem, const ResolveOptions& options) {
  return SpaseRun(problem, options).Run();
}

}  // namespace heddle
