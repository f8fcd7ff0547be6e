#include "host/transport/exchange.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "base/error.h"

namespace heddle {

void TransportFailure::Set(std::string_view cause) {
  std::lock_guard lock(mutex_);
  if (set_.load(std::memory_order_relaxed)) return;
  cause_ = cause;
  set_.store(true, std::memory_order_release);
}

void TransportFailure::ThrowIfSet() const {
  if (!set()) return;
  std::lock_guard lock(mutex_);
  throw RunError(cause_);
}

bool Reduces(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduceScatter ||
         kind == CollectiveKind::kReduce;
}

bool CanBeInPlace(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kBroadcast ||
         kind == CollectiveKind::kReduce;
}

void CheckSizes(CollectiveKind kind, int64_t members, int64_t give, int64_t get) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kReduce:
      HEDDLE_CHECK_EQ(give, get);
      return;
    case CollectiveKind::kAllGather:
      HEDDLE_CHECK_EQ(give * members, get);
      return;
    case CollectiveKind::kReduceScatter:
      HEDDLE_CHECK_EQ(give, get * members);
      return;
    case CollectiveKind::kAllToAll:
      HEDDLE_CHECK_EQ(give, get);
      HEDDLE_CHECK_EQ(give % members, 0);
      return;
  }
}

std::string JoinRanks(std::span<const int> ranks) {
  return fmt::format("{}", fmt::join(ranks, ","));
}

}  // namespace heddle
