// Any text is either refused with an error of one line that names the file, or gives a sound model.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "frontend/hf/config.h"
#include "ops/op.h"

namespace {

// Whether building is fast: many layers, and constants close to the limit, make it slow.
bool IsSmall(std::string_view text) {
  heddle::Json json = heddle::ParseJson(text, "config.json");
  if (!json.is_object()) return true;
  for (const char* key : {"num_hidden_layers", "n_layer", "num_layers", "num_decoder_layers"}) {
    auto found = json.find(key);
    if (found == json.end() || !found->is_number_integer()) continue;
    if (found->is_number_unsigned() && found->get<uint64_t>() > 3) return false;
  }
  for (const char* key : {"hidden_size", "head_dim", "num_local_experts"}) {
    auto found = json.find(key);
    if (found == json.end() || !found->is_number_unsigned()) continue;
    uint64_t size = found->get<uint64_t>();
    if (size > (1 << 14) && size < (1 << 28)) return false;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  heddle::SetLogLevel(heddle::LogLevel::kQuiet);
  heddle::ImportOptions options;
  options.dims = {{"batch", 2}, {"seq", 8}};
  try {
    if (!IsSmall(text)) return 0;
    heddle::Graph graph = heddle::ParseHfConfig(text, "config.json", options);
    HEDDLE_CHECK(heddle::VerifyModel(graph).empty());
    heddle::CheckTypes(graph);
  } catch (const heddle::InputError& error) {
    std::string_view message = error.what();
    HEDDLE_CHECK(message.starts_with("config.json:"), "{}", message);
    HEDDLE_CHECK(message.find('\n') == message.npos);
  }
  return 0;
}
