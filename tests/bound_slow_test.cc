// Floors of all configurations of models that keep devices busy: where bounds are close.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cluster/load.h"
#include "floor_check.h"
#include "frontend/families/built_in.h"

namespace heddle {
namespace {

class AllFloors : public testing::TestWithParam<const char*> {};

TEST_P(AllFloors, Hold) {
  Model model = Analyse(BuildModel(GetParam()));
  for (const char* name : {"dgx-h100:1", "dgx-h100:2"}) {
    Cluster cluster = LoadCluster(name);
    for (double share : {1.0, 0.3}) {
      CheckedFloors checked;
      SearchProblem problem{.model = model, .cluster = cluster};
      problem.memory_limit = static_cast<int64_t>(share * 80e9);
      checked.Add(problem);
      fmt::print("{}, {} of the memory: {} plans fit, closest {:.4f}\n", name, share, checked.plans,
                 checked.closest);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, AllFloors,
    testing::Values("gpt:layers=8,hidden=4096,heads=32,seq=2048,vocab=51200,batch=32",
                    "llama:layers=8,hidden=4096,heads=32,kv_heads=8,seq=2048,vocab=32000,batch=32",
                    "moe:layers=4,hidden=2048,heads=16,experts=8,seq=1024,vocab=32000,batch=32",
                    "bert:layers=8,hidden=1024,heads=16,seq=512,vocab=30522,batch=64",
                    "t5:layers=4,hidden=1024,heads=16,seq=512,vocab=32128,batch=32"),
    [](const auto& info) {
      std::string text = info.param;
      return text.substr(0, text.find(':'));
    });

}  // namespace
}  // namespace heddle
