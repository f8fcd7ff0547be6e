#include "checkpoint/experiment.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

Json ARun() {
  return Json::parse(R"({
    "job": "a", "seed": 1, "precision": "f32", "batch_statistics": "global", "mask": null, "weights": "model",
    "model": {"source": "gpt2", "hash": "00", "experiment_hash": "01"},
    "data": {"path": "a.txt", "hash": "02", "batch": 8, "what": "text"},
    "optimizer": {"name": "adamw", "lr": 0.001, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1,
                  "momentum": 0.9, "clip_norm": 0},
    "lr_schedule": {"kind": "constant", "warmup_steps": 0, "total_steps": 10, "final_fraction": 0},
    "steps": 10, "plan_hash": "03", "plan": {}})");
}

std::string Changed(const char* pointer, const Json& value) {
  Json now = ARun();
  now[Json::json_pointer(pointer)] = value;
  return CompareExperiments(ARun(), now).Describe();
}

TEST(Experiment, WhatChangesTheResultIsSaid) {
  struct Case {
    const char* pointer;
    Json value;
    const char* words;
  };
  const Case cases[] = {
      {"/job", "b", "job was a and is b"},
      {"/seed", 2, "seed was 1 and is 2"},
      {"/precision", "bf16", "precision was f32 and is bf16"},
      {"/batch_statistics", "local", "batch statistics was global and is local"},
      {"/mask", "77", "mask was none and is 77"},
      {"/weights", "w.safetensors", "weights was model and is w.safetensors"},
      {"/model/experiment_hash", "09", "model was 01 and is 09"},
      {"/data/hash", "09", "data was 02 and is 09"},
      {"/data/batch", 4, "batch was 8 and is 4"},
      {"/optimizer/name", "sgd", "optimizer was adamw and is sgd"},
      {"/optimizer/lr", 0.01, "lr was 0.001 and is 0.01"},
      {"/optimizer/betas", {0.9, 0.999}, "betas was [0.9,0.95] and is [0.9,0.999]"},
      {"/optimizer/eps", 1e-6, "eps was 1e-08 and is 1e-06"},
      {"/optimizer/weight_decay", 0, "weight decay was 0.1 and is 0"},
      {"/optimizer/momentum", 0.5, "momentum was 0.9 and is 0.5"},
      {"/optimizer/clip_norm", 1, "clip norm was 0 and is 1"},
      {"/lr_schedule/kind", "cosine", "lr schedule was constant and is cosine"},
      {"/lr_schedule/warmup_steps", 2, "warmup was 0 and is 2"},
  };
  for (const Case& c : cases) EXPECT_EQ(Changed(c.pointer, c.value), c.words);
}

TEST(Experiment, WhatDoesNotChangeItMayDiffer) {
  for (const char* pointer : {"/plan", "/plan_hash", "/steps", "/data/path", "/data/what",
                              "/model/source", "/model/hash", "/lr_schedule/total_steps"})
    EXPECT_EQ(Changed(pointer, "other"), "") << pointer;
}

TEST(Experiment, SchedulesThatFallDependOnTheNumberOfSteps) {
  Json before = ARun();
  before["lr_schedule"]["kind"] = "cosine";
  Json now = before;
  now["lr_schedule"]["total_steps"] = 20;
  EXPECT_EQ(CompareExperiments(before, now).Describe(),
            "steps of the lr schedule was 10 and is 20");
}

TEST(Experiment, FilesAreNamedWhereTheyDiffer) {
  Json now = ARun();
  now["data"]["hash"] = "09";
  now["data"]["path"] = "b.txt";
  EXPECT_EQ(CompareExperiments(ARun(), now).Describe(), "data was a.txt and is b.txt");
}

// Manifests are untrusted input.
TEST(Experiment, AnythingMayStandInACheckpoint) {
  for (const char* text :
       {"{}", "[]", "3", "null", R"({"optimizer": [1], "data": 4, "model": "x"})",
        R"({"lr_schedule": [[]], "seed": {"a": 1}})"}) {
    ExperimentChanges found = CompareExperiments(Json::parse(text), ARun());
    EXPECT_GE(found.changes.size() + found.unknown.size(), 17u) << text;
  }
  EXPECT_TRUE(CompareExperiments(ARun(), Json::object()).empty());
}

}  // namespace
}  // namespace heddle
