// Mixtures of experts with static capacity, as in GShard: see mixture.cc.
#include "frontend/families/decoder.h"
#include "frontend/families/families.h"

namespace heddle {

Family MoeFamily() {
  std::vector<Key> keys = DecoderKeys({{"hidden", "1024"},
                                       {"heads", "16"},
                                       {"vocab", "32000"},
                                       {"seq", "512"},
                                       {"position", "none"},
                                       {"mlp", "relu"},
                                       {"qkv", "separate"},
                                       {"tied", "0"},
                                       {"causal", "0"},
                                       {"experts", "16"},
                                       {"names", "moe"}});
  return {"moe",
          "mixture of experts with static capacity (GShard; Mixtral, Qwen and DeepSeek by keys)",
          keys, [](const Settings& settings, const std::string& name) {
            return BuildDecoder(ReadDecoder(settings), name);
          }};
}

}  // namespace heddle
