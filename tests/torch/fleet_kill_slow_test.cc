// A fleet that is killed again and again, at any time, ends with the losses of one that was left alone.
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

TEST(FleetKill, TwentyTimes) {
  TempFolder folder;
  std::string jobs = folder / "jobs.yaml";
  std::ofstream(jobs) << "cluster: local:2\njobs:\n  - name: gpt\n    model: "
                         "gpt:layers=8,hidden=64,heads=4,seq=32,vocab=256,batch=8\n    steps: 300\n"
                         "    lr: [0.001, 0.003]\n    optimizer: [adamw, momentum]\n";
  std::string common = "fleet " + jobs + " --memory-limit 4MiB --threads 1 --json";
  RunOutput whole = RunHeddle(common);
  ASSERT_EQ(whole.status, 0) << whole.err;
  std::string saved = common + " --every 3 --checkpoint " + folder / "saved";
  std::mt19937 random(3);
  int killed = 0;  // at work, not after it had ended
  for (int tries = 0; tries < 20; ++tries) {
    pid_t child = fork();
    if (child == 0) {
      std::string command = std::string("exec ") + HEDDLE_BINARY + " " + saved + " >/dev/null 2>&1";
      execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      _exit(127);
    }
    std::uniform_int_distribution<int> milliseconds(300, 2500);
    usleep(static_cast<useconds_t>(1000 * milliseconds(random)));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    killed += WIFSIGNALED(status) ? 1 : 0;
  }
  EXPECT_EQ(killed, 20) << "the jobs are too short";
  RunOutput last = RunHeddle(saved);
  ASSERT_EQ(last.status, 0) << last.err;
  Json expected = ParseJson(whole.out, "")["jobs"], got = ParseJson(last.out, "")["jobs"];
  ASSERT_EQ(expected.size(), got.size());
  for (size_t j = 0; j < expected.size(); ++j) {
    EXPECT_EQ(expected[j]["losses"], got[j]["losses"]) << expected[j]["name"];
  }
}

}  // namespace
}  // namespace heddle
