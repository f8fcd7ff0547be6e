#include <torch/cuda.h>

#include <algorithm>
#include <ctime>
#include <limits>

#include "runtime/calibrate/sample.h"

namespace heddle {
namespace {

constexpr double kMoment = 1e-3;  // seconds of calls that one time is the mean of
constexpr double kMostCalls = 500;
constexpr int kMostCaptured = 20;
constexpr int kMoments = 3;
constexpr double kInterruption = 1e-4;  // seconds: a thread that has a core misses less
constexpr double kWholeCore = 0.95;
constexpr int kWindows = 5;

double ShareOfWindow(double seconds) {
  struct Now {
    double wall = SecondsNow(Clock::kWall), thread = SecondsNow(Clock::kThread);
  };
  Now begin, last, resumed;  // resumed: after the last interruption
  int interruptions = 0;
  while (last.wall - begin.wall < seconds) {
    Now now;
    if (now.wall - last.wall > kInterruption) {
      if (++interruptions == 1) begin = now;
      resumed = now;
    }
    last = now;
  }
  if (interruptions < 2) resumed = last;
  return (resumed.thread - begin.thread) / (resumed.wall - begin.wall);
}

}  // namespace

double SecondsNow(Clock clock) {
  timespec now{};
  clock_gettime(clock == Clock::kThread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

Clock ClockOf(at::Device device, int threads) {
  return threads == 1 && device.is_cpu() ? Clock::kThread : Clock::kWall;
}

double ShareOfCore(double seconds) {
  std::vector<double> shares;
  for (int i = 0; i < kWindows; ++i) shares.push_back(ShareOfWindow(seconds / kWindows));
  std::sort(shares.begin(), shares.end());
  double share = shares[kWindows / 2];
  return share < kWholeCore ? share : 1;
}

Stopwatch::Stopwatch(at::Device device, int threads)
    : device_(device),
      clock_(ClockOf(device, threads)),
      stream_(NewStream(device)),
      scope_(stream_) {}

void Stopwatch::Synchronise() const {
  if (device_.is_cuda()) torch::cuda::synchronize();
}

double Stopwatch::TimeOfCalls(const std::function<void()>& body, int calls) const {
  double begin = SecondsNow(clock_);
  for (int i = 0; i < calls; ++i) body();
  Synchronise();
  return (SecondsNow(clock_) - begin) / calls;
}

double Stopwatch::TimeOf(const std::function<void()>& body, bool captured) {
  Synchronise();
  body();
  Synchronise();
  double once = TimeOfCalls(body, 1);
  int calls = static_cast<int>(std::clamp(kMoment / std::max(once, 1e-9), 1.0, kMostCalls));
  if (captured) {
    if (std::optional<double> seconds = TimeOfGraph(body, std::min(calls, kMostCaptured)))
      return *seconds;
  }
  int moments = once > 10 * kMoment ? 1 : kMoments;
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < moments; ++i) best = std::min(best, TimeOfCalls(body, calls));
  return best;
}

std::optional<double> Stopwatch::TimeOfGraph(const std::function<void()>& body, int calls) {
  StepClock clock(2);
  auto graph = std::make_unique<StepGraph>();
  auto work = [&] {
    clock.Mark(0);
    for (int i = 0; i < calls; ++i) body();
    clock.Mark(1);
  };
  if (graph->Capture(work, memory_.get())) return std::nullopt;
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i <= kMoments; ++i) {  // the first does not count
    graph->Replay();
    Synchronise();
    if (i > 0) best = std::min(best, clock.Seconds()[1] / calls);
  }
  if (!memory_) memory_ = std::move(graph);
  return best;
}

}  // namespace heddle
