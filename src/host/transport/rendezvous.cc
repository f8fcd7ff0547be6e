#include "host/transport/rendezvous.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace heddle {
namespace {

constexpr int64_t kPiece = 1 << 15;  // elements that a member gives, worked on at once

// --- The work of a rendezvous, on elements [begin, end) of what members give.

// Copies `count` elements. Positions and counts are in elements.
void Copy(const Rendezvous& meeting, const std::byte* give, int64_t from, std::byte* get,
          int64_t to, int64_t count) {
  const int64_t size = meeting.agreed.element_bytes;
  const std::byte* source = give + from * size;
  std::byte* target = get + to * size;
  if (source != target) std::memcpy(target, source, static_cast<size_t>(count * size));
}

// The sums are written to the parts `takers`, from element `get_begin` on.
void Reduce(const Rendezvous& meeting, int64_t begin, int64_t end,
            std::span<const Rendezvous::Part> takers, int64_t get_begin) {
  const int64_t size = meeting.agreed.element_bytes;
  std::vector<const std::byte*> gives;
  for (const Rendezvous::Part& part : meeting.parts) gives.push_back(part.give + begin * size);
  std::vector<std::byte*> gets;
  for (const Rendezvous::Part& part : takers) gets.push_back(part.get + get_begin * size);
  meeting.agreed.reduce(meeting.agreed.reduction, gives, gets, end - begin);
}

// Each member owns an equal share of the elements, in the order of members. Calls body(member, begin, end, share) for
// the part of [begin, end) in each share; `share` is its length.
template <class Body>
void ForShares(const Rendezvous& meeting, int64_t begin, int64_t end, const Body& body) {
  const int64_t share = meeting.agreed.length / static_cast<int64_t>(meeting.parts.size());
  while (begin < end) {
    const int64_t member = begin / share;
    const int64_t stop = std::min(end, (member + 1) * share);
    body(member, begin, stop, share);
    begin = stop;
  }
}

void WorkOn(const Rendezvous& meeting, int64_t begin, int64_t end) {
  const std::span<const Rendezvous::Part> parts = meeting.parts;
  if (meeting.agreed.role != TransferRole::kCollective) {
    Copy(meeting, parts[0].give, begin, parts[1].get, begin, end - begin);
    return;
  }
  switch (meeting.agreed.kind) {
    case CollectiveKind::kAllReduce:
      Reduce(meeting, begin, end, parts, begin);
      return;
    case CollectiveKind::kReduce:
      Reduce(meeting, begin, end, parts.first(1), begin);
      return;
    case CollectiveKind::kReduceScatter:
      ForShares(meeting, begin, end, [&](int64_t member, int64_t from, int64_t to, int64_t share) {
        Reduce(meeting, from, to, parts.subspan(static_cast<size_t>(member), 1),
               from - member * share);
      });
      return;
    case CollectiveKind::kAllGather:
      for (size_t giver = 0; giver < parts.size(); ++giver) {
        const int64_t place = static_cast<int64_t>(giver) * meeting.agreed.length + begin;
        for (const Rendezvous::Part& taker : parts)
          Copy(meeting, parts[giver].give, begin, taker.get, place, end - begin);
      }
      return;
    case CollectiveKind::kAllToAll:
      ForShares(meeting, begin, end, [&](int64_t member, int64_t from, int64_t to, int64_t share) {
        std::byte* get = parts[static_cast<size_t>(member)].get;
        for (size_t giver = 0; giver < parts.size(); ++giver) {
          const int64_t place = static_cast<int64_t>(giver) * share + from - member * share;
          Copy(meeting, parts[giver].give, from, get, place, to - from);
        }
      });
      return;
    case CollectiveKind::kBroadcast:
      for (const Rendezvous::Part& taker : parts)
        Copy(meeting, parts[0].give, begin, taker.get, begin, end - begin);
      return;
  }
}

bool Agree(const Contribution& a, const Contribution& b) {
  const bool message = b.role == TransferRole::kSend || b.role == TransferRole::kReceive;
  const bool same_kind = a.role == b.role && a.kind == b.kind && a.reduction == b.reduction;
  return (message || same_kind) && a.element_type == b.element_type && a.length == b.length;
}

}  // namespace

// --- Which transfers belong together.

MeetingPlace::Membership MeetingPlace::Enter(int rank, std::span<const int> ranks, int earlier) {
  std::vector<int> list(ranks.begin(), ranks.end());
  const auto place = std::find(list.begin(), list.end(), rank) - list.begin();
  std::lock_guard lock(mutex_);
  std::shared_ptr<Room>& room = rooms_[{list, earlier}];
  if (room == nullptr) room = std::make_shared<Room>(Room{.ranks = list, .open = {}});
  return {.room = room, .place = static_cast<size_t>(place)};
}

std::string MeetingPlace::Join(Membership& membership, Contribution contribution,
                               std::shared_ptr<Rendezvous>& meeting) {
  std::lock_guard lock(mutex_);
  Room& room = *membership.room;
  const int64_t number = membership.started++;
  std::shared_ptr<Rendezvous>& open = room.open[number];
  if (open == nullptr) open = std::make_shared<Rendezvous>(room.ranks);
  meeting = open;
  if (meeting->arrived + 1 == room.ranks.size()) room.open.erase(number);
  return Arrive(*meeting, membership.place, std::move(contribution));
}

std::string MeetingPlace::Post(int sender, int receiver, int tag, Contribution contribution,
                               std::shared_ptr<Rendezvous>& meeting) {
  std::lock_guard lock(mutex_);
  const size_t part = contribution.role == TransferRole::kSend ? 0 : 1;
  auto queue = messages_.try_emplace({sender, receiver, tag}).first;
  if (!queue->second.empty() && !queue->second.front()->parts[part].here) {
    meeting = queue->second.front();
    queue->second.pop_front();
    if (queue->second.empty()) messages_.erase(queue);
  } else {
    meeting = std::make_shared<Rendezvous>(std::vector<int>{sender, receiver});
    queue->second.push_back(meeting);
  }
  return Arrive(*meeting, part, std::move(contribution));
}

std::string MeetingPlace::Arrive(Rendezvous& meeting, size_t part, Contribution contribution) {
  Rendezvous::Part joined = {.here = true,
                             .give = std::exchange(contribution.give, nullptr),
                             .get = std::exchange(contribution.get, nullptr),
                             .owner = std::move(contribution.owner)};
  if (meeting.arrived == 0) {
    meeting.agreed = std::move(contribution);
    meeting.first = part;
    meeting.pieces = (meeting.agreed.length + kPiece - 1) / kPiece;
  } else if (!Agree(meeting.agreed, contribution)) {
    return fmt::format("ranks disagree: rank {} waits for {}, rank {} for {}",
                       meeting.ranks[meeting.first], meeting.agreed.description,
                       meeting.ranks[part], contribution.description);
  }
  meeting.parts[part] = std::move(joined);
  ++meeting.arrived;
  if (meeting.Gathered()) Notify(meeting);
  return "";
}

// --- Waiting and working.

bool MeetingPlace::Progress(Rendezvous& meeting) {
  std::unique_lock lock(mutex_);
  return Advance(meeting, lock);
}

bool MeetingPlace::ProgressUntil(Rendezvous& meeting, int rank, Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  bool in_time = true;
  while (!Advance(meeting, lock)) {
    if (failure_->set() || !in_time) return false;
    in_time =
        news_[static_cast<size_t>(rank)].wait_until(lock, deadline) == std::cv_status::no_timeout;
  }
  return true;
}

bool MeetingPlace::Advance(Rendezvous& meeting, std::unique_lock<std::mutex>& lock) {
  if (!meeting.Gathered()) return false;
  while (meeting.claimed < meeting.pieces && !failure_->set()) {
    const int64_t begin = meeting.claimed++ * kPiece;
    lock.unlock();
    WorkOn(meeting, begin, std::min(begin + kPiece, meeting.agreed.length));
    lock.lock();
    if (++meeting.finished == meeting.pieces) {
      for (Rendezvous::Part& part : meeting.parts) part.owner = nullptr;
      Notify(meeting);
    }
  }
  return meeting.Complete();
}

std::vector<int> MeetingPlace::Missing(const Rendezvous& meeting) const {
  std::lock_guard lock(mutex_);
  std::vector<int> missing;
  for (size_t i = 0; i < meeting.ranks.size(); ++i) {
    if (!meeting.parts[i].here) missing.push_back(meeting.ranks[i]);
  }
  return missing;
}

void MeetingPlace::Notify(const Rendezvous& meeting) {
  for (int rank : meeting.ranks) news_[static_cast<size_t>(rank)].notify_all();
}

void MeetingPlace::WakeAll() {
  // With the lock held, no rank is between its look at the failure and its sleep.
  std::lock_guard lock(mutex_);
  for (std::condition_variable& news : news_) news.notify_all();
}

}  // namespace heddle
