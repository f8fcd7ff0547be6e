// A fleet that is killed repeatedly at random times ends with the losses of an undisturbed fleet.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <random>

#include "../run_binary.h"
#include "base/json.h"

namespace heddle {
namespace {

// Kills a fleet `times` times at random, lets it end, and returns its jobs.
Json KilledAndEnded(const std::string& arguments, int times, int most_milliseconds) {
  std::mt19937 random(3);
  int killed = 0;  // number of kills before it had ended
  for (int tries = 0; tries < times; ++tries) {
    pid_t child = fork();
    if (child == 0) {
      std::string command =
          std::string("exec ") + HEDDLE_BINARY + " " + arguments + " >/dev/null 2>&1";
      execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      _exit(127);
    }
    std::uniform_int_distribution<int> milliseconds(300, most_milliseconds);
    usleep(static_cast<useconds_t>(1000 * milliseconds(random)));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    killed += WIFSIGNALED(status) ? 1 : 0;
  }
  EXPECT_EQ(killed, times) << "the jobs are too short";
  RunOutput last = RunHeddle(arguments);
  EXPECT_EQ(last.status, 0) << last.err;
  return ParseJson(last.out, "")["jobs"];
}

TEST(FleetKill, TwentyTimes) {
  TempFolder folder;
  std::string jobs = folder / "jobs.yaml";
  std::ofstream(jobs) << "cluster: local:2\njobs:\n  - name: gpt\n    model: "
                         "gpt:layers=8,hidden=64,heads=4,seq=32,vocab=256,batch=8\n    steps: 300\n"
                         "    lr: [0.001, 0.003]\n    optimizer: [adamw, momentum]\n";
  std::string common = "fleet " + jobs + " --memory-limit 4MiB --threads 1 --json";
  RunOutput whole = RunHeddle(common);
  ASSERT_EQ(whole.status, 0) << whole.err;
  Json expected = ParseJson(whole.out, "")["jobs"];
  Json got =
      KilledAndEnded(common + " --checkpoint-every 3 --checkpoint " + folder / "saved", 20, 2500);
  ASSERT_EQ(expected.size(), got.size());
  for (size_t j = 0; j < expected.size(); ++j) {
    EXPECT_EQ(expected[j]["losses"], got[j]["losses"]) << expected[j]["name"];
  }
}

// Jobs run in shards first, then one job on both devices. The step at which it changes differs, and so does rounding.
TEST(FleetKill, OnSeveralDevices) {
  TempFolder folder;
  std::string jobs = folder / "jobs.yaml";
  std::ofstream(jobs)
      << "cluster: local:2\ndefaults:\n  model: "
         "gpt:layers=8,hidden=64,heads=4,seq=32,vocab=256,batch=2\n"
         "jobs:\n  - {name: long, steps: 300}\n  - {name: short, steps: 60, lr: [0.001, 0.003]}\n";
  std::string common =
      "fleet " + jobs + " --several --switch 0.01 --memory-limit 4MiB --threads 1 --json";
  RunOutput whole = RunHeddle(common);
  ASSERT_EQ(whole.status, 0) << whole.err;
  Json expected = ParseJson(whole.out, "")["jobs"];
  Json got =
      KilledAndEnded(common + " --checkpoint-every 3 --checkpoint " + folder / "saved", 10, 1500);
  ASSERT_EQ(expected.size(), got.size());
  EXPECT_EQ(got[0]["devices"], 2);
  for (size_t j = 0; j < expected.size(); ++j) {
    const Json &want = expected[j]["losses"], &losses = got[j]["losses"];
    ASSERT_EQ(want.size(), losses.size());
    for (size_t s = 0; s < want.size(); ++s)
      EXPECT_NEAR(losses[s].get<double>(), want[s].get<double>(), 1e-3)
          << "job " << j << " step " << s;
  }
}

}  // namespace
}  // namespace heddle
