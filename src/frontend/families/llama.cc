// LLaMA and related models: rotary positions, RMS norm, SwiGLU, no biases, grouped-query attention.
#include "frontend/families/decoder.h"
#include "frontend/families/families.h"

namespace heddle {

Family LlamaFamily() {
  std::vector<Key> keys = DecoderKeys({{"layers", "32"},
                                       {"hidden", "4096"},
                                       {"heads", "32"},
                                       {"ffn", "11008"},
                                       {"vocab", "32000"},
                                       {"seq", "2048"},
                                       {"position", "rope"},
                                       {"norm", "rmsnorm"},
                                       {"mlp", "swiglu"},
                                       {"qkv", "separate"},
                                       {"bias", "0"},
                                       {"tied", "0"},
                                       {"names", "llama"}});
  return {"llama", "decoder with rotary positions, RMS norm and SwiGLU (LLaMA, Mistral, Qwen)",
          keys, [](const Settings& settings, const std::string& name) {
            return BuildDecoder(ReadDecoder(settings), name);
          }};
}

}  // namespace heddle
