// The conformance suite with ranks as threads, and how that transport fails.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "base/error.h"
#include "runtime/transport/threads.h"
#include "runtime/transport/transport_conformance.h"

namespace heddle {
namespace {

using ::testing::HasSubstr;

class ThreadConformance : public ::testing::TestWithParam<std::tuple<conformance::Body, int>> {};

TEST_P(ThreadConformance, Holds) {
  const auto& [body, ranks] = GetParam();
  RunRanks(ranks, [run = body.run](Transport& transport) {
    at::set_num_threads(1);
    run(transport);
  });
}

INSTANTIATE_TEST_SUITE_P(Transport, ThreadConformance,
                         ::testing::Combine(::testing::ValuesIn(conformance::kBodies),
                                            ::testing::Range(1, 9)),
                         [](const auto& info) {
                           return fmt::format("{}{}", std::get<0>(info.param).name,
                                              std::get<1>(info.param));
                         });

// The one error of a run.
std::string ErrorOf(int ranks, const std::function<void(Transport&)>& body,
                    double deadline_seconds = 60) {
  try {
    RunRanks(ranks, body, {.deadline_seconds = deadline_seconds});
  } catch (const RunError& error) {
    return error.what();
  }
  return "";
}

Ticket SumOf(Transport& transport, GroupHandle group, const at::Tensor& x) {
  return transport.Start(CollectiveKind::kAllReduce, Reduction::kSum, group, x, x);
}

void WaitFor(Transport& transport, Ticket ticket) { transport.Wait(ticket); }

TEST(ThreadTransport, ACollectiveNobodyJoinsMeetsTheDeadline) {
  auto body = [](Transport& transport) {
    if (transport.rank() == 1) return;
    GroupHandle group = transport.AddGroup(std::vector<int>{2, 0, 1});
    WaitFor(transport, SumOf(transport, group, at::ones({7})));
  };
  EXPECT_THAT(
      ErrorOf(3, body, 0.25),
      HasSubstr(
          " waited 0.25 s for all-reduce of 7 Float among ranks 2,0,1, not started by rank 1"));
}

TEST(ThreadTransport, AMessageNobodySendsOrTakesMeetsTheDeadline) {
  auto receive = [](Transport& transport) {
    if (transport.rank() == 0)
      WaitFor(transport, transport.Recv(1, 5, at::ones({2, 3}, at::kDouble)));
  };
  EXPECT_EQ(ErrorOf(2, receive, 0.1),
            "rank 0 waited 0.1 s for 6 Double from rank 1 with tag 5, not started by rank 1");
  auto send = [](Transport& transport) {
    if (transport.rank() == 0)
      WaitFor(transport, transport.Send(1, 5, at::ones({2, 3}, at::kDouble)));
  };
  EXPECT_EQ(ErrorOf(2, send, 0.1),
            "rank 0 waited 0.1 s for rank 1 to take 6 Double with tag 5, not started by rank 1");
  auto barrier = [](Transport& transport) {
    if (transport.rank() == 0) transport.Barrier();
  };
  EXPECT_EQ(ErrorOf(3, barrier, 0.1),
            "rank 0 waited 0.1 s for the barrier of all 3 ranks, not started by ranks 1,2");
}

TEST(ThreadTransport, AfterAFailureEveryCallThrowsItsCause) {
  auto transports = MakeThreadTransports(2, {.deadline_seconds = 0.05});
  GroupHandle group = transports[0]->AddGroup(std::vector<int>{0, 1});
  at::Tensor x = at::ones({3});
  Ticket ticket = SumOf(*transports[0], group, x);
  const std::string cause =
      "rank 0 waited 0.05 s for all-reduce of 3 Float among ranks 0,1, not started by rank 1";
  auto expect_cause = [&](const std::function<void()>& call) {
    try {
      call();
      ADD_FAILURE() << "does not throw";
    } catch (const RunError& error) {
      EXPECT_EQ(error.what(), cause);
    }
  };
  expect_cause([&] { transports[0]->Wait(ticket); });
  expect_cause([&] { transports[0]->Wait(ticket); });
  expect_cause([&] { transports[0]->Done(ticket); });
  expect_cause([&] { SumOf(*transports[0], group, x); });
  expect_cause([&] { transports[1]->Send(0, 0, x); });
  expect_cause([&] { transports[1]->AddGroup(std::vector<int>{0, 1}); });
  transports[1]->Abort("too late to matter");
  expect_cause([&] { transports[1]->Barrier(); });
}

TEST(ThreadTransport, AnAbortReachesRanksThatWait) {
  std::vector<std::string> seen(3);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_NE(ErrorOf(3,
                    [&](Transport& transport) {
                      if (transport.rank() == 1) {
                        std::this_thread::sleep_for(std::chrono::milliseconds(50));
                        transport.Abort("out of disk");
                        return;
                      }
                      try {
                        transport.Barrier();
                      } catch (const RunError& error) {
                        seen[static_cast<size_t>(transport.rank())] = error.what();
                        throw;
                      }
                    }),
            "");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_EQ(seen[0], "rank 1 ended the run: out of disk");
  EXPECT_EQ(seen[2], seen[0]);
}

TEST(ThreadTransport, RunRanksRethrowsTheRootCause) {
  for (int culprit = 0; culprit < 4; ++culprit) {
    try {
      RunRanks(4, [&](Transport& transport) {
        if (transport.rank() == culprit) ThrowInput("rank {} has no data", culprit);
        transport.Barrier();
      });
      ADD_FAILURE() << "does not throw";
    } catch (const InputError& error) {
      EXPECT_EQ(error.what(), fmt::format("rank {} has no data", culprit));
    }
  }
}

TEST(ThreadTransport, RanksThatDisagreeAreNamed) {
  auto start = [](CollectiveKind kind, Reduction reduction, int64_t give, int64_t get,
                  at::ScalarType type) {
    return [=](Transport& transport, GroupHandle group) {
      WaitFor(transport, transport.Start(kind, reduction, group, at::ones({give}, type),
                                         at::ones({get}, type)));
    };
  };
  constexpr auto kAllReduce = CollectiveKind::kAllReduce;
  const auto ours = start(kAllReduce, Reduction::kSum, 7, 7, at::kFloat);
  const std::vector<std::pair<std::string, std::function<void(Transport&, GroupHandle)>>> others = {
      {"all-reduce of 8 Float", start(kAllReduce, Reduction::kSum, 8, 8, at::kFloat)},
      {"all-reduce of 7 Int", start(kAllReduce, Reduction::kSum, 7, 7, at::kInt)},
      {"all-reduce of 7 Float", start(kAllReduce, Reduction::kMax, 7, 7, at::kFloat)},
      {"all-gather of 7 Float",
       start(CollectiveKind::kAllGather, Reduction::kSum, 7, 14, at::kFloat)},
  };
  for (const auto& [text, theirs] : others) {
    std::string error = ErrorOf(2, [&](Transport& transport) {
      GroupHandle group = transport.AddGroup(std::vector<int>{0, 1});
      (transport.rank() == 0 ? ours : theirs)(transport, group);
    });
    EXPECT_THAT(error, HasSubstr("ranks disagree: rank "));
    EXPECT_THAT(error, HasSubstr("rank 0 "));
    EXPECT_THAT(error, HasSubstr(text + " among ranks 0,1"));
  }
  EXPECT_THAT(ErrorOf(2,
                      [](Transport& transport) {
                        at::Tensor x = at::ones({3 + transport.rank()});
                        if (transport.rank() == 0) WaitFor(transport, transport.Send(1, 0, x));
                        if (transport.rank() == 1) WaitFor(transport, transport.Recv(0, 0, x));
                      }),
              HasSubstr("4 Float from rank 0 with tag 0"));
}

TEST(ThreadTransport, GroupsAndSizesThatNoCallerMayAskFor) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  auto transports = MakeThreadTransports(3);
  Transport& transport = *transports[0];
  EXPECT_DEATH(transport.AddGroup(std::vector<int>{1, 2}), "rank 0 adds a group of 1,2");
  EXPECT_DEATH(transport.AddGroup(std::vector<int>{0, 0}), "a group of 0,0 among 3 ranks");
  GroupHandle group = transport.AddGroup(std::vector<int>{0, 1, 2});
  at::Tensor x = at::ones({4, 4});
  EXPECT_DEATH(SumOf(transport, group, x.t()), "is_contiguous");
  EXPECT_DEATH(
      transport.Start(CollectiveKind::kAllGather, Reduction::kSum, group, x, at::ones({16})),
      "48 against 16");
  EXPECT_DEATH(transport.Start(CollectiveKind::kAllGather, Reduction::kSum, group, x[0],
                               x.view({16}).slice(0, 0, 12)),
               "give and get of all-gather overlap");
}

}  // namespace
}  // namespace heddle
