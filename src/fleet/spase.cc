#include "fleet/spase.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "base/rng.h"

namespace heddle {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

// A candidate solution: a point of each job's curve, and the order in which jobs are placed.
struct Allotment {
  std::vector<size_t> point;
  std::vector<int> order;
};

const CurvePoint& PointOf(const SpaseProblem& problem, const Allotment& at, int job) {
  return problem.jobs[static_cast<size_t>(job)].points[at.point[static_cast<size_t>(job)]];
}

// Places jobs in order, each on the aligned consecutive devices where it starts first.
class Placer {
 public:
  explicit Placer(const SpaseProblem& problem)
      : problem_(problem), free_(static_cast<size_t>(problem.devices)) {}

  double Makespan(const Allotment& at, std::vector<SpasePiece>* pieces = nullptr) {
    std::fill(free_.begin(), free_.end(), 0);
    double makespan = 0;
    for (int job : at.order) {
      const CurvePoint& point = PointOf(problem_, at, job);
      SpasePiece piece{job, 0, point.devices, 0, 0, 0};
      FindPlace(job, piece);
      piece.end = piece.begin + piece.lost + point.seconds;
      for (int64_t d = 0; d < piece.devices; ++d) {
        free_[static_cast<size_t>(piece.first + d)] = piece.end;
      }
      makespan = std::max(makespan, piece.end);
      if (pieces != nullptr) pieces->push_back(piece);
    }
    return makespan;
  }

 private:
  double FreeFrom(int64_t first, int64_t devices) const {
    double latest = 0;
    for (int64_t d = first; d < first + devices; ++d) {
      latest = std::max(latest, free_[static_cast<size_t>(d)]);
    }
    return latest;
  }

  void FindPlace(int job, SpasePiece& piece) const {
    bool begun = false;
    if (!problem_.places.empty()) {
      const JobPlace& place = problem_.places[static_cast<size_t>(job)];
      begun = place.first >= 0;
      if (begun && place.devices == piece.devices &&
          FreeFrom(place.first, place.devices) == 0) {  // the job continues there
        piece.first = place.first;
        piece.lost = place.owed;
        return;
      }
    }
    piece.lost = begun ? problem_.switch_seconds : 0;
    piece.begin = kForever;
    double waste = kForever;
    for (int64_t first = 0; first + piece.devices <= problem_.devices; first += piece.devices) {
      double start = FreeFrom(first, piece.devices);
      if (start > piece.begin) continue;
      double idle = 0;
      for (int64_t d = first; d < first + piece.devices; ++d) {
        idle += start - free_[static_cast<size_t>(d)];
      }
      if (start == piece.begin && idle >= waste) continue;
      piece.begin = start;
      piece.first = first;
      waste = idle;
    }
  }

  const SpaseProblem& problem_;
  std::vector<double> free_;
};

// Orders jobs by devices, then by time. Placing jobs with many devices first avoids gaps.
std::vector<int> WidestFirst(const SpaseProblem& problem, const std::vector<size_t>& point) {
  Allotment at{point, {}};
  std::vector<int> order(problem.jobs.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    const CurvePoint& pa = PointOf(problem, at, a);
    const CurvePoint& pb = PointOf(problem, at, b);
    return pa.devices != pb.devices ? pa.devices > pb.devices : pa.seconds > pb.seconds;
  });
  return order;
}

std::vector<int> LongestFirst(const SpaseProblem& problem, const std::vector<size_t>& point) {
  Allotment at{point, {}};
  std::vector<int> order(problem.jobs.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return PointOf(problem, at, a).seconds > PointOf(problem, at, b).seconds;
  });
  return order;
}

std::vector<size_t> MostDevices(const SpaseProblem& problem) {
  std::vector<size_t> point;
  for (const JobCurve& job : problem.jobs) point.push_back(job.points.size() - 1);
  return point;
}

// For each job the largest number of devices up to a limit, or its smallest number if that is above the limit.
std::vector<size_t> UpTo(const SpaseProblem& problem, int64_t devices) {
  std::vector<size_t> point;
  for (const JobCurve& job : problem.jobs) {
    size_t p = 0;
    while (p + 1 < job.points.size() && job.points[p + 1].devices <= devices) ++p;
    point.push_back(p);
  }
  return point;
}

// For each job the point with the smallest area that meets a deadline, or the fastest point if none does.
std::vector<size_t> ForDeadline(const SpaseProblem& problem, double deadline) {
  std::vector<size_t> point;
  for (const JobCurve& job : problem.jobs) {
    size_t best = job.points.size() - 1;
    double area = kForever;
    for (size_t p = 0; p < job.points.size(); ++p) {
      double at = static_cast<double>(job.points[p].devices) * job.points[p].seconds;
      if (job.points[p].seconds > deadline || at >= area) continue;
      best = p;
      area = at;
    }
    point.push_back(best);
  }
  return point;
}

// The smallest area with which a job meets a deadline if it may mix two allotments.
double LeastArea(const JobCurve& job, double deadline) {
  double least = kForever;
  for (const CurvePoint& a : job.points) {
    auto area = [](const CurvePoint& at) { return static_cast<double>(at.devices) * at.seconds; };
    if (a.seconds <= deadline) least = std::min(least, area(a));
    for (const CurvePoint& b : job.points) {
      if (a.seconds <= deadline || b.seconds >= deadline) continue;
      // A part x of the work runs on a and the rest on b, so that together they take until the deadline.
      double x = (deadline - b.seconds) / (a.seconds - b.seconds);
      least = std::min(least, x * area(a) + (1 - x) * area(b));
    }
  }
  return least;
}

class SpaseSolver {
 public:
  SpaseSolver(const SpaseProblem& problem, const SpaseOptions& options)
      : problem_(problem), options_(options), placer_(problem) {}

  SpaseSchedule Solve() {
    Consider({MostDevices(problem_), InOrder()});
    int64_t share = problem_.devices / static_cast<int64_t>(problem_.jobs.size());
    Consider({UpTo(problem_, share), InOrder()});
    for (int64_t width = 1; width <= problem_.devices; width *= 2) {
      TryOrders(UpTo(problem_, width));
    }
    double bound = SpaseBound(problem_);
    for (double deadline = bound; deadline < 4 * bound; deadline *= 1.05) {
      TryOrders(ForDeadline(problem_, deadline));
    }
    if (!problem_.places.empty()) TryOrders(AsTheyAre());
    if (best_makespan_ > bound * (1 + 1e-9)) Improve(bound);
    SpaseSchedule out;
    out.makespan = placer_.Makespan(best_, &out.pieces);
    std::stable_sort(out.pieces.begin(), out.pieces.end(),
                     [](const SpasePiece& a, const SpasePiece& b) { return a.begin < b.begin; });
    out.evaluations = evaluations_;
    return out;
  }

 private:
  std::vector<int> InOrder() const {
    std::vector<int> order(problem_.jobs.size());
    std::iota(order.begin(), order.end(), 0);
    return order;
  }

  std::vector<size_t> AsTheyAre() const {
    std::vector<size_t> point = UpTo(problem_, problem_.devices);
    for (size_t j = 0; j < point.size(); ++j) {
      for (size_t p = 0; p < problem_.jobs[j].points.size(); ++p) {
        if (problem_.jobs[j].points[p].devices == problem_.places[j].devices) point[j] = p;
      }
    }
    return point;
  }

  void TryOrders(std::vector<size_t> point) {
    Consider({point, WidestFirst(problem_, point)});
    Consider({point, LongestFirst(problem_, point)});
  }

  void Consider(const Allotment& at) {
    ++evaluations_;
    double makespan = placer_.Makespan(at);
    if (makespan >= best_makespan_) return;
    best_makespan_ = makespan;
    best_ = at;
  }

  uint64_t Below(uint64_t bound) { return RandomBelow(bound, options_.seed, 0, draws_++); }

  // Improves the best solution by simulated annealing, started a few times.
  void Improve(double bound) {
    constexpr int64_t kRounds = 4;
    double enough = bound * (1 + 1e-9);
    for (int64_t round = 0; round < kRounds && best_makespan_ > enough; ++round) {
      Allotment at = best_;
      double now = best_makespan_;
      int64_t moves = options_.moves / kRounds;
      for (int64_t move = 0; move < moves && best_makespan_ > enough; ++move) {
        Allotment next = Moved(at);
        ++evaluations_;
        double makespan = placer_.Makespan(next);
        double left = 1 - static_cast<double>(move) / static_cast<double>(moves);
        double heat = 0.03 * best_makespan_ * left * left;
        double chance = RandomUniform(options_.seed, 1, draws_++);
        if (makespan > now && chance >= std::exp((now - makespan) / heat)) continue;
        at = std::move(next);
        now = makespan;
        if (now >= best_makespan_) continue;
        best_makespan_ = now;
        best_ = at;
      }
    }
  }

  // A random move: another allotment of a job, or another position of it in the order.
  Allotment Moved(const Allotment& at) {
    Allotment next = at;
    size_t jobs = problem_.jobs.size();
    auto j = static_cast<size_t>(Below(jobs));
    size_t points = problem_.jobs[j].points.size();
    if (points > 1 && Below(2) == 0) {
      next.point[j] = static_cast<size_t>(Below(points));
    } else {
      int moved = next.order[j];
      next.order.erase(next.order.begin() + static_cast<std::ptrdiff_t>(j));
      next.order.insert(next.order.begin() + static_cast<std::ptrdiff_t>(Below(jobs)), moved);
    }
    return next;
  }

  const SpaseProblem& problem_;
  SpaseOptions options_;
  Placer placer_;
  Allotment best_;
  double best_makespan_ = kForever;
  int64_t evaluations_ = 0;
  uint64_t draws_ = 0;
};

void CheckSpase(const SpaseProblem& problem) {
  HEDDLE_CHECK(problem.devices > 0 && !problem.jobs.empty());
  for (const JobCurve& job : problem.jobs) {
    HEDDLE_CHECK(!job.points.empty(), "job '{}' has no curve", job.name);
    for (const CurvePoint& point : job.points) {
      HEDDLE_CHECK(point.devices > 0 && point.devices <= problem.devices && point.seconds >= 0);
      HEDDLE_CHECK((point.devices & (point.devices - 1)) == 0);
    }
  }
}

SpaseSchedule Placed(const SpaseProblem& problem, Allotment at) {
  CheckSpase(problem);
  at.order.resize(problem.jobs.size());
  std::iota(at.order.begin(), at.order.end(), 0);
  SpaseSchedule out;
  out.makespan = Placer(problem).Makespan(at, &out.pieces);
  return out;
}

}  // namespace

double SpaseBound(const SpaseProblem& problem) {
  CheckSpase(problem);
  double low = 0, high = 0;
  for (const JobCurve& job : problem.jobs) {
    double fastest = kForever;
    for (const CurvePoint& point : job.points) fastest = std::min(fastest, point.seconds);
    low = std::max(low, fastest);
    high += job.points.front().seconds * static_cast<double>(job.points.front().devices);
  }
  auto fits = [&](double deadline) {
    double area = 0;
    for (const JobCurve& job : problem.jobs) area += LeastArea(job, deadline);
    return area <= deadline * static_cast<double>(problem.devices);
  };
  if (fits(low)) return low;
  high = std::max(high, low);
  for (int i = 0; i < 100; ++i) {
    double middle = (low + high) / 2;
    (fits(middle) ? high : low) = middle;
  }
  return low;
}

SpaseSchedule SolveSpase(const SpaseProblem& problem, const SpaseOptions& options) {
  CheckSpase(problem);
  return SpaseSolver(problem, options).Solve();
}

SpaseSchedule OneAtATime(const SpaseProblem& problem) {
  CheckSpase(problem);
  SpaseSchedule out;
  for (size_t j = 0; j < problem.jobs.size(); ++j) {
    const CurvePoint& point = problem.jobs[j].points.back();
    double begin = out.makespan;
    out.makespan += point.seconds;
    out.pieces.push_back({static_cast<int>(j), 0, point.devices, begin, out.makespan, 0});
  }
  return out;
}

SpaseSchedule EqualSplit(const SpaseProblem& problem) {
  int64_t share = problem.devices / static_cast<int64_t>(problem.jobs.size());
  return Placed(problem, {UpTo(problem, share), {}});
}

}  // namespace heddle
