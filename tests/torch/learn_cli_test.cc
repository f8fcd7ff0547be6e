// The network from the user's view: plans for unlike machines, and files that are not networks.
#include <gtest/gtest.h>

#include <fstream>

#include "../run_binary.h"
#include "base/json.h"

namespace heddle {
namespace {

constexpr const char* kUnlike = R"(
link: {name: ethernet, bandwidth: 10 Gb/s, latency: 20 us}
nodes:
  - {device: v100-sxm2-16gb, devices: 2, link: {name: pcie, bandwidth: 8 GB/s, latency: 5 us}}
  - {device: gtx-1080ti, devices: 2, link: {name: pcie, bandwidth: 8 GB/s, latency: 5 us}}
)";
constexpr const char* kSmallModel = "gpt:layers=1,hidden=64,heads=2,seq=16,vocab=500,batch=8";

TEST(LearnCli, PlansWithTheNetwork) {
  TempFolder folder;
  std::ofstream(folder / "unlike.yaml") << kUnlike;
  std::string plan = std::string("plan ") + kSmallModel + " --cluster " + folder / "unlike.yaml";
  RunOutput network = RunHeddle(plan + " --json -o " + folder / "a.json");
  ASSERT_EQ(network.status, 0) << network.err;
  RunOutput again = RunHeddle(plan + " --prior network --json -o " + folder / "b.json");
  EXPECT_EQ(Slurp(folder / "a.json"), Slurp(folder / "b.json"));
  EXPECT_EQ(again.status, 0) << again.err;
  RunOutput uniform = RunHeddle(plan + " --prior uniform --json");
  EXPECT_EQ(uniform.status, 0) << uniform.err;
  EXPECT_TRUE(Json::parse(network.out).at("feasible").get<bool>());
}

TEST(LearnCli, RefusesWhatIsNoNetwork) {
  TempFolder folder;
  std::ofstream(folder / "unlike.yaml") << kUnlike;
  std::ofstream(folder / "bad.safetensors") << "no network";
  std::string plan = std::string("plan ") + kSmallModel + " --cluster " + folder / "unlike.yaml";
  ExpectRefused(plan + " --prior " + folder / "missing.safetensors",
                {"missing.safetensors", "no such file"});
  ExpectRefused(plan + " --prior " + folder / "bad.safetensors", {"bad.safetensors"});
  ExpectRefused("learn --rounds 1 -o " + folder / "not/there.safetensors", {"there.safetensors"});
  ExpectRefused("learn --rounds 1 --minutes 1", {"--minutes"});
}

}  // namespace
}  // namespace heddle
