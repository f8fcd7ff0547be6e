#include "runtime/transport/threads.h"

#include <fmt/format.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <thread>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "runtime/transport/reduce.h"

namespace heddle {
namespace {

constexpr int64_t kPiece = 1 << 15;  // elements a member gives, worked on at once

// A transfer seen from all its members. `Hub::mutex` guards it, except that pieces are worked on outside.
struct Rendezvous {
  explicit Rendezvous(std::vector<int> members) : ranks(std::move(members)), parts(ranks.size()) {}

  struct Part {
    bool here = false;
    at::Tensor give, get;
  };

  bool Gathered() const { return arrived == ranks.size(); }
  bool Complete() const { return Gathered() && finished == pieces; }

  std::vector<int> ranks;  // of a message: sender, receiver
  std::vector<Part> parts;
  // As the first to arrive saw it.
  Transfer::Role role = Transfer::Role::kBarrier;
  CollectiveKind kind = CollectiveKind::kAllReduce;
  Reduction reduction = Reduction::kSum;
  at::ScalarType type = at::kByte;
  int64_t length = 0;
  std::string description;
  size_t first = 0;

  size_t arrived = 0;
  int64_t pieces = 0, claimed = 0, finished = 0;
};

// --- The work of a rendezvous, on elements [begin, end) of what members give.

std::byte* At(const at::Tensor& tensor, int64_t element) {
  return static_cast<std::byte*>(tensor.data_ptr()) +
         element * static_cast<int64_t>(tensor.element_size());
}

void Copy(const at::Tensor& from, int64_t from_element, const at::Tensor& to, int64_t to_element,
          int64_t count) {
  const std::byte* source = At(from, from_element);
  std::byte* target = At(to, to_element);
  if (source != target)
    std::memcpy(target, source, static_cast<size_t>(count) * from.element_size());
}

template <class T>
void ReduceAs(const Rendezvous& rendezvous, int64_t begin, int64_t end,
              std::span<const Rendezvous::Part> takers, int64_t get_begin) {
  std::vector<const T*> gives;
  for (const Rendezvous::Part& part : rendezvous.parts) {
    gives.push_back(static_cast<const T*>(part.give.data_ptr()) + begin);
  }
  std::vector<T*> gets;
  for (const Rendezvous::Part& part : takers)
    gets.push_back(static_cast<T*>(part.get.data_ptr()) + get_begin);
  if (rendezvous.reduction == Reduction::kSum) {
    ReduceRange<Reduction::kSum, T>(gives, gets, end - begin);
  } else {
    ReduceRange<Reduction::kMax, T>(gives, gets, end - begin);
  }
}

void Reduce(const Rendezvous& rendezvous, int64_t begin, int64_t end,
            std::span<const Rendezvous::Part> takers, int64_t get_begin) {
  auto reduce = [&]<class T>(T) { ReduceAs<T>(rendezvous, begin, end, takers, get_begin); };
  switch (rendezvous.type) {
    case at::kBool:
      return reduce(bool{});
    case at::kInt:
      return reduce(int32_t{});
    case at::kLong:
      return reduce(int64_t{});
    case at::kFloat:
      return reduce(float{});
    case at::kDouble:
      return reduce(double{});
    case at::kBFloat16:
      return reduce(at::BFloat16{});
    case at::kHalf:
      return reduce(at::Half{});
    default:
      HEDDLE_CHECK(false, "reduction of {}", c10::toString(rendezvous.type));
  }
}

// Calls body(member, begin, end) for the parts of [begin, end) in each member's share of `length` elements.
template <class Body>
void ForShares(const Rendezvous& rendezvous, int64_t begin, int64_t end, const Body& body) {
  const int64_t share = rendezvous.length / static_cast<int64_t>(rendezvous.parts.size());
  while (begin < end) {
    const int64_t member = begin / share;
    const int64_t stop = std::min(end, (member + 1) * share);
    body(member, begin, stop, share);
    begin = stop;
  }
}

void WorkOn(const Rendezvous& rendezvous, int64_t begin, int64_t end) {
  const std::span<const Rendezvous::Part> parts = rendezvous.parts;
  if (rendezvous.role != Transfer::Role::kCollective) {
    Copy(parts[0].give, begin, parts[1].get, begin, end - begin);
    return;
  }
  switch (rendezvous.kind) {
    case CollectiveKind::kAllReduce:
      Reduce(rendezvous, begin, end, parts, begin);
      return;
    case CollectiveKind::kReduce:
      Reduce(rendezvous, begin, end, parts.first(1), begin);
      return;
    case CollectiveKind::kReduceScatter:
      ForShares(rendezvous, begin, end,
                [&](int64_t member, int64_t from, int64_t to, int64_t share) {
                  Reduce(rendezvous, from, to, parts.subspan(static_cast<size_t>(member), 1),
                         from - member * share);
                });
      return;
    case CollectiveKind::kAllGather:
      for (size_t giver = 0; giver < parts.size(); ++giver) {
        const int64_t place = static_cast<int64_t>(giver) * rendezvous.length + begin;
        for (const Rendezvous::Part& taker : parts)
          Copy(parts[giver].give, begin, taker.get, place, end - begin);
      }
      return;
    case CollectiveKind::kAllToAll:
      ForShares(
          rendezvous, begin, end, [&](int64_t member, int64_t from, int64_t to, int64_t share) {
            const at::Tensor& get = parts[static_cast<size_t>(member)].get;
            for (size_t giver = 0; giver < parts.size(); ++giver) {
              const int64_t place = static_cast<int64_t>(giver) * share + from - member * share;
              Copy(parts[giver].give, from, get, place, to - from);
            }
          });
      return;
    case CollectiveKind::kBroadcast:
      for (const Rendezvous::Part& taker : parts)
        Copy(parts[0].give, begin, taker.get, begin, end - begin);
      return;
  }
}

// --- The place where ranks meet.

// The collectives of a group that some but not all members have started, by their number in the group.
struct Room {
  std::vector<int> ranks;
  std::map<int64_t, std::shared_ptr<Rendezvous>> open;
};

struct Hub {
  explicit Hub(int ranks) : news(static_cast<size_t>(ranks)) {}

  std::mutex mutex;
  std::vector<std::condition_variable>
      news;  // [rank]: a rendezvous of its own is complete or gathered
  std::shared_ptr<TransportFailure> failure = std::make_shared<TransportFailure>();
  // A group is known by its members and by how many groups of the same members came before it.
  std::map<std::pair<std::vector<int>, int>, std::shared_ptr<Room>> rooms;
  // Messages that wait for their other side, in order: by sender, receiver, tag. All in one queue wait for the
  // same side.
  std::map<std::tuple<int, int, int>, std::deque<std::shared_ptr<Rendezvous>>> messages;

  void Notify(const Rendezvous& rendezvous) {
    for (int rank : rendezvous.ranks) news[static_cast<size_t>(rank)].notify_all();
  }
};

struct ThreadTransfer : Transfer {
  std::shared_ptr<Rendezvous> rendezvous;
};

class ThreadTransport : public Transport {
 public:
  ThreadTransport(std::shared_ptr<Hub> hub, int rank, int size, const TransportOptions& options)
      : Transport(rank, size, options, hub->failure), hub_(std::move(hub)) {
    std::vector<int> all;
    for (int r = 0; r < size; ++r) all.push_back(r);
    world_ = Enter(all);
  }

 protected:
  void OpenGroup(GroupHandle group) override {
    memberships_.resize(group.index() + 1);
    memberships_[group.index()] = Enter(members(group));
  }

  Ticket NewTransfer() const override { return std::make_shared<ThreadTransfer>(); }

  void Begin(const Ticket& ticket) override {
    auto& transfer = static_cast<ThreadTransfer&>(*ticket);
    std::unique_lock lock(hub_->mutex);
    size_t part = 0;
    switch (transfer.role) {
      case Transfer::Role::kCollective:
        part = Join(transfer, memberships_[transfer.group.index()]);
        break;
      case Transfer::Role::kBarrier:
        part = Join(transfer, world_);
        break;
      default:
        part = Post(transfer);
    }
    std::string mismatch = Arrive(transfer, part);
    lock.unlock();
    if (!mismatch.empty()) Fail(mismatch);
  }

  bool Progress(Transfer& base) override {
    std::unique_lock lock(hub_->mutex);
    return Advance(static_cast<ThreadTransfer&>(base), lock);
  }

  bool ProgressUntil(Transfer& base, Clock::time_point deadline) override {
    auto& transfer = static_cast<ThreadTransfer&>(base);
    std::unique_lock lock(hub_->mutex);
    bool in_time = true;
    while (!Advance(transfer, lock)) {
      if (failure().set() || !in_time) return false;
      in_time = hub_->news[static_cast<size_t>(rank())].wait_until(lock, deadline) ==
                std::cv_status::no_timeout;
    }
    return true;
  }

  void WakeOthers() override {
    std::lock_guard lock(
        hub_->mutex);  // nobody is between looking at the failure and going to sleep
    for (std::condition_variable& news : hub_->news) news.notify_all();
  }

  std::string Missing(const Transfer& base) override {
    const auto& transfer = static_cast<const ThreadTransfer&>(base);
    std::lock_guard lock(hub_->mutex);
    std::vector<int> missing;
    for (size_t i = 0; i < transfer.rendezvous->ranks.size(); ++i) {
      if (!transfer.rendezvous->parts[i].here) missing.push_back(transfer.rendezvous->ranks[i]);
    }
    if (missing.empty()) return "";
    return fmt::format(", not started by rank{} {}", missing.size() > 1 ? "s" : "",
                       JoinRanks(missing));
  }

 private:
  struct Membership {
    std::shared_ptr<Room> room;
    size_t place = 0;
    int64_t started = 0;
  };

  Membership Enter(std::span<const int> ranks) {
    std::vector<int> list(ranks.begin(), ranks.end());
    const int earlier = entered_[list]++;
    std::lock_guard lock(hub_->mutex);
    std::shared_ptr<Room>& room = hub_->rooms[{list, earlier}];
    if (room == nullptr) room = std::make_shared<Room>(Room{.ranks = list, .open = {}});
    const auto place = std::find(list.begin(), list.end(), rank()) - list.begin();
    return {.room = room, .place = static_cast<size_t>(place)};
  }

  size_t Join(ThreadTransfer& transfer, Membership& membership) {
    Room& room = *membership.room;
    const int64_t number = membership.started++;
    std::shared_ptr<Rendezvous>& rendezvous = room.open[number];
    if (rendezvous == nullptr) rendezvous = std::make_shared<Rendezvous>(room.ranks);
    transfer.rendezvous = rendezvous;
    if (rendezvous->arrived + 1 == room.ranks.size()) room.open.erase(number);
    return membership.place;
  }

  size_t Post(ThreadTransfer& transfer) {
    const size_t part = transfer.role == Transfer::Role::kSend ? 0 : 1;
    const int sender = part == 0 ? rank() : transfer.peer;
    const int receiver = part == 0 ? transfer.peer : rank();
    auto queue = hub_->messages.try_emplace({sender, receiver, transfer.tag}).first;
    if (!queue->second.empty() && !queue->second.front()->parts[part].here) {
      transfer.rendezvous = queue->second.front();
      queue->second.pop_front();
      if (queue->second.empty()) hub_->messages.erase(queue);
    } else {
      transfer.rendezvous = std::make_shared<Rendezvous>(std::vector<int>{sender, receiver});
      queue->second.push_back(transfer.rendezvous);
    }
    return part;
  }

  // Returns what is wrong, if members disagree.
  std::string Arrive(const ThreadTransfer& transfer, size_t part) {
    Rendezvous& rendezvous = *transfer.rendezvous;
    const int64_t length = TransferLength(transfer);
    const at::ScalarType type = TransferType(transfer);
    if (rendezvous.arrived == 0) {
      rendezvous.role = transfer.role;
      rendezvous.kind = transfer.kind;
      rendezvous.reduction = transfer.reduction;
      rendezvous.type = type;
      rendezvous.length = length;
      rendezvous.description = Describe(transfer);
      rendezvous.first = part;
      rendezvous.pieces = (length + kPiece - 1) / kPiece;
    } else {
      const bool message =
          transfer.role == Transfer::Role::kSend || transfer.role == Transfer::Role::kReceive;
      const bool agree =
          message || (rendezvous.role == transfer.role && rendezvous.kind == transfer.kind &&
                      rendezvous.reduction == transfer.reduction);
      if (!agree || rendezvous.type != type || rendezvous.length != length) {
        return fmt::format("ranks disagree: rank {} waits for {}, rank {} for {}",
                           rendezvous.ranks[rendezvous.first], rendezvous.description, rank(),
                           Describe(transfer));
      }
    }
    rendezvous.parts[part] = {.here = true, .give = transfer.give, .get = transfer.get};
    ++rendezvous.arrived;
    if (rendezvous.Gathered()) hub_->Notify(rendezvous);
    return "";
  }

  // Does what work is left to claim; whether the transfer is complete.
  bool Advance(ThreadTransfer& transfer, std::unique_lock<std::mutex>& lock) {
    Rendezvous& rendezvous = *transfer.rendezvous;
    if (!rendezvous.Gathered()) return false;
    while (rendezvous.claimed < rendezvous.pieces && !failure().set()) {
      const int64_t begin = rendezvous.claimed++ * kPiece;
      lock.unlock();
      WorkOn(rendezvous, begin, std::min(begin + kPiece, rendezvous.length));
      lock.lock();
      if (++rendezvous.finished == rendezvous.pieces) {
        for (Rendezvous::Part& part : rendezvous.parts) part.give = part.get = at::Tensor();
        hub_->Notify(rendezvous);
      }
    }
    return rendezvous.Complete();
  }

  std::shared_ptr<Hub> hub_;
  Membership world_;
  std::vector<Membership> memberships_;      // [group.index()]
  std::map<std::vector<int>, int> entered_;  // how many groups of these members
};

}  // namespace

std::vector<std::unique_ptr<Transport>> MakeThreadTransports(int ranks,
                                                             const TransportOptions& options) {
  HEDDLE_CHECK_GT(ranks, 0);
  auto hub = std::make_shared<Hub>(ranks);
  std::vector<std::unique_ptr<Transport>> transports;
  for (int rank = 0; rank < ranks; ++rank) {
    transports.push_back(std::make_unique<ThreadTransport>(hub, rank, ranks, options));
  }
  return transports;
}

void RunRanks(int ranks, const std::function<void(Transport&)>& body,
              const TransportOptions& options) {
  std::vector<std::unique_ptr<Transport>> transports = MakeThreadTransports(ranks, options);
  std::mutex mutex;
  std::exception_ptr first;
  auto fail = [&](Transport& transport, const std::string& why) {
    {
      std::lock_guard lock(mutex);
      if (first == nullptr) first = std::current_exception();
    }
    transport.Abort(why);
  };
  {
    std::vector<std::jthread> threads;
    for (std::unique_ptr<Transport>& transport : transports) {
      threads.emplace_back([&fail, &body, &transport = *transport] {
        try {
          body(transport);
        } catch (const std::exception& error) {
          fail(transport, error.what());
        } catch (...) {
          fail(transport, "an exception of unknown type");
        }
      });
    }
  }
  if (first != nullptr) std::rethrow_exception(first);
}

}  // namespace heddle
