// GPT-2, GPT-3 and related models: learned positions, a layer norm before each part, GELU.
#include "frontend/families/decoder.h"
#include "frontend/families/families.h"

namespace heddle {

Family GptFamily() {
  return {"gpt",
          "decoder with learned positions and GELU (GPT-2, GPT-3, Megatron, BLOOM, PaLM by keys)",
          DecoderKeys({}), [](const Settings& settings, const std::string& name) {
            return BuildDecoder(ReadDecoder(settings), name);
          }};
}

}  // namespace heddle
