#include "search/judge.h"

namespace heddle {
namespace {

constexpr std::chrono::milliseconds kGrace(500);

}  // namespace

std::function<bool()> Impatience(const SearchProblem& problem) {
  using Clock = std::chrono::steady_clock;
  return [&problem, over_since = std::optional<Clock::time_point>()]() mutable {
    if (!problem.Over()) return false;
    if (!over_since) over_since = Clock::now();
    return Clock::now() - *over_since >= kGrace;
  };
}

}  // namespace heddle
