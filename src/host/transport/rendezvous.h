// Where ranks that are threads of one process meet: finds which transfers belong together and does their work, in plain
// memory. All that the threads share is here; the transport `threads` adds tensors.
//
//   MeetingPlace place(ranks);                                           // shared by all ranks
//   MeetingPlace::Membership member = place.Enter(rank, {0, 2}, 0);      // on each member
//   std::shared_ptr<Rendezvous> meeting;
//   std::string mismatch = place.Join(member, contribution, meeting);    // on each member; returns at once
//   bool in_time = place.ProgressUntil(*meeting, rank, deadline);
//
// Nothing is buffered. When the last member has joined, the members that wait share the work in pieces: they read from
// and write to each other's memory. One waiting member is enough, so a member that is busy elsewhere delays nobody.
// Reductions combine members in their order, so that all members get the same bits every time.
//
// Threads: any thread may call any function; a Membership belongs to one rank.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "host/transport/exchange.h"
#include "plan/collective.h"

namespace heddle {

// Combines gives[member][0..length) and writes the results to each of `gets`; see ReduceBytes.
using ReduceFunction = void (*)(Reduction reduction, std::span<const std::byte* const> gives,
                                std::span<std::byte* const> gets, int64_t length);

// What one member brings to a transfer. All but the memory must agree between members; of a message, role and kind may
// differ.
struct Contribution {
  TransferRole role = TransferRole::kBarrier;
  CollectiveKind kind = CollectiveKind::kAllReduce;
  Reduction reduction = Reduction::kSum;
  int element_type = 0;  // compared, never interpreted
  int64_t element_bytes = 1;
  int64_t length = 0;               // elements that each member gives; of a message, all elements
  ReduceFunction reduce = nullptr;  // of the element type; needed where the kind reduces
  std::string description;          // for errors: "all-reduce of 7 Float among ranks 0,1"
  // The memory this member gives and gets; null where it has none.
  const std::byte* give = nullptr;
  std::byte* get = nullptr;
  std::shared_ptr<const void> owner;  // keeps that memory alive; released when the work is done
};

// A transfer as all its members see it. `MeetingPlace` guards it with its mutex, except that pieces are worked on
// outside.
struct Rendezvous {
  explicit Rendezvous(std::vector<int> members) : ranks(std::move(members)), parts(ranks.size()) {}

  struct Part {
    bool here = false;  // whether the member has joined
    const std::byte* give = nullptr;
    std::byte* get = nullptr;
    std::shared_ptr<const void> owner;
  };

  bool Gathered() const { return arrived == ranks.size(); }
  bool Complete() const { return Gathered() && finished == pieces; }

  std::vector<int> ranks;  // of a message: sender, receiver
  std::vector<Part> parts;
  Contribution agreed;  // of the member that joined first; its memory is in `parts`
  size_t first = 0;     // that member
  size_t arrived = 0;
  int64_t pieces = 0, claimed = 0, finished = 0;
};

class MeetingPlace {
 public:
  using Clock = std::chrono::steady_clock;

  explicit MeetingPlace(int ranks) : news_(static_cast<size_t>(ranks)) {}

  // The collectives of a group that some but not all members have started, by their number in the group.
  struct Room {
    std::vector<int> ranks;
    std::map<int64_t, std::shared_ptr<Rendezvous>> open;
  };
  // A rank's place in a group.
  struct Membership {
    std::shared_ptr<Room> room;
    size_t place = 0;
    int64_t started = 0;
  };

  // `rank` becomes a member of a group. Groups are the same for all ranks where their members are the same and the rank
  // has entered `earlier` groups of these members before.
  Membership Enter(int rank, std::span<const int> ranks, int earlier);

  // Joins the next collective (or barrier) of a group, and a message between two ranks. Returns what is wrong where
  // members disagree ("ranks disagree: ..."), else an empty string.
  std::string Join(Membership& membership, Contribution contribution,
                   std::shared_ptr<Rendezvous>& meeting);
  std::string Post(int sender, int receiver, int tag, Contribution contribution,
                   std::shared_ptr<Rendezvous>& meeting);

  // Does work that no other member has claimed. Returns whether the transfer is complete.
  bool Progress(Rendezvous& meeting);
  // Sleeps and works until the transfer is complete. False when the deadline has passed or the failure is set.
  bool ProgressUntil(Rendezvous& meeting, int rank, Clock::time_point deadline);
  // The members that have not joined yet.
  std::vector<int> Missing(const Rendezvous& meeting) const;

  // To be set by whoever fails, who then calls WakeAll.
  const std::shared_ptr<TransportFailure>& failure() const { return failure_; }
  void WakeAll();

 private:
  std::string Arrive(Rendezvous& meeting, size_t part, Contribution contribution);
  bool Advance(Rendezvous& meeting, std::unique_lock<std::mutex>& lock);
  void Notify(const Rendezvous& meeting);

  mutable std::mutex mutex_;
  // [rank]: a rendezvous of this rank is gathered or complete, or the failure is set.
  std::vector<std::condition_variable> news_;
  std::shared_ptr<TransportFailure> failure_ = std::make_shared<TransportFailure>();
  // A group is identified by its members and by how many groups of the same members came before it.
  std::map<std::pair<std::vector<int>, int>, std::shared_ptr<Room>> rooms_;
  // Messages that wait for their other side, in order, by sender, receiver and tag. All in one queue wait for the same
  // side.
  std::map<std::tuple<int, int, int>, std::deque<std::shared_ptr<Rendezvous>>> messages_;
};

}  // namespace heddle
