// Training from the command line.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "../run_binary.h"
#include "base/file.h"
#include "base/json.h"
#include "graph/safetensors.h"
#include "runtime/accelerator.h"

namespace heddle {
namespace {

const std::string kData = HEDDLE_TEST_DATA "/pytorch/";

std::vector<double> Losses(const std::string& arguments) {
  RunOutput run = RunHeddle("train " + arguments + " --json");
  EXPECT_EQ(run.status, 0) << run.err;
  return ParseJson(run.out, "output")["losses"].get<std::vector<double>>();
}

TEST(TrainCli, PrintsLossesBesideTheReference) {
  std::string model = kData + "tiny-mlp";
  RunOutput run = RunHeddle("train " + model + ".onnx --np 1 --steps 20 --data " + model +
                            ".ref.safetensors --reference " + model + ".ref.safetensors --json");
  ASSERT_EQ(run.status, 0) << run.err;
  Json json = ParseJson(run.out, "output");
  EXPECT_EQ(json["losses"].size(), 20u);
  EXPECT_LT(json["max_relative_difference"].get<double>(), 1e-4);
  EXPECT_GT(json["step_seconds"].get<double>(), 0);
}

TEST(TrainCli, PredictedStandsBesideMeasured) {
  std::string train = "train gpt:layers=2,hidden=32,heads=4,seq=16,vocab=50,batch=4 --steps 3 ";
  for (std::string how :
       {"", "--dp 2 --zero 1", "--tp 2 --pp 2 --microbatches 2 --transport threads"}) {
    SCOPED_TRACE(how);
    RunOutput run = RunHeddle(train + how + " --json");
    ASSERT_EQ(run.status, 0) << run.err;
    Json json = ParseJson(run.out, "output");
    EXPECT_GT(json["predicted_step_seconds"].get<double>(), 0);
    EXPECT_GT(json["predicted_peak_memory_bytes"].get<int64_t>(), 0);
    EXPECT_GT(json["peak_memory_bytes"].get<int64_t>(), 0);
    EXPECT_GT(json["peak_rss_bytes"].get<int64_t>(), json["peak_memory_bytes"].get<int64_t>());
    EXPECT_EQ(json["prediction"]["source"], "simulated");
    EXPECT_EQ(json["prediction"]["calibrated"], false);
    EXPECT_LT(json["busiest_device"].get<int64_t>(), json["devices"].get<int64_t>());
    std::set<std::string> kinds;
    for (const auto& [kind, of] : json["instructions"].items()) {
      kinds.insert(kind);
      EXPECT_GT(of["count"].get<int64_t>(), 0) << kind;
      EXPECT_GE(of["predicted_seconds"].get<double>(), 0) << kind;
      EXPECT_GT(of["measured_seconds"].get<double>(), 0) << kind;
    }
    for (std::string kind : {"run", "report", "update"}) EXPECT_EQ(kinds.count(kind), 1u) << kind;
    EXPECT_EQ(kinds.count("reduce-gradients"), how.empty() ? 0u : 1u);
    EXPECT_EQ(kinds.count("send") + kinds.count("recv"),
              how.find("--pp") == std::string::npos ? 0u : 2u);
  }
  RunOutput table = RunHeddle(train);
  ASSERT_EQ(table.status, 0) << table.err;
  for (std::string word : {"predicted", "measured", "simulated", "uncalibrated", "peak RSS",
                           "device 0 of 1", "update"}) {
    EXPECT_NE(table.out.find(word), std::string::npos) << word << "\n" << table.out;
  }
}

TEST(TrainCli, AnExportedModelTrainsTheSame) {
  TempFolder folder;
  std::string model = kData + "tiny-gpt2.onnx",
              data = " --data " + kData + "tiny-gpt2.ref.safetensors";
  ASSERT_EQ(RunHeddle("export " + model + " -o " + folder / "m.heddle" + " --weights " +
                      folder / "w.safetensors")
                .status,
            0);
  EXPECT_EQ(
      Losses(model + data + " --steps 3"),
      Losses(folder / "m.heddle" + data + " --steps 3 --weights " + folder / "w.safetensors"));
}

TEST(TrainCli, TheSameSeedGivesTheSameLosses) {
  std::string model = kData + "tiny-cnn.onnx --init seeded --steps 2 --seed ";
  EXPECT_EQ(Losses(model + "3"), Losses(model + "3"));
  EXPECT_NE(Losses(model + "3"), Losses(model + "4"));
}

TEST(TrainCli, BuiltInModelsTrainFromSeededWeights) {
  for (std::string model :
       {"gpt:layers=2,hidden=32,heads=4,seq=16,vocab=50,batch=2",
        "llama:layers=2,hidden=32,heads=4,kv_heads=2,seq=16,vocab=50,batch=2"}) {
    std::vector<double> losses = Losses(model + " --steps 5 --lr 0.01");
    EXPECT_NEAR(losses[0], std::log(50.0), 1.0) << model;
    EXPECT_LT(losses.back(), losses[0]) << model;
  }
}

TEST(TrainCli, OptimizersReduceTheLoss) {
  for (std::string optimizer : {"sgd", "momentum", "adam", "adamw"}) {
    std::vector<double> losses =
        Losses(kData + "tiny-mlp.onnx --steps 10 --lr 0.005 --optimizer " + optimizer);
    EXPECT_LT(losses.back(), losses.front()) << optimizer;
  }
}

// torch_options_test.cc tests invalid numbers.
TEST(TrainCli, BadInputIsOneLine) {
  std::string model = kData + "tiny-gpt2.onnx ";
  ExpectRefused("train " HEDDLE_TEST_DATA "/models/resnet50.onnx.gz",
                {"parameters have no weights", "--init seeded"});
  ExpectRefused("train " + model + "--init random", {"--init", "seeded"});
  ExpectRefused("train " + model + "--optimizer adagrad", {"adagrad", "adamw"});
  ExpectRefused("train " + model + "--betas 0.9", {"--betas"});
  ExpectRefused("train " + model + "--betas 0.9,1.5", {"1.5"});
  ExpectRefused("train " + model + "--device tpu", {"--device", "auto"});
  ExpectRefused("train " + model + "--transport nccl", {"--transport nccl", "--device cuda"});
  if (CudaDevices() == 0)
    ExpectRefused("train " + model + "--device cuda", {"--device cuda", "--device cpu"});
  ExpectRefused("train " + model + "--data none.safetensors", {"none.safetensors"});
  ExpectRefused("train " + model + "--data " + kData + "tiny-mlp.ref.safetensors",
                {"tiny-mlp.ref.safetensors", "input_ids", "labels"});
  ExpectRefused("train " + model + "--data " + kData + "tiny-moe.ref.safetensors",
                {"input_ids", "[4,16]", "[4,32]"});
  ExpectRefused("train " + model + "--weights " + kData + "tiny-mlp.ref.safetensors",
                {"tiny-mlp", "none of its"});
  ExpectRefused("train " + model + "--steps 30 --reference " + kData + "tiny-gpt2.ref.safetensors",
                {"20 losses", "30"});
  RunOutput run = RunHeddle("train " + kData + "tiny-mlp.onnx --optimizer sgd --lr 1e5 --steps 50");
  EXPECT_EQ(run.status, 1);
  EXPECT_NE(run.err.find("--lr"), std::string::npos) << run.err;
}

// ---- Plans, ranks, data files.

TEST(TrainCli, RanksOfEitherTransportTrainLikeOne) {
  std::string run =
      kData + "tiny-llama.onnx --steps 4 --data " + kData + "tiny-llama.ref.safetensors";
  std::vector<double> one = Losses(run);
  for (std::string how : {" --np 2 --transport threads", " --np 2", " --dp 2 --tp 2 --zero 2",
                          " --tp 2 --pp 2 --microbatches 4 --schedule zb-h1 --transport threads"}) {
    std::vector<double> losses = Losses(run + how);
    ASSERT_EQ(losses.size(), one.size()) << how;
    for (size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(losses[i], one[i], 1e-4 * one[i]) << how;
  }
}

TEST(TrainCli, APlanTrainsAndWritesTraceAndMetrics) {
  TempFolder folder;
  std::string model = kData + "tiny-gpt2.onnx";
  ASSERT_EQ(
      RunHeddle("plan " + model + " --cluster local:4 --dp 2 --tp 2 -o " + folder / "plan.json")
          .status,
      0);
  RunOutput run =
      RunHeddle("train " + folder / "plan.json" + " --steps 3 --trace " + folder / "t.json" +
                " --metrics " + folder / "m.jsonl" + " --tensorboard " + folder / "tb" + " --json");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(ParseJson(run.out, "output")["devices"], 4);
  Json trace = ParseJson(ReadFile(folder / "t.json", 1 << 28), "trace");
  std::set<int64_t> devices;
  std::map<std::pair<int64_t, int64_t>, std::vector<std::pair<double, double>>> tracks;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    double start = event["ts"].get<double>();
    devices.insert(event["pid"].get<int64_t>());
    tracks[{event["pid"].get<int64_t>(), event["tid"].get<int64_t>()}].push_back(
        {start, start + event["dur"].get<double>()});
  }
  EXPECT_EQ(devices, (std::set<int64_t>{0, 1, 2, 3}));
  std::set<int64_t> counted;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "C" && event["args"]["memory"] > 0)
      counted.insert(event["pid"].get<int64_t>());
  }
  EXPECT_EQ(counted, devices);
  EXPECT_GE(tracks.size(), 8u);  // compute and communication of each device
  for (auto& [track, events] : tracks) {
    std::sort(events.begin(), events.end());
    for (size_t e = 1; e < events.size(); ++e)
      EXPECT_GE(events[e].first, events[e - 1].second - 0.01);
  }
  std::string lines = ReadFile(folder / "m.jsonl", 1 << 20);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 3);
  EXPECT_FALSE(std::filesystem::is_empty(folder / "tb"));
}

TEST(TrainCli, BadPlansAndRanksAreOneLine) {
  TempFolder folder;
  std::string model = kData + "tiny-gpt2.onnx", plan = folder / "plan.json";
  ASSERT_EQ(RunHeddle("plan " + model + " --cluster local:4 --dp 2 --tp 2 -o " + plan).status, 0);
  std::string text = ReadFile(plan, 1 << 20);
  auto edited = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    changed.replace(at, from.size(), to);
    WriteFileAtomically(folder / "edited.json", changed);
    return "train " + folder / "edited.json";
  };
  ExpectRefused("train " + plan + " --np 2", {"plan.json", "4 ranks", "--np"});
  ExpectRefused("train " + plan + " --tp 2", {"plan", "--tp"});
  ExpectRefused("train " + plan + " --zero 1", {"plan", "--zero"});
  ExpectRefused("train gpt3-175b --steps 1", {"this machine has"});
  ExpectRefused("train " + plan + " --cluster dgx-h100:2", {"cluster", "dgx-h100"});
  ExpectRefused("train " + plan + " --model " + kData + "tiny-llama.onnx", {"plan.json"});
  ExpectRefused(edited("\"heddle_plan\": 1", "\"heddle_plan\": 7"), {"edited.json", "7"});
  ExpectRefused(edited("\"tp\": 2", "\"tp\": 3"), {"edited.json"});
  ExpectRefused("train " + model + " --np 4 --tp 3", {"--np 4", "tp 3"});
  ExpectRefused("train " + model + " --dp 2 --tp 2 --cluster local:2", {"dp 2", "tp 2"});
}

TEST(TrainCli, BadDataIsOneLine) {
  TempFolder folder;
  std::string gpt = "train gpt:layers=1,hidden=32,heads=2,seq=32,vocab=64,batch=2 --data ";
  WriteFileAtomically(folder / "short.txt", "abc");
  ExpectRefused(gpt + folder / "short.txt", {"short.txt"});
  WriteFileAtomically(folder / "high.txt", std::string(500, 'z'));
  ExpectRefused(gpt + folder / "high.txt", {"high.txt", "64"});
  ExpectRefused("train " + kData + "tiny-cnn.onnx --data " + folder / "high.txt", {"pixels"});
}

TEST(TrainCli, WeightsThatDoNotFitAreAllNamed) {
  TempFolder folder;
  std::string model = kData + "tiny-mlp.onnx";
  ASSERT_EQ(RunHeddle("export " + model + " -o " + folder / "m.heddle --weights " +
                      folder / "w.safetensors")
                .status,
            0);
  std::map<std::string, HostTensor> tensors =
      SafetensorsFile::Open(folder / "w.safetensors").LoadAll();
  auto refused = [&](std::vector<std::string> words) {
    std::vector<NamedTensor> named;
    for (const auto& [name, tensor] : tensors) named.push_back({name, &tensor});
    WriteSafetensors(folder / "x.safetensors", named);
    ExpectRefused("train " + model + " --weights " + folder / "x.safetensors", words);
  };
  std::string first = tensors.begin()->first, second = std::next(tensors.begin())->first;
  HostTensor kept = tensors.at(first);
  tensors.erase(first);
  tensors.erase(second);
  refused({"x.safetensors", first, second, "missing"});
  tensors.insert_or_assign(first, MakeTensor(DType::kF32, {1}, std::vector<double>{1}));
  refused({first, second});
  tensors = SafetensorsFile::Open(folder / "w.safetensors").LoadAll();
  tensors.insert_or_assign("nobody", kept);
  tensors.insert_or_assign("nothing", kept);
  refused({"nobody", "nothing"});
}

TEST(TrainCli, PredictedMemoryIsWhatTensorsTake) {
  std::string train = "train gpt:layers=3,hidden=64,heads=4,seq=64,vocab=500,batch=8 --steps 2 ";
  for (std::string how : {"--dp 1", "--dp 2 --zero 1", "--tp 2", "--pp 2 --microbatches 2",
                          "--dp 2 --zero 3", "--dp 2 --recompute full"}) {
    SCOPED_TRACE(how);
    RunOutput run = RunHeddle(train + how + " --transport threads --json");
    ASSERT_EQ(run.status, 0) << run.err;
    Json json = ParseJson(run.out, "output");
    double measured = json["peak_memory_bytes"].get<double>();
    EXPECT_NEAR(json["predicted_peak_memory_bytes"].get<double>(), measured, 0.08 * measured);
  }
}

TEST(CalibrateCli, AProfileIsUsedHereAndRefusedElsewhere) {
  TempFolder folder;
  std::string path = folder / "p.json";
  RunOutput run = RunHeddle("calibrate --small --ranks 1 --seconds 1 --json -o " + path);
  ASSERT_EQ(run.status, 0) << run.err;
  Json measured = ParseJson(run.out, "output")["measured"];
  EXPECT_EQ(measured, ParseJson(Slurp(path), path));
  ASSERT_EQ(measured["devices"].size(), 1u);
  Json& device = measured["devices"][0];
  EXPECT_EQ(device["loads"].size(), 1u);
  EXPECT_GT(device["loads"][0]["kernels"]["f32"]["ops"].size(), 5u);

  std::string gpt = "train gpt:layers=1,hidden=32,heads=2,seq=16,vocab=50,batch=2 --steps 2 ";
  RunOutput trained = RunHeddle(gpt + "--np 1 --threads 1 --json --profile " + path);
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_EQ(ParseJson(trained.out, "output")["prediction"]["calibrated"], true);

  ExpectRefused(gpt + "--np 1 --threads 2 --profile " + path, {"machine.threads", "'1'", "'2'"});
  std::string plan =
      "plan gpt:layers=2,hidden=64,heads=2,seq=16,vocab=50,batch=8 --profile " + path;
  ExpectRefused(plan + " --cluster dgx-h100:1", {"cpu-core", "h100-sxm"});
  device["machine"]["processor"] = "Z80";
  WriteFileAtomically(path, measured.dump());
  ExpectRefused(plan + " --cluster local:2",
                {path, "machine.processor", "Z80", "heddle calibrate"});
  WriteFileAtomically(path, measured.dump().substr(0, 200));
  ExpectRefused(plan + " --cluster local:2", {path});
}

TEST(CalibrateCli, EveryKindOfDeviceHasAProfile) {
  TempFolder folder;
  std::string path = folder / "p.json", cluster = folder / "mixed.yaml",
              part = folder / "part.json";
  WriteFileAtomically(cluster,
                      "device_types:\n"
                      "  - {name: fast, fp32: 9 GFLOP/s, memory: 4 GiB, memory_bandwidth: 9 GB/s}\n"
                      "  - {name: slow, fp32: 9 GFLOP/s, memory: 4 GiB, memory_bandwidth: 9 GB/s}\n"
                      "nodes:\n"
                      "  - link: {bandwidth: 9 GB/s, latency: 1 us}\n"
                      "    parts: [{device: fast}, {device: slow}]\n");
  std::string calibrate =
      "calibrate --small --seconds 1 --transport threads --cluster " + cluster + " -o " + path;
  ExpectRefused(calibrate + " --ranks 3", {"--cluster", "2 devices", "--ranks 2"});
  RunOutput run = RunHeddle(calibrate);
  ASSERT_EQ(run.status, 0) << run.err;
  Json profile = ParseJson(Slurp(path), path);
  ASSERT_EQ(profile["devices"].size(), 2u);
  for (size_t d : {0, 1}) {
    EXPECT_EQ(profile["devices"][d]["device"], d == 0 ? "fast" : "slow");
    ASSERT_EQ(profile["devices"][d]["loads"].size(), 2u);
    EXPECT_EQ(profile["devices"][d]["loads"][0]["ranks"], 1);
    EXPECT_EQ(profile["devices"][d]["loads"][1]["ranks"], 2);
    EXPECT_EQ(profile["devices"][d]["loads"][1]["transfers"],
              profile["devices"][0]["loads"][1]["transfers"]);
  }
  std::string plan = "plan gpt:layers=1,hidden=32,heads=2,seq=16,vocab=50,batch=8 --cluster " +
                     cluster + " --profile " + path;
  RunOutput planned = RunHeddle(plan);
  EXPECT_EQ(planned.status, 0) << planned.err;

  // Only some devices are measured, and one of them twice.
  profile["devices"].erase(0);
  WriteFileAtomically(part, profile.dump());
  ExpectRefused(plan + " --profile " + part, {part, path, "'slow'"});
  WriteFileAtomically(path, profile.dump());
  ExpectRefused(plan, {path, "'fast'", "heddle calibrate"});
}

TEST(TrainCli, AMemoryLimitHoldsForEveryPlan) {
  TempFolder folder;
  std::string gpt = "gpt:layers=1,hidden=16,heads=2,seq=8,vocab=32,batch=4 ";
  std::string plan = folder / "plan.json";
  // The cluster is no preset, so that searches do not consider larger ones of the kind.
  std::string two = folder / "two.yaml";
  WriteFileAtomically(two,
                      "device_types:\n"
                      "  - {name: mine, fp32: 9 GFLOP/s, memory: 4 GiB, memory_bandwidth: 9 GB/s}\n"
                      "nodes:\n"
                      "  - {device: mine, devices: 2, link: {bandwidth: 9 GB/s, latency: 1 us}}\n");
  ASSERT_EQ(RunHeddle("plan " + gpt + "--tp 2 --cluster " + two + " -o " + plan).status, 0);
  for (std::string what : {gpt + "--tp 2", gpt + "--np 2", plan}) {
    RunOutput run = RunHeddle("train " + what +
                              " --steps 1 --transport threads --memory-limit 1KB --cluster " + two);
    EXPECT_EQ(run.status, 3) << what << run.out << run.err;
    EXPECT_EQ(run.out, "") << what;
    for (std::string part : {"no plan fits", "a device", "940 B"})
      EXPECT_NE(run.err.find(part), std::string::npos) << what << ": " << run.err;
  }
}

TEST(TrainCli, SomethingMustBeTrained) {
  std::string gpt = "gpt:layers=1,hidden=16,heads=2,seq=8,vocab=32,batch=4 --frozen '*' ";
  ExpectRefused("train " + gpt, {"nothing to train"});
  ExpectRefused("prune " + gpt, {"nothing to train"});
  // Only one bias after all layers is trained, on one device and on two.
  std::vector<Json> losses;
  for (std::string degrees : {"", "--tp 2", "--dp 2"}) {
    RunOutput run = RunHeddle(
        "train gpt:layers=2,hidden=16,heads=2,seq=8,vocab=32,batch=4 --steps 2 --json "
        "--transport threads --fill-constants --frozen '*weight' --frozen '*.h.*' " +
        degrees);
    ASSERT_EQ(run.status, 0) << run.err;
    losses.push_back(ParseJson(run.out, "output")["losses"]);
    EXPECT_NEAR(losses.back()[1].get<double>(), losses[0][1].get<double>(), 1e-4) << degrees;
    EXPECT_LT(losses.back()[1].get<double>(), losses.back()[0].get<double>()) << degrees;
  }
}

TEST(TrainCli, StandardFilesMayBeClosed) {
  std::string train = std::string(HEDDLE_BINARY) +
                      " train gpt:layers=1,hidden=16,heads=2,seq=8,vocab=32,batch=4 --steps 1 ";
  EXPECT_EQ(WEXITSTATUS(std::system((train + "<&- >&- 2>&-").c_str())), 1);
  EXPECT_EQ(WEXITSTATUS(std::system((train + ">/dev/null <&- 2>&-").c_str())), 0);
}

TEST(CalibrateCli, AProfileBearsTheNameOfWhatWasMeasured) {
  TempFolder folder;
  for (std::string cluster : {"dgx-h100:1", "dgx-a100:1"}) {
    ExpectRefused(
        "calibrate --small --seconds 1 --ranks 1 --cluster " + cluster + " -o " + folder / "p.json",
        {"--cluster " + cluster.substr(0, 8), "heddle discover"});
  }
  EXPECT_TRUE(folder.IsEmpty());
}

TEST(CalibrateCli, WhereNothingCanBeWrittenNothingIsMeasured) {
  ExpectRefused("calibrate --small --ranks 1 -o /nowhere/p.json", {"/nowhere/p.json"});
  ExpectRefused("calibrate --small --ranks 1 --device cuda", {"--device cuda"});
}

}  // namespace
}  // namespace heddle
