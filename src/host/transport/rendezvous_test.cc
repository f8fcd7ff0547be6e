// Threads as ranks that exchange vectors of numbers: what sanitizers see of the transport `threads`.
#include "host/transport/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "host/transport/reduce.h"

namespace heddle {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Numbers = std::vector<int64_t>;

constexpr std::array kKinds = {CollectiveKind::kAllReduce,     CollectiveKind::kAllGather,
                               CollectiveKind::kReduceScatter, CollectiveKind::kAllToAll,
                               CollectiveKind::kBroadcast,     CollectiveKind::kReduce};

// Runs body(rank) on a thread for every rank.
void OnRanks(int ranks, const std::function<void(int)>& body) {
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(body, rank);
}

MeetingPlace::Clock::time_point After(double seconds) {
  return MeetingPlace::Clock::now() + std::chrono::duration_cast<MeetingPlace::Clock::duration>(
                                          std::chrono::duration<double>(seconds));
}

// Both vectors stay where they are until the transfer is complete.
Contribution Of(TransferRole role, const Numbers* give, Numbers* get) {
  Contribution mine;
  mine.role = role;
  mine.element_bytes = sizeof(int64_t);
  mine.length = static_cast<int64_t>(give != nullptr ? give->size() : get->size());
  mine.reduce = &ReduceBytes<int64_t>;
  mine.description = "a transfer of " + std::to_string(mine.length);
  if (give != nullptr) mine.give = reinterpret_cast<const std::byte*>(give->data());
  if (get != nullptr) mine.get = reinterpret_cast<std::byte*>(get->data());
  return mine;
}

Contribution Barrier() {
  Contribution mine;
  mine.description = "the barrier";
  return mine;
}

// Element `i` of what a member gives.
int64_t Given(size_t member, size_t i) {
  return static_cast<int64_t>(1000 * (member + 1) + i % 1000);
}

// A collective of one member of a group, from its start to the comparison of what it got.
class Collective {
 public:
  // `elements`: per member where members give for each other (reduce-scatter, all-to-all), else in all.
  Collective(CollectiveKind kind, size_t members, size_t place, size_t elements)
      : kind_(kind), members_(members), place_(place), elements_(elements) {
    const bool shares = kind == CollectiveKind::kReduceScatter || kind == CollectiveKind::kAllToAll;
    const bool gathers = kind == CollectiveKind::kAllGather || kind == CollectiveKind::kAllToAll;
    give_.resize(shares ? elements * members : elements);
    for (size_t i = 0; i < give_.size(); ++i) give_[i] = Given(place, i);
    get_.assign(gathers ? elements * members : elements, -1);
  }

  void Start(MeetingPlace& place, MeetingPlace::Membership& member) {
    const bool gives = kind_ != CollectiveKind::kBroadcast || place_ == 0;
    const bool gets = kind_ != CollectiveKind::kReduce || place_ == 0;
    Contribution mine =
        Of(TransferRole::kCollective, gives ? &give_ : nullptr, gets ? &get_ : nullptr);
    mine.kind = kind_;
    EXPECT_EQ(place.Join(member, std::move(mine), meeting), "");
  }

  void Check() const {
    if (kind_ == CollectiveKind::kReduce && place_ != 0) return;
    for (size_t i = 0; i < get_.size(); ++i)
      ASSERT_EQ(get_[i], Wanted(i)) << Name(kind_) << " " << elements_ << " [" << i << "]";
  }

  std::shared_ptr<Rendezvous> meeting;

 private:
  int64_t Wanted(size_t i) const {
    switch (kind_) {
      case CollectiveKind::kAllGather:
        return Given(i / elements_, i % elements_);
      case CollectiveKind::kAllToAll:
        return Given(i / elements_, place_ * elements_ + i % elements_);
      case CollectiveKind::kBroadcast:
        return Given(0, i);
      default:
        break;
    }
    const size_t at = kind_ == CollectiveKind::kReduceScatter ? place_ * elements_ + i : i;
    int64_t sum = 0;
    for (size_t member = 0; member < members_; ++member) sum += Given(member, at);
    return sum;
  }

  CollectiveKind kind_;
  size_t members_, place_, elements_;
  Numbers give_, get_;
};

class MeetingPlaceTest : public testing::TestWithParam<int> {
 protected:
  int ranks() const { return GetParam(); }
  size_t members() const { return static_cast<size_t>(ranks()); }
  std::vector<int> All() const {
    std::vector<int> all(members());
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
};

INSTANTIATE_TEST_SUITE_P(Ranks, MeetingPlaceTest, testing::Values(2, 3, 4, 7));

// All are started before the first is waited for, and waited for in another order on every rank.
TEST_P(MeetingPlaceTest, EveryKindAndSize) {
  MeetingPlace place(ranks());
  OnRanks(ranks(), [&](int rank) {
    const auto self = static_cast<size_t>(rank);
    MeetingPlace::Membership member = place.Enter(rank, All(), 0);
    std::vector<std::unique_ptr<Collective>> started;
    for (CollectiveKind kind : kKinds) {
      for (size_t elements : {size_t{0}, size_t{1}, size_t{5}, size_t{70'001}}) {
        started.push_back(std::make_unique<Collective>(kind, members(), self, elements));
        started.back()->Start(place, member);
      }
    }
    for (size_t i = 0; i < started.size(); ++i) {
      Collective& one = *started[(i * 5 + self * 7) % started.size()];
      ASSERT_TRUE(place.ProgressUntil(*one.meeting, rank, After(60)));
      one.Check();
    }
  });
}

TEST_P(MeetingPlaceTest, GroupsOfTheSameMembersAreDistinct) {
  MeetingPlace place(ranks());
  OnRanks(ranks(), [&](int rank) {
    const auto self = static_cast<size_t>(rank);
    MeetingPlace::Membership first = place.Enter(rank, All(), 0);
    MeetingPlace::Membership second = place.Enter(rank, All(), 1);
    // Ranks start the two in different orders.
    Collective one(CollectiveKind::kAllReduce, members(), self, 3);
    Collective two(CollectiveKind::kAllGather, members(), self, 40'000);
    if (rank % 2 == 0) one.Start(place, first);
    two.Start(place, second);
    if (rank % 2 == 1) one.Start(place, first);
    for (const Collective* each : {&one, &two}) {
      ASSERT_TRUE(place.ProgressUntil(*each->meeting, rank, After(60)));
      each->Check();
    }
  });
}

// Rank 0 waits for nothing until all others have got their results.
TEST_P(MeetingPlaceTest, AMemberThatIsBusyDelaysNobody) {
  MeetingPlace place(ranks());
  std::atomic<int> done = 0;
  OnRanks(ranks(), [&](int rank) {
    MeetingPlace::Membership member = place.Enter(rank, All(), 0);
    Collective sum(CollectiveKind::kAllReduce, members(), static_cast<size_t>(rank), 100'000);
    sum.Start(place, member);
    if (rank == 0) {
      while (done < ranks() - 1) std::this_thread::yield();
    } else {
      while (!place.Progress(*sum.meeting)) std::this_thread::yield();
      ++done;
    }
    ASSERT_TRUE(place.ProgressUntil(*sum.meeting, rank, After(60)));
    sum.Check();
  });
}

// Every rank with every rank, itself included; tags are received in another order than they are sent.
TEST_P(MeetingPlaceTest, MessagesMeetByTagAndInOrder) {
  MeetingPlace place(ranks());
  constexpr int kTags = 3, kTimes = 2;
  auto number = [](int from, int to, int tag, int time) {
    return int64_t{1000} * from + 100 * to + 10 * tag + time;
  };
  OnRanks(ranks(), [&](int rank) {
    std::vector<std::unique_ptr<Numbers>> memory;
    std::vector<std::shared_ptr<Rendezvous>> started;
    auto post = [&](bool sends, int peer, int tag, int64_t fill) {
      memory.push_back(std::make_unique<Numbers>(40'000, fill));
      Contribution mine = sends ? Of(TransferRole::kSend, memory.back().get(), nullptr)
                                : Of(TransferRole::kReceive, nullptr, memory.back().get());
      std::string mismatch = place.Post(sends ? rank : peer, sends ? peer : rank, tag,
                                        std::move(mine), started.emplace_back());
      EXPECT_EQ(mismatch, "");
      return memory.back().get();
    };
    std::vector<std::pair<Numbers*, int64_t>> wanted;
    for (int peer = 0; peer < ranks(); ++peer) {
      for (int time = 0; time < kTimes; ++time) {
        for (int tag = 0; tag < kTags; ++tag) post(true, peer, tag, number(rank, peer, tag, time));
      }
      for (int time = 0; time < kTimes; ++time) {
        for (int tag = kTags - 1; tag >= 0; --tag)
          wanted.emplace_back(post(false, peer, tag, 0), number(peer, rank, tag, time));
      }
    }
    for (const auto& meeting : started) ASSERT_TRUE(place.ProgressUntil(*meeting, rank, After(60)));
    for (const auto& [got, value] : wanted) EXPECT_EQ(*got, Numbers(got->size(), value));
  });
}

TEST_P(MeetingPlaceTest, MemoryIsReleasedWhenTheWorkIsDone) {
  MeetingPlace place(ranks());
  OnRanks(ranks(), [&](int rank) {
    MeetingPlace::Membership member = place.Enter(rank, All(), 0);
    auto memory = std::make_shared<Numbers>(100'000, rank);
    std::weak_ptr<Numbers> watched = memory;
    Contribution mine = Of(TransferRole::kCollective, memory.get(), memory.get());
    mine.owner = std::move(memory);
    std::shared_ptr<Rendezvous> meeting;
    EXPECT_EQ(place.Join(member, std::move(mine), meeting), "");
    ASSERT_TRUE(place.ProgressUntil(*meeting, rank, After(60)));
    EXPECT_TRUE(watched.expired());
  });
}

TEST(MeetingPlace, AWaitEndsAtItsDeadlineAndNamesWhoIsMissing) {
  MeetingPlace place(3);
  const std::vector<int> all = {2, 0, 1};
  MeetingPlace::Membership member = place.Enter(0, all, 0);
  std::shared_ptr<Rendezvous> meeting;
  EXPECT_EQ(place.Join(member, Barrier(), meeting), "");
  EXPECT_FALSE(place.Progress(*meeting));
  EXPECT_FALSE(place.ProgressUntil(*meeting, 0, After(0.02)));
  EXPECT_THAT(place.Missing(*meeting), ElementsAre(2, 1));
}

TEST(MeetingPlace, AFailureWakesAllThatWait) {
  MeetingPlace place(3);
  const std::vector<int> all = {0, 1, 2};
  OnRanks(3, [&](int rank) {
    if (rank == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      place.failure()->Set("out of disk");
      place.failure()->Set("a later cause");
      place.WakeAll();
      return;
    }
    MeetingPlace::Membership member = place.Enter(rank, all, 0);
    std::shared_ptr<Rendezvous> meeting;
    EXPECT_EQ(place.Join(member, Barrier(), meeting), "");
    EXPECT_FALSE(place.ProgressUntil(*meeting, rank, After(600)));
    try {
      place.failure()->ThrowIfSet();
      ADD_FAILURE() << "does not throw";
    } catch (const RunError& error) {
      EXPECT_STREQ(error.what(), "out of disk");
    }
  });
}

TEST(MeetingPlace, RanksThatDisagreeAreNamed) {
  const std::vector<int> all = {0, 1};
  Numbers seven(7), eight(8);
  auto disagree = [&](const std::function<void(Contribution&)>& change, Numbers& theirs) {
    MeetingPlace place(2);
    std::shared_ptr<Rendezvous> meeting;
    MeetingPlace::Membership zero = place.Enter(0, all, 0), one = place.Enter(1, all, 0);
    EXPECT_EQ(place.Join(zero, Of(TransferRole::kCollective, &seven, &seven), meeting), "");
    Contribution other = Of(TransferRole::kCollective, &theirs, &theirs);
    change(other);
    return place.Join(one, std::move(other), meeting);
  };
  EXPECT_EQ(disagree([](Contribution&) {}, seven), "");
  EXPECT_EQ(disagree([](Contribution&) {}, eight),
            "ranks disagree: rank 0 waits for a transfer of 7, rank 1 for a transfer of 8");
  const std::string start = "ranks disagree: rank 0 waits for a transfer of 7, rank 1 for ";
  EXPECT_THAT(disagree([](Contribution& c) { c.kind = CollectiveKind::kReduce; }, seven),
              HasSubstr(start));
  EXPECT_THAT(disagree([](Contribution& c) { c.reduction = Reduction::kMax; }, seven),
              HasSubstr(start));
  EXPECT_THAT(disagree([](Contribution& c) { c.element_type = 1; }, seven), HasSubstr(start));
  MeetingPlace place(2);
  std::shared_ptr<Rendezvous> meeting;
  EXPECT_EQ(place.Post(0, 1, 5, Of(TransferRole::kSend, &seven, nullptr), meeting), "");
  EXPECT_THAT(place.Post(0, 1, 5, Of(TransferRole::kReceive, nullptr, &eight), meeting),
              HasSubstr(start));
}

template <class T>
T Reduced(Reduction reduction, const std::vector<T>& members) {
  std::vector<const std::byte*> gives;
  for (const T& value : members) gives.push_back(reinterpret_cast<const std::byte*>(&value));
  T result{};
  std::byte* get = reinterpret_cast<std::byte*>(&result);
  ReduceBytes<T>(reduction, gives, std::span(&get, 1), 1);
  return result;
}

TEST(Reduce, IntegersWrapAndAMaximumWithANanIsNan) {
  constexpr auto kLargest = std::numeric_limits<int32_t>::max();
  EXPECT_EQ(Reduced<int32_t>(Reduction::kSum, {kLargest, 1, 2}),
            std::numeric_limits<int32_t>::min() + 2);
  EXPECT_EQ(Reduced<int64_t>(Reduction::kMax, {-5, -7, -6}), -5);
  // In the order of members: (1e30 - 1e30) + 1, not 1e30 + (-1e30 + 1).
  EXPECT_EQ(Reduced<float>(Reduction::kSum, {1e30F, -1e30F, 1}), 1);
  const double nan = std::nan("");
  for (const std::vector<double>& members :
       {std::vector<double>{nan, 1, 2}, {1, nan, 2}, {1, 2, nan}})
    EXPECT_TRUE(std::isnan(Reduced<double>(Reduction::kMax, members)));
}

TEST(Exchange, CountsAndSizes) {
  TrafficCount::Count count;
  count.Add(12);
  count.Add(0);
  EXPECT_EQ(count, (TrafficCount::Count{.calls = 2, .bytes = 12}));
  CheckSizes(CollectiveKind::kAllGather, 3, 4, 12);
  CheckSizes(CollectiveKind::kReduceScatter, 3, 12, 4);
  CheckSizes(CollectiveKind::kAllToAll, 3, 12, 12);
  CheckSizes(CollectiveKind::kReduce, 3, 4, 4);
  EXPECT_EQ(JoinRanks(std::vector<int>{2, 0, 5}), "2,0,5");
}

}  // namespace
}  // namespace heddle
