// The clock of the benchmarks: CPU seconds, so that other processes do not matter.
//
//   auto [seconds, program] = BestOf(3, [&] { return Lower(model, plan); });
#pragma once

#include <algorithm>
#include <ctime>
#include <optional>
#include <utility>

namespace heddle {

// CPU seconds of all threads of this process so far.
inline double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Calls a function at least `times` times and for at least `seconds` in total. Returns the shortest time and the result
// of the last call. Destroying results is not timed.
template <class F>
auto BestOf(int times, double seconds, const F& f) -> std::pair<double, decltype(f())> {
  std::optional<decltype(f())> result;
  double best = 0, all = 0;
  for (int round = 0; round < times || all < seconds; ++round) {
    result.reset();
    double start = CpuSeconds();
    result.emplace(f());
    double took = CpuSeconds() - start;
    best = round == 0 ? took : std::min(best, took);
    all += took;
  }
  return {best, std::move(*result)};
}

template <class F>
auto BestOf(int times, const F& f) {
  return BestOf(times, 0, f);
}

}  // namespace heddle
