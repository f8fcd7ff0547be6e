// Data-parallel plans over slow links for the test and the benchmark of gradient factors: models of
// test data (by file, below tests/data) and built-in ones, at batches that are small compared with
// the gradients.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heddle {

struct FactorCase {
  std::string model;
  std::string cluster;
  int64_t dp = 2, batch = 8, microbatches = 1;
  int zero = 0;
};

// The first kSmallFactorCases have fewer than 500 nodes.
constexpr size_t kSmallFactorCases = 13;
inline std::vector<FactorCase> FactorCases() {
  return {
      {"vgg19", "1080tix2:2", 4, 8},
      {"vgg19", "rtx3090:4", 16, 32},
      {"vgg16", "p100x2:8", 16, 16},
      {"models/vgg19.onnx.gz", "1080tix2:2", 4, 8},
      {"bert:layers=4,hidden=1024,heads=16,vocab=305000,seq=128", "v100x4:1", 4, 4},
      {"resnet:depth=50,classes=100000", "p3:2", 16, 16},
      {"models/resnet50-100k.onnx.gz", "v100x4:2", 8, 8},
      {"resnet101", "1080tix2:4", 8, 16},
      {"inception_v3", "v100x4:2", 8, 16},
      {"models/inception_v3.onnx.gz", "1080tix2:2", 4, 8},
      {"bert-base", "1080tix2:2", 4, 8},
      {"models/bert-base.onnx.gz", "rtx3090:2", 8, 16, 2},
      {"models/t5-small.onnx.gz", "1080tix2:4", 8, 8},
      {"wide-resnet-101", "rtx4090:2", 8, 8},
      {"bert:layers=24,hidden=2048,heads=32,seq=128", "rtx3090:4", 16, 32, 2},
      {"gpt2", "rtx4090:4", 16, 16},
      {"gpt2-xl:seq=128", "rtx3090:4", 16, 16, 1, 1},
      {"gpt3-175b:seq=16", "p3:1", 8, 8},
      {"llama-7b:seq=32", "rtx4090:2", 8, 8},
      {"moe-16e", "rtx4090:2", 8, 8},
      {"t5-large", "v100x4:4", 16, 16, 1, 1},
      {"vit-huge", "p100x2:4", 8, 8},
      {"models/moe-16e.onnx.gz", "rtx3090:2", 8, 8},
      {"models/llama3-8b.onnx.gz", "rtx4090:2", 8, 8},
  };
}

}  // namespace heddle
