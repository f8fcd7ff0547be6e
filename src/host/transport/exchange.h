// What every transport shares and what needs no tensors: names for groups, options, counts, and the failure that ranks
// share (runtime/transport/transport.h is the interface).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/strong_id.h"
#include "plan/collective.h"

namespace heddle {

struct RankSlot;  // supervisor/rank_table.h

struct TransportGroupTag {
  static constexpr std::string_view kPrefix = "group ";
};
using GroupHandle =
    StrongId<TransportGroupTag>;  // local to a rank: another rank's number may differ

struct TransportOptions {
  double deadline_seconds = 60;  // for one Wait or Barrier
  RankSlot* slot = nullptr;      // where a waiting rank leaves signs of life; null: nowhere
};

enum class TransferRole : uint8_t { kCollective, kSend, kReceive, kBarrier };

// What this rank has handed over so far, counted when a transfer is started. For a collective these are the bytes that
// the rank gives: in a broadcast only the first member adds bytes.
struct TrafficCount {
  struct Count {
    int64_t calls = 0;
    int64_t bytes = 0;
    void Add(int64_t more) {
      ++calls;
      bytes += more;
    }
    friend bool operator==(const Count&, const Count&) = default;
  };
  std::vector<std::array<Count, kCollectiveNames.size()>> groups;  // [group.index()][kind]
  std::vector<Count> sent, received;                               // [peer]
  friend bool operator==(const TrafficCount&, const TrafficCount&) = default;
};

// Why a transport is dead; shared by ranks that fail together. Any thread may call these.
class TransportFailure {
 public:
  // Keeps the cause of the first call.
  void Set(std::string_view cause);
  bool set() const { return set_.load(std::memory_order_acquire); }
  void ThrowIfSet() const;  // RunError with the cause

 private:
  mutable std::mutex mutex_;
  std::string cause_;
  std::atomic<bool> set_ = false;
};

// Whether a collective combines the elements that members give.
bool Reduces(CollectiveKind kind);
// Whether a member may give and get in the same memory.
bool CanBeInPlace(CollectiveKind kind);
// Checks the numbers of elements that a member gives and gets, as plan/collective.h states them.
void CheckSizes(CollectiveKind kind, int64_t members, int64_t give, int64_t get);

// "0,2,5"
std::string JoinRanks(std::span<const int> ranks);

}  // namespace heddle
