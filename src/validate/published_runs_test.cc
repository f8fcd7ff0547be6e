#include "validate/published_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "base/json.h"

namespace heddle {
namespace {

using testing::ElementsAre;

TEST(PublishedRunsTest, TheBundledFileIsWhole) {
  const std::vector<PublishedRun>& runs = BundledRuns();
  EXPECT_EQ(runs.size(), 212u);
  std::set<std::string> sources;
  size_t complete = 0, measured = 0;
  for (const PublishedRun& run : runs) {
    if (!IsComplete(run)) continue;
    ++complete;
    sources.insert(run.source_id);
    measured += MeasuredSeconds(run) ? 1 : 0;
  }
  EXPECT_EQ(complete, 181u);
  EXPECT_EQ(sources.size(), 20u);
  EXPECT_EQ(measured, 180u);  // of one run only the MFU is published
}

TEST(PublishedRunsTest, ReadsWhatARunSays) {
  const PublishedRun& run = BundledRuns().front();
  EXPECT_EQ(run.id, "megatron-sc21-t1-1.7b");
  EXPECT_EQ(run.source_id, "narayanan2021-table1");
  EXPECT_EQ(run.family, "gpt");
  EXPECT_EQ(run.model.layers, 24);
  EXPECT_EQ(run.model.hidden, 2304);
  EXPECT_EQ(run.model.head_dim, 96);
  EXPECT_EQ(run.model.mlp, "gelu_2mat");
  EXPECT_TRUE(run.model.tied_embeddings);
  EXPECT_EQ(run.model.position, "learned");
  EXPECT_EQ(run.model.params_billion, 1.7);
  EXPECT_EQ(run.model.moe, std::nullopt);
  EXPECT_EQ(run.precision, "fp16");
  EXPECT_EQ(run.hardware.device, "A100-SXM4-80GB");
  EXPECT_EQ(run.hardware.gpus, 32);
  EXPECT_EQ(run.hardware.gpus_per_node, 8);
  EXPECT_EQ(run.hardware.interconnect.intra_rate, 300);
  EXPECT_EQ(run.hardware.interconnect.inter_rate, 25);
  EXPECT_EQ(run.parallel.dp, 32);
  EXPECT_FALSE(run.parallel.sequence_parallel);
  EXPECT_EQ(run.batch.micro_batch, 16);
  EXPECT_EQ(run.batch.global_batch, 512);
  EXPECT_EQ(run.batch.microbatches_per_pipeline, 1);
  EXPECT_EQ(run.recompute, "full, every layer");
  EXPECT_EQ(run.schedule, (PublishedSchedule{"none", 1}));
  EXPECT_EQ(run.sharding, "none");
  EXPECT_EQ(run.measured.tflops_per_gpu, 137);
  EXPECT_EQ(run.measured.step_seconds, std::nullopt);
  EXPECT_EQ(MeasuredSeconds(run), 3.528);
  EXPECT_TRUE(run.notes.starts_with("Includes data loading"));
}

// A run of the bundled file that is changed and read again.
class ChangedRun : public testing::Test {
 protected:
  ChangedRun() : json_(ParseJson(BundledRunsText(), "bundled")) {
    Json first = json_["runs"][0];
    json_ = {{"runs", Json::array({first})}};
  }

  std::vector<PublishedRun> Read() const { return ParsePublishedRuns(json_.dump(), "runs.json"); }
  std::string Refusal() const {
    try {
      Read();
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  }
  // A field of the run, by its JSON pointer.
  std::string Refusal(const std::string& path, Json value) {
    Json before = json_;
    Run()[Json::json_pointer(path)] = std::move(value);
    std::string refusal = Refusal();
    json_ = std::move(before);
    return refusal;
  }
  std::string RefusalWithout(const std::string& key) {
    Json before = json_;
    Run().erase(key);
    std::string refusal = Refusal();
    json_ = std::move(before);
    return refusal;
  }
  Json& Run() { return json_["runs"][0]; }

  const std::string kStart = "runs.json: megatron-sc21-t1-1.7b.";
  Json json_;
};

TEST_F(ChangedRun, NullAndMissingAreNotPublished) {
  Run()["parallel"]["pp"] = nullptr;
  Run()["micro_batch"] = nullptr;
  Run()["schedule"] = nullptr;
  Run().erase("recompute");
  Run()["derived"] = nullptr;
  PublishedRun run = Read()[0];
  EXPECT_FALSE(IsComplete(run));
  EXPECT_THAT(MissingFields(run),
              ElementsAre("parallel.pp", "micro_batch", "recompute", "schedule"));
  EXPECT_EQ(MeasuredSeconds(run), std::nullopt);
}

TEST_F(ChangedRun, VirtualStagesMayBeNull) {
  Run()["schedule"]["virtual_stages"] = nullptr;
  EXPECT_TRUE(IsComplete(Read()[0]));
}

TEST_F(ChangedRun, WhatIsMeasuredComesFirst) {
  Run()["measured"]["step_seconds"] = 3;
  EXPECT_EQ(MeasuredSeconds(Read()[0]), 3);
}

TEST_F(ChangedRun, RemarksAreAnything) {
  Run()["model"]["what"] = {1, 2};
  Run()["measured"]["days"] = "many";
  Run()["notes"] = "";
  Run()["unverified_fields"] = 3;
  EXPECT_EQ(Refusal(), "accepted");
}

TEST_F(ChangedRun, RefusesWhatIsNotOfItsType) {
  EXPECT_EQ(Refusal("/model/layers", "two"),
            kStart + "model.layers: \"two\": expected a whole number");
  EXPECT_EQ(Refusal("/model/tied_embeddings", 1),
            kStart + "model.tied_embeddings: 1: expected true or false");
  EXPECT_EQ(Refusal("/model", 3), kStart + "model: 3: expected an object {...}");
  EXPECT_EQ(Refusal("/model/moe", true), kStart + "model.moe: true: expected an object {...}");
  EXPECT_EQ(Refusal("/gpus", 1.5), kStart + "gpus: 1.5: expected a whole number");
  EXPECT_EQ(Refusal("/device", nullptr), kStart + "device: null: expected a text in quotes");
  EXPECT_EQ(Refusal("/schedule/kind", 1), kStart + "schedule.kind: 1: expected a text in quotes");
  EXPECT_EQ(Refusal("/measured/step_seconds", "1 s"),
            kStart + "measured.step_seconds: \"1 s\": expected a number");
  EXPECT_EQ(Refusal("/notes", 7), kStart + "notes: 7: expected a text in quotes");
}

TEST_F(ChangedRun, RefusesWhatIsOutOfRange) {
  EXPECT_EQ(Refusal("/model/layers", 0), kStart + "model.layers: 0: expected 1 to 4096");
  EXPECT_EQ(Refusal("/model/hidden", int64_t{1} << 31),
            kStart + "model.hidden: 2147483648: expected 1 to 1073741824");
  EXPECT_EQ(Refusal("/parallel/tp", -8), kStart + "parallel.tp: -8: expected 1 to 1048576");
  EXPECT_EQ(Refusal("/gpus", uint64_t{1} << 63),
            kStart + "gpus: 9223372036854775808: expected 1 to 1048576");
  EXPECT_EQ(Refusal("/measured/memory_gib", 0),
            kStart + "measured.memory_gib: 0: expected a number above 0, up to 1e+15, or null");
  EXPECT_EQ(Refusal("/interconnect/inter_gbytes_per_s_per_gpu_one_way", 1e300),
            kStart +
                "interconnect.inter_gbytes_per_s_per_gpu_one_way: 1e+300: expected a number above "
                "0, up to 1e+15, or null");
  EXPECT_EQ(Refusal("/notes", std::string(20'000, 'x')).substr(0, 60),
            (kStart + "notes: \"xxxxxxxxxxxxxxxxxxxxxxxxx").substr(0, 60));
}

TEST_F(ChangedRun, RefusesKeysItDoesNotKnowAndMissingOnes) {
  EXPECT_EQ(Refusal("/gpu", 8),
            kStart + "gpu: unknown key: did you mean 'gpus' or 'gpus_per_node'?");
  EXPECT_EQ(Refusal("/parallel/ddp", 8), kStart + "parallel.ddp: unknown key: did you mean 'dp'?");
  EXPECT_EQ(RefusalWithout("model"), kStart + "model.layers is missing");
  EXPECT_EQ(RefusalWithout("device"), kStart + "device is missing");
  EXPECT_EQ(RefusalWithout("id"), "runs.json: runs[0].id is missing");
}

TEST_F(ChangedRun, IdsArePlainAndDiffer) {
  EXPECT_EQ(Refusal("/id", "a b"),
            "runs.json: runs[0].id: \"a b\": expected up to 200 printable characters without "
            "spaces");
  EXPECT_EQ(Refusal("/id", "a\nb").find('\n'), std::string::npos);
  json_["runs"].push_back(Run());
  EXPECT_EQ(Refusal(),
            "runs.json: runs[1].id: \"megatron-sc21-t1-1.7b\": another run has this id: change one "
            "of them");
}

TEST_F(ChangedRun, TheFileIsAnObjectWithRuns) {
  json_ = Json::array();
  EXPECT_EQ(Refusal(), "runs.json: the file: []: expected an object {...}");
  json_ = {{"runs", Json::array()}};
  EXPECT_EQ(Refusal(), "runs.json: runs: 0 runs: expected 1 to 100000");
  json_ = {{"runs", 5}};
  EXPECT_EQ(Refusal(), "runs.json: runs: 5: expected a list [...]");
  json_ = {{"runs", {5}}};
  EXPECT_EQ(Refusal(), "runs.json: runs[0]: 5: expected an object {...}");
  EXPECT_THROW(ParsePublishedRuns("{\"runs\": [", "runs.json"), InputError);
}

}  // namespace
}  // namespace heddle
