// Published models by name. Sizes are from the papers or the published configurations; where the numbers of a paper
// contradict each other, a comment says which were used. rope_theta and norm_eps come from the same sources; those of
// LLaMA 3 are from the version before its rotary frequencies were scaled (3.1).
#include "frontend/families/families.h"

namespace heddle {

const std::vector<NamedModel>& NamedModels() {
  static const std::vector<NamedModel> models = {
      {"gpt2", "gpt"},
      {"gpt2-medium", "gpt:layers=24,hidden=1024,heads=16"},
      {"gpt2-large", "gpt:layers=36,hidden=1280,heads=20"},
      {"gpt2-xl", "gpt:layers=48,hidden=1600,heads=25"},
      // GPT-3, table 2.1. The paper gives the 1.3B 24 heads of 128 and the 13B a width of 5140, which contradict its
      // other sizes.
      {"gpt3-125m", "gpt:seq=2048"},
      {"gpt3-350m", "gpt:layers=24,hidden=1024,heads=16,seq=2048"},
      {"gpt3-760m", "gpt:layers=24,hidden=1536,heads=16,seq=2048"},
      {"gpt3-1.3b", "gpt:layers=24,hidden=2048,heads=16,seq=2048"},
      {"gpt3-2.7b", "gpt:layers=32,hidden=2560,heads=32,seq=2048"},
      {"gpt3-6.7b", "gpt:layers=32,hidden=4096,heads=32,seq=2048"},
      {"gpt3-13b", "gpt:layers=40,hidden=5120,heads=40,seq=2048"},
      {"gpt3-175b", "gpt:layers=96,hidden=12288,heads=96,seq=2048"},
      // Megatron-LM: Shoeybi et al. 2019 (8.3b) and Narayanan et al. 2021, table 1.
      {"megatron-8.3b", "gpt:layers=72,hidden=3072,heads=24,seq=1024,vocab=51200"},
      {"megatron-1.7b", "gpt:layers=24,hidden=2304,heads=24,seq=2048,vocab=51200"},
      {"megatron-3.6b", "gpt:layers=30,hidden=3072,heads=32,seq=2048,vocab=51200"},
      {"megatron-7.5b", "gpt:layers=36,hidden=4096,heads=32,seq=2048,vocab=51200"},
      {"megatron-18b", "gpt:layers=40,hidden=6144,heads=48,seq=2048,vocab=51200"},
      {"megatron-39b", "gpt:layers=48,hidden=8192,heads=64,seq=2048,vocab=51200"},
      {"megatron-76b", "gpt:layers=60,hidden=10240,heads=80,seq=2048,vocab=51200"},
      {"megatron-145b", "gpt:layers=80,hidden=12288,heads=96,seq=2048,vocab=51200"},
      {"megatron-310b", "gpt:layers=96,hidden=16384,heads=128,seq=2048,vocab=51200"},
      {"megatron-530b", "gpt:layers=105,hidden=20480,heads=128,seq=2048,vocab=51200"},
      {"megatron-1t", "gpt:layers=128,hidden=25600,heads=160,seq=2048,vocab=51200"},
      {"gpt-1t", "gpt:layers=128,hidden=25600,heads=160,seq=2048,vocab=51200"},
      {"mt-nlg-530b", "gpt:layers=105,hidden=20480,heads=128,seq=2048,vocab=51200"},
      {"gopher-280b",
       "gpt:layers=80,hidden=16384,heads=128,head_dim=128,seq=2048,vocab=32000,"
       "position=relative,norm=rmsnorm,tied=0"},
      {"palm-540b",
       "gpt:layers=118,hidden=18432,heads=48,kv_heads=1,head_dim=256,ffn=73728,vocab=256000,"
       "seq=2048,position=rope,mlp=swiglu,bias=0,norm_bias=0,parallel=1,names=llama"},
      {"bloom-176b",
       "gpt:layers=70,hidden=14336,heads=112,vocab=250880,seq=2048,position=alibi,"
       "qkv=interleaved,embedding_norm=1,names=bloom"},
      {"opt-175b",
       "gpt:layers=96,hidden=12288,heads=96,vocab=50272,seq=2048,mlp=relu,qkv=separate,names=opt"},
      {"gpt-j-6b",
       "gpt:layers=28,hidden=4096,heads=16,vocab=50400,seq=2048,position=rope,rotary_dim=64,"
       "qkv=separate,qkv_bias=0,parallel=1,tied=0,names=llama"},
      {"gpt-neox-20b",
       "gpt:layers=44,hidden=6144,heads=64,vocab=50432,seq=2048,position=rope,rotary_dim=24,"
       "qkv=interleaved,parallel=1,two_norms=1,tied=0,names=neox"},
      {"glm-130b",
       "gpt:layers=70,hidden=12288,heads=96,ffn=32768,vocab=150528,seq=2048,position=rope,"
       "mlp=geglu,names=bloom"},
      {"mpt-7b", "gpt:layers=32,hidden=4096,heads=32,vocab=50368,seq=2048,bias=0,norm_bias=0"},
      {"mpt-30b", "gpt:layers=48,hidden=7168,heads=56,vocab=50368,seq=2048,bias=0,norm_bias=0"},
      {"nemotron-22b",
       "gpt:layers=40,hidden=6144,heads=48,vocab=256000,seq=4096,position=rope,"
       "mlp=squared_relu,bias=0,tied=0,names=llama"},
      {"llama-7b", "llama"},
      {"llama-13b", "llama:layers=40,hidden=5120,heads=40,ffn=13824"},
      {"llama-33b", "llama:layers=60,hidden=6656,heads=52,ffn=17920"},
      {"llama-65b", "llama:layers=80,hidden=8192,heads=64,ffn=22016,norm_eps=1e-5"},
      {"llama2-7b", "llama:seq=4096,norm_eps=1e-5"},
      {"llama2-13b", "llama:layers=40,hidden=5120,heads=40,ffn=13824,seq=4096,norm_eps=1e-5"},
      {"llama2-34b",
       "llama:layers=48,hidden=8192,heads=64,kv_heads=8,ffn=22016,seq=4096,norm_eps=1e-5"},
      {"llama2-70b",
       "llama:layers=80,hidden=8192,heads=64,kv_heads=8,ffn=28672,seq=4096,norm_eps=1e-5"},
      {"llama3-8b",
       "llama:kv_heads=8,ffn=14336,vocab=128256,seq=8192,rope_theta=500000,norm_eps=1e-5"},
      {"llama3-70b",
       "llama:layers=80,hidden=8192,heads=64,kv_heads=8,ffn=28672,vocab=128256,seq=8192,rope_theta="
       "500000,norm_eps=1e-5"},
      {"llama3-405b",
       "llama:layers=126,hidden=16384,heads=128,kv_heads=8,ffn=53248,vocab=128256,seq=8192,rope_"
       "theta=500000,norm_eps=1e-5"},
      // Version 0.1, whose sliding window of 4096 tokens covers the whole sequence.
      {"mistral-7b", "llama:kv_heads=8,ffn=14336,seq=4096,norm_eps=1e-5"},
      {"qwen2-7b",
       "llama:layers=28,hidden=3584,heads=28,kv_heads=4,ffn=18944,vocab=152064,seq=4096,qkv_bias=1,"
       "rope_theta=1000000"},
      // Groups of 64 tokens, and a capacity equal to the even share: the same work as a dropless layer.
      {"mixtral-8x7b",
       "moe:layers=32,hidden=4096,heads=32,kv_heads=8,ffn=14336,vocab=32000,seq=4096,"
       "position=rope,rope_theta=1000000,norm=rmsnorm,norm_eps=1e-5,mlp=swiglu,bias=0,causal=1,"
       "experts=8,top_k=2,group=64,"
       "capacity_factor=1,names=llama"},
      {"qwen3-30b-a3b",
       "moe:layers=48,hidden=2048,heads=32,kv_heads=4,head_dim=128,ffn=6144,expert_ffn=768,"
       "vocab=151936,seq=4096,position=rope,rope_theta=1000000,norm=rmsnorm,mlp=swiglu,bias=0,qk_"
       "norm=1,causal=1,"
       "experts=128,top_k=8,group=64,capacity_factor=1,names=llama"},
      {"qwen3-235b-a22b",
       "moe:layers=94,hidden=4096,heads=64,kv_heads=4,head_dim=128,ffn=12288,"
       "expert_ffn=1536,vocab=151936,seq=4096,position=rope,rope_theta=1000000,norm=rmsnorm,mlp="
       "swiglu,bias=0,"
       "qk_norm=1,causal=1,experts=128,top_k=8,group=64,capacity_factor=1,names=llama"},
      // The biases of its experts, attention sinks, sliding windows and the scaling of its rotary frequencies are left
      // out.
      {"gpt-oss-120b",
       "moe:layers=36,hidden=2880,heads=64,kv_heads=8,head_dim=64,ffn=2880,vocab=201088,"
       "seq=4096,position=rope,rope_theta=150000,norm=rmsnorm,norm_eps=1e-5,mlp=swiglu,causal=1,"
       "experts=128,top_k=4,group=64,"
       "capacity_factor=1,names=llama"},
      // Without the layer that predicts a second token, and without the scaling of rotary frequencies.
      {"deepseek-v3",
       "moe:layers=61,hidden=7168,heads=128,head_dim=128,ffn=18432,expert_ffn=2048,"
       "vocab=129280,seq=4096,position=rope,norm=rmsnorm,mlp=swiglu,bias=0,causal=1,"
       "attention=mla,experts=256,top_k=8,shared_experts=1,dense_layers=3,group=64,"
       "capacity_factor=1,names=llama"},
      {"moe-16e", "moe"},
      {"bert-base", "bert"},
      {"bert-large", "bert:layers=24,hidden=1024,heads=16"},
      {"t5-small", "t5"},
      {"t5-base", "t5:layers=12,hidden=768,heads=12,ffn=3072"},
      {"t5-large", "t5:layers=24,hidden=1024,heads=16,ffn=4096"},
      {"t5-3b", "t5:layers=24,hidden=1024,heads=32,head_dim=128,ffn=16384"},
      {"t5-11b", "t5:layers=24,hidden=1024,heads=128,head_dim=128,ffn=65536"},
      {"vit-base", "vit"},
      {"vit-large", "vit:layers=24,hidden=1024,heads=16"},
      {"vit-huge", "vit:layers=32,hidden=1280,heads=16,patch=14"},
      {"resnet18", "resnet:depth=18"},
      {"resnet34", "resnet:depth=34"},
      {"resnet50", "resnet:depth=50"},
      {"resnet101", "resnet:depth=101"},
      {"resnet152", "resnet:depth=152"},
      {"wide-resnet-50", "wide-resnet:depth=50"},
      {"wide-resnet-101", "wide-resnet:depth=101"},
      {"vgg16", "vgg:depth=16"},
      {"vgg19", "vgg:depth=19"},
      {"inception_v3", "inception"},
  };
  return models;
}

}  // namespace heddle
