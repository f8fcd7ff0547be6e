// The workloads of bench/fleet, which are those of Hydra and Saturn.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/yaml.h"

namespace heddle {

struct BenchTask {
  std::string name, model;
  int64_t samples = 0, batch = 0;
  int64_t steps() const { return (samples + batch - 1) / batch; }
};

// WikiText-2 has 2.4 M tokens of GPT-2's vocabulary; CIFAR-10 50000 images, here at 224 x 224. One epoch each.
inline std::vector<BenchTask> GptTasks() {
  std::vector<BenchTask> tasks;
  for (const char* rate : {"3e-4", "1e-4", "5e-5", "6e-5", "1e-5", "2e-5"}) {
    for (int64_t batch : {16, 8}) {
      tasks.push_back({fmt::format("gpt2-xl lr {} batch {}", rate, batch),
                       fmt::format("gpt2-xl:seq=512,batch={}", batch), 2'400'000 / 512, batch});
    }
  }
  return tasks;
}

inline std::vector<BenchTask> VitTasks() {
  struct Size {
    const char* name;
    const char* keys;
  };
  std::vector<BenchTask> tasks;
  for (const Size& size : {Size{"300M", "layers=24,hidden=1024,heads=16"},
                           Size{"600M", "layers=32,hidden=1280,heads=16"},
                           Size{"800M", "layers=34,hidden=1408,heads=16"},
                           Size{"1B", "layers=42,hidden=1408,heads=16"},
                           Size{"1.5B", "layers=48,hidden=1600,heads=16"},
                           Size{"2B", "layers=48,hidden=1856,heads=16"}}) {
    for (int64_t batch : {128, 256}) {
      tasks.push_back({fmt::format("vit {} batch {}", size.name, batch),
                       fmt::format("vit:{},classes=10,batch={}", size.keys, batch), 50'000, batch});
    }
  }
  return tasks;
}

inline Cluster Machine(const std::string& device) {
  return ClusterFromYaml(
      fmt::format(
          "nodes:\n  - {{device: {}, devices: 8, link: {{name: pcie3, bandwidth: 15.75 GB/s, "
          "latency: 5 us}}, host_memory: 512 GiB}}\n",
          device),
      "bench");
}

// Ten epochs of WikiText-2, or of 50000 images.
inline std::vector<BenchTask> SaturnTasks(const std::string& grid) {
  struct Kind {
    const char *name, *model, *grid;
    int64_t samples;
    std::vector<int64_t> batches;
  };
  const std::vector<Kind> kinds = {
      {"gpt-2", "gpt2-xl:seq=1024", "text", 2'400'000 / 1024, {16, 32}},
      {"gpt-j", "gpt-j-6b:seq=1024", "text", 2'400'000 / 1024, {16, 32}},
      {"vit-g", "vit:layers=48,hidden=1664,heads=16,ffn=8192,patch=14", "image", 50'000, {64, 128}},
      {"resnet", "resnet152", "image", 50'000, {64, 128}}};
  std::vector<BenchTask> tasks;
  for (const Kind& kind : kinds) {
    if (grid != "mixed" && grid != kind.grid) continue;
    for (int64_t batch : kind.batches) {
      for (const char* rate : {"1e-5", "1e-4", "3e-3"}) {
        std::string model = kind.model;
        model += fmt::format("{}batch={}", model.find(':') == model.npos ? ":" : ",", batch);
        tasks.push_back({fmt::format("{} batch {} lr {}", kind.name, batch, rate), model,
                         10 * kind.samples, batch});
      }
    }
  }
  return tasks;
}

}  // namespace heddle
