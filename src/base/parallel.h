// A loop over independent pieces, on all cores.
//
//   InParallel(plans.size(), [&](size_t i) { times[i] = Simulate(plans[i]); });
//
// Threads are started once and shared by all loops. A loop inside a loop is fine: who starts one works on it, and others
// help as they become free, with the innermost loop first.
#pragma once

#include <cstddef>

namespace heddle {

// Those that this process may run on, at least one.
size_t CoreCount();

namespace parallel_internal {
using Call = void (*)(const void* function, size_t i);
void Run(size_t count, Call call, const void* function);
}  // namespace parallel_internal

// Calls function(i) for all i below `count`; what is called must not depend on the order. The first exception is thrown on
// once all that had begun have ended; the rest is not begun.
template <typename Function>
void InParallel(size_t count, const Function& function) {
  parallel_internal::Run(
      count, [](const void* of, size_t i) { (*static_cast<const Function*>(of))(i); }, &function);
}

}  // namespace heddle
