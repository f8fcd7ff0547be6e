// Ranks that die or hang under `heddle train`.
#include "failing_run.h"

namespace heddle {
namespace {

TEST(Failures, AKilledRankIsNamedAndTheRunGoesOnToTheSameLosses) {
  TempFolder folder;
  std::string train = kFailingModel + " --dp 2 --steps 60 --json";
  std::vector<double> calm = CalmLosses(train);
  FailingRun run(train + " --restarts 1 --checkpoint " + folder / "c" + " --checkpoint-every 4");
  ASSERT_TRUE(run.WaitForSteps(10)) << run.err();
  std::map<int, pid_t> ranks = run.Ranks();
  ASSERT_EQ(ranks.size(), 2u);
  kill(ranks[1], SIGKILL);
  ASSERT_EQ(run.Wait(), 0) << run.err();
  std::string err = run.err();
  EXPECT_EQ(Lines(err), 2) << err;
  EXPECT_NE(err.find("heddle: rank 1 was killed by signal 9 (Killed) "), std::string::npos) << err;
  const std::string words = "restart 1 of 1: goes on from step ";
  ASSERT_NE(err.find(words), std::string::npos) << err;
  EXPECT_EQ(std::stoi(err.substr(err.find(words) + words.size())) % 4, 0) << err;
  Json json = ParseJson(run.out(), "output");
  EXPECT_EQ(LossesOf(run.out()), calm);
  EXPECT_EQ(json["restarts"], 1);
  EXPECT_GT(json["goodput"].get<double>(), 0);
  EXPECT_LT(json["goodput"].get<double>(), 1);
  for (auto [rank, pid] : ranks) EXPECT_TRUE(IsGone(pid)) << rank;
}

TEST(Failures, AStoppedRankIsNamedAfterTheDeadline) {
  FailingRun run(kFailingModel + " --dp 2 --steps 100000 --json --timeout 2");
  ASSERT_TRUE(run.WaitForSteps(3)) << run.err();
  std::map<int, pid_t> ranks = run.Ranks();
  ASSERT_EQ(ranks.size(), 2u);
  kill(ranks[0], SIGSTOP);
  ASSERT_EQ(run.Wait(), 1) << run.err();
  std::string err = run.err();
  EXPECT_EQ(Lines(err), 1) << err;
  EXPECT_NE(err.find("heddle: rank 0 has not moved for 2."), std::string::npos) << err;
  EXPECT_NE(err.find("stopped"), std::string::npos) << err;
  EXPECT_EQ(run.out(), "");
  for (auto [rank, pid] : ranks) EXPECT_TRUE(IsGone(pid)) << rank;
}

TEST(Failures, WhatCannotWorkIsRefused) {
  ExpectRefused("train " + kFailingModel + " --np 2 --restarts 1", {"--restarts", "--checkpoint"});
  ExpectRefused("train " + kFailingModel + " --np 2 --elastic", {"--elastic", "--checkpoint"});
  ExpectRefused("train " + kFailingModel + " --np 2 --min-ranks 2", {"--min-ranks", "--elastic"});
}

}  // namespace
}  // namespace heddle
