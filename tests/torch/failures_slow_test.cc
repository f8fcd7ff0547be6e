// Many failures of any rank at any time. The run must name each failure and end with the result of an undisturbed run.
#include <fmt/format.h>

#include <cmath>
#include <random>

#include "base/file.h"
#include "failing_run.h"

namespace heddle {
namespace {

// Hashes of the shards of the last checkpoint, which have weights and moments.
Json LastFiles(const std::string& folder, int64_t step) {
  std::string path = fmt::format("{}/step-{:08d}/manifest.json", folder, step);
  return ParseJson(ReadFile(path, 1 << 24), path)["files"];
}

bool IsBeingWritten(const std::string& checkpoints) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(checkpoints, error)) {
    if (entry.path().string().find(".tmp-") != std::string::npos) return true;
  }
  return false;
}

int64_t Count(const std::string& text, const std::string& word) {
  int64_t count = 0;
  for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; ++at) ++count;
  return count;
}

// `kills` and `stops` of random ranks in random order. One in four happens while ranks start, the others while they
// train and save.
void Disturb(const std::string& how, int ranks, int64_t steps, int kills, int stops,
             uint64_t seed) {
  constexpr double kTimeout = 2;
  TempFolder folder;
  std::string train = kFailingModel + " " + how + " --json --steps " + std::to_string(steps) +
                      " --checkpoint-every 2 --checkpoint ";
  std::vector<double> calm = CalmLosses(train + folder / "calm");
  FailingRun run(train + folder / "c" + " --timeout 2 --restarts " + std::to_string(kills + stops));
  std::mt19937_64 random(seed);
  std::map<int, pid_t> before;
  int64_t faults = kills + stops, training = 0, writing = 0;
  double slowest_kill = 0, slowest_stop = 0;
  while (kills + stops > 0) {
    std::map<int, pid_t> now;
    ASSERT_TRUE(run.WaitUntil([&] {
      now = run.Ranks();
      return run.HasEnded() || (std::ssize(now) == ranks && now != before);
    })) << run.err();
    before = now;
    bool starting = random() % 4 == 0;
    if (!starting) run.WaitForSteps(run.steps() + 1);
    ASSERT_FALSE(run.HasEnded()) << kills << " kills, " << stops << " stops to go; " << run.err();
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % (starting ? 1000 : 200)));
    int rank = static_cast<int>(random() % static_cast<uint64_t>(ranks));
    bool stop = static_cast<int>(random() % static_cast<uint64_t>(kills + stops)) < stops;
    size_t said = run.err().size();
    auto began = FailingRun::Clock::now();
    kill(now[rank], stop ? SIGSTOP : SIGKILL);
    training += !starting;
    writing += IsBeingWritten(folder / "c");
    std::string word = stop ? fmt::format("rank {} has not moved for ", rank)
                            : fmt::format("rank {} was killed by signal 9 (Killed)", rank);
    ASSERT_TRUE(run.WaitUntil([&] { return run.err().find(word, said) != std::string::npos; }, 10))
        << word << "\n"
        << run.err().substr(said);
    double took = std::chrono::duration<double>(FailingRun::Clock::now() - began).count();
    (stop ? slowest_stop : slowest_kill) = std::max(stop ? slowest_stop : slowest_kill, took);
    --(stop ? stops : kills);
  }
  ASSERT_EQ(run.Wait(), 0) << run.err();
  std::string err = run.err();
  EXPECT_EQ(Count(err, "was killed") + Count(err, "has not moved"), faults) << err;
  EXPECT_EQ(err.find("an earlier one is used"), std::string::npos) << err;
  EXPECT_EQ(LossesOf(run.out()), calm);
  EXPECT_EQ(LastFiles(folder / "c", steps), LastFiles(folder / "calm", steps));
  EXPECT_LT(slowest_kill, 5);
  EXPECT_LT(slowest_stop, kTimeout + 1);
  Json json = ParseJson(run.out(), "output");
  fmt::print(
      "{}: {} faults, {} while training, {} while a checkpoint was being written; named after at "
      "most {:.2f} s "
      "(killed), {:.2f} s (stopped); goodput {:.3f}, {} steps done again\n",
      how, faults, training, writing, slowest_kill, slowest_stop, json["goodput"].get<double>(),
      json["lost_steps"].get<int64_t>());
}

// Fifty kills and twenty stops in total.
TEST(Failures, KillsAndStopsOfTwoRanksChangeNothing) { Disturb("--dp 2", 2, 1000, 30, 12, 1); }

TEST(Failures, KillsAndStopsOfFourRanksChangeNothing) {
  Disturb("--tp 2 --pp 2 --microbatches 2", 4, 400, 20, 8, 2);
}

TEST(Failures, TheRanksEndWithTheirSupervisor) {
  for (int signal : {SIGINT, SIGTERM, SIGKILL}) {
    SCOPED_TRACE(signal);
    FailingRun run(kFailingModel + " --dp 2 --steps 100000 --json");
    ASSERT_TRUE(run.WaitForSteps(3)) << run.err();
    std::map<int, pid_t> ranks = run.Ranks();
    ASSERT_EQ(ranks.size(), 2u);
    kill(ranks[1], SIGSTOP);
    kill(run.pid(), signal);
    EXPECT_EQ(run.Wait(), 128 + signal);
    EXPECT_EQ(run.err(), "");
    for (auto [rank, pid] : ranks)
      EXPECT_TRUE(run.WaitUntil([&, gone = pid] { return IsGone(gone); }, 5)) << rank;
  }
}

TEST(Failures, OneRankAloneGoesOnToo) {
  TempFolder folder;
  std::string train = kFailingModel + " --steps 60 --json";
  std::vector<double> calm = CalmLosses(train);
  FailingRun run(train + " --restarts 2 --timeout 2 --checkpoint " + folder / "c" +
                 " --checkpoint-every 4");
  for (int signal : {SIGKILL, SIGSTOP}) {
    ASSERT_TRUE(run.WaitForSteps(run.steps() + 5)) << run.err();
    for (pid_t pid : ChildrenOf(run.pid())) kill(pid, signal);
  }
  ASSERT_EQ(run.Wait(), 0) << run.err();
  EXPECT_EQ(LossesOf(run.out()), calm);
}

double FarthestApart(const std::vector<double>& a, const std::vector<double>& b) {
  double apart = a.size() == b.size() ? 0 : INFINITY;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    apart = std::max(apart, std::abs(a[i] - b[i]) / b[i]);
  return apart;
}

// Every step has another batch, learning rate and dropout mask. If any of these, or the moments, were not resumed
// correctly, the third digit of the loss would differ at once. Only rounding may differ, by as much as between
// undisturbed runs with other numbers of ranks. (With the same batch in every step rounding errors grow: such runs
// differ by 2e-4 after 100 steps.)
TEST(Failures, ElasticGoesOnWithThoseLeft) {
  TempFolder folder;
  std::string text;
  std::mt19937_64 random(1);
  for (int i = 0; i < 50000; ++i) text += static_cast<char>(' ' + (i % 37 + random() % 23));
  WriteFileAtomically(folder / "text", text);
  std::string train = kFailingModel + ",dropout=0.1 --steps 150 --json --lr-schedule cosine " +
                      "--warmup 20 --data " + folder / "text";
  std::vector<double> calm = CalmLosses(train + " --dp 4");
  double rounding = FarthestApart(CalmLosses(train + " --dp 3"), calm);
  FailingRun run(train + " --dp 4 --elastic --min-ranks 3 --checkpoint " + folder / "c" +
                 " --checkpoint-every 5");
  ASSERT_TRUE(run.WaitForSteps(20)) << run.err();
  auto began = FailingRun::Clock::now();
  kill(run.Ranks()[2], SIGKILL);
  ASSERT_TRUE(run.WaitUntil(
      [&] { return run.err().find("goes on with 3 ranks from step") != std::string::npos; }, 10))
      << run.err();
  double took = std::chrono::duration<double>(FailingRun::Clock::now() - began).count();
  ASSERT_EQ(run.Wait(), 0) << run.err();
  EXPECT_EQ(ParseJson(run.out(), "output")["devices"], 3);
  double apart = FarthestApart(LossesOf(run.out()), calm);
  EXPECT_LT(rounding, 1e-5);
  EXPECT_LT(apart, std::max(1e-6, 10 * rounding));
  fmt::print(
      "3 ranks went on {:.1f} s after the kill; losses differ by at most {:.1e}, those of 3 "
      "undisturbed ranks by {:.1e}\n",
      took, apart, rounding);
}

TEST(Failures, ElasticSaysWhereTooFewAreLeft) {
  TempFolder folder;
  FailingRun run(kFailingModel + " --dp 2 --steps 100000 --elastic --min-ranks 2 --checkpoint " +
                 folder / "c");
  ASSERT_TRUE(run.WaitForSteps(3)) << run.err();
  kill(run.Ranks()[0], SIGKILL);
  EXPECT_EQ(run.Wait(), 3);
  EXPECT_NE(run.err().find("1 device is left: --min-ranks is 2"), std::string::npos) << run.err();
}

}  // namespace
}  // namespace heddle
