// Problems for the checks of the lower bounds: models of a few layers with realistic widths, so
// that a simulation takes milliseconds and devices are as busy as with many layers.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "graph/dtype.h"

namespace heddle {

struct BoundCase {
  std::string model;  // a built-in expression, or a file of the test data if it begins with `data/`
  std::string cluster;
  double memory = 0;  // share of the memory that the fastest plan needs; 0: what the device has
  DType precision = DType::kBF16;
  std::string optimizer = "adamw";
  bool local_batch_statistics = false;
};

// For gtest's output.
inline void PrintTo(const BoundCase& at, std::ostream* out) {
  *out << at.model << " on " << at.cluster;
}

inline std::vector<BoundCase> BoundCases() {
  const std::string gpt = "gpt:layers=4,hidden=4096,heads=32,seq=2048,vocab=51200,batch=16";
  const std::string gpt_small = "gpt:layers=4,hidden=128,heads=8,seq=64,vocab=512,batch=16";
  const std::string gpt_wide = "gpt:layers=6,hidden=2560,heads=32,seq=2048,vocab=50257,batch=32";
  const std::string llama =
      "llama:layers=8,hidden=4096,heads=32,kv_heads=8,ffn=14336,seq=2048,vocab=32000,batch=32";
  const std::string llama_deep =
      "llama:layers=6,hidden=2048,heads=16,kv_heads=4,seq=1024,vocab=1024,batch=64";
  // More parameters than activations: floors count most of what a plan reserves.
  const std::string gpt_deep = "gpt:layers=24,hidden=2560,heads=32,seq=512,vocab=512,batch=32";
  const std::string bert = "bert:layers=8,hidden=1024,heads=16,seq=512,vocab=30522,batch=64";
  const std::string vit = "vit:layers=6,hidden=1024,heads=16,ffn=4096,batch=64";
  const std::string t5 = "t5:layers=3,hidden=1024,heads=16,ffn=4096,seq=512,vocab=32128,batch=32";
  const std::string t5_uneven =
      "t5:layers=2,decoder_layers=4,hidden=1024,heads=16,ffn=4096,seq=512,decoder_seq=512,"
      "vocab=1024,batch=32";
  const std::string moe =
      "moe:layers=4,hidden=2048,heads=16,experts=8,seq=1024,vocab=32000,batch=32";
  const std::string moe_dense =
      "moe:layers=4,dense_layers=2,hidden=2048,heads=16,ffn=4096,expert_ffn=8192,vocab=512,"
      "seq=1024,position=rope,norm=rmsnorm,mlp=swiglu,bias=0,causal=1,experts=4,top_k=2,group=64,"
      "capacity_factor=1,batch=64";
  const std::string moe_every =
      "moe:layers=6,moe_every=2,hidden=1024,heads=16,experts=8,seq=512,vocab=1024,batch=32";
  const std::string vgg = "vgg:depth=11,image=224,batch=32";
  const std::string resnet = "resnet:depth=18,image=64,batch=64";
  return {
      {gpt, "dgx-h100:1"},
      {gpt, "dgx-h100:1", 0.6},
      {gpt, "dgx-a100:2"},
      {gpt, "rtx4090:1"},
      {gpt, "tpu-v4:2x2x2", 0.7},
      {gpt_small, "dgx-h100:1"},
      {gpt_small, "rtx3090:2", 0.8},
      {gpt_wide, "dgx-h100:1", 0.5},
      {gpt_wide, "summit:1", 0, DType::kF16},
      {gpt_wide, "p3:2", 0, DType::kF16},
      {gpt_deep, "dgx-h100:1"},
      {gpt_deep, "dgx-h100:1", 0.7},
      {llama, "dgx-h100:1"},
      {llama, "dgx-h100:1", 0.4},
      {llama, "dgx-a100:2", 0.7},
      {llama_deep, "dgx-v100:1", 0, DType::kF16},
      {llama_deep, "p3:2", 0.5, DType::kF16},
      {llama_deep, "tpu-v4:2x2x1"},
      {bert, "dgx-v100:1", 0, DType::kF32},
      {bert, "dgx-h100:1", 0.4},
      {bert, "rtx3090:2"},
      {vit, "dgx-a100:1"},
      {vit, "dgx-h100:2", 0.5},
      {t5, "dgx-h100:1"},
      {t5, "dgx-a100:1", 0.5},
      {t5_uneven, "summit:1", 0, DType::kF16},
      {t5_uneven, "dgx-h100:1", 0.6, DType::kBF16, "sgd"},
      {moe, "dgx-h100:1"},
      {moe, "dgx-a100:2", 0.6},
      {moe_dense, "dgx-h100:1"},
      {moe_dense, "summit:1", 0.6, DType::kF16},
      {moe_every, "dgx-a100:1", 0, DType::kBF16, "momentum"},
      {vgg, "v100x4:2", 0, DType::kF32},
      {vgg, "dgx-h100:1", 0.8},
      {resnet, "dgx-a100:1"},
      {resnet, "1080tix2:2", 0.6, DType::kF32, "momentum", true},
      {"data/pytorch/tiny-cnn.onnx", "dgx-h100:1"},
      {"data/pytorch/tiny-moe.onnx", "v100x4:1", 0, DType::kF32},
  };
}

}  // namespace heddle
