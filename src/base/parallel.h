// Runs the independent iterations of a loop on all cores.
//
//   InParallel(plans.size(), [&](size_t i) { times[i] = Simulate(plans[i]); });
//
// Threads are started once and shared by all loops. Loops may be nested: the thread that starts a loop works on it, and
// other threads join when they become free, the innermost loop first.
#pragma once

#include <cstddef>

namespace heddle {

// The number of cores that this process may run on, at least one.
size_t CoreCount();

namespace parallel_internal {
using Call = void (*)(const void* function, size_t i);
void Run(size_t count, Call call, const void* function);
}  // namespace parallel_internal

// Calls function(i) for all i below `count`. The calls must not depend on their order. After an exception no further
// calls begin; the first exception is thrown again when all calls that had begun have ended.
template <typename Function>
void InParallel(size_t count, const Function& function) {
  parallel_internal::Run(
      count, [](const void* of, size_t i) { (*static_cast<const Function*>(of))(i); }, &function);
}

}  // namespace heddle
