// Any text is either refused with an error of one line or names a model. Small models are built and must be sound.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "frontend/families/built_in.h"
#include "ops/op.h"

namespace heddle {
namespace {

// Whether the sizes that determine the work of building are small: numbers of layers, and sizes of constants.
bool IsSmall(const Settings& settings, const Family& family) {
  for (const Key& key : family.keys) {
    bool counts = key.name == "layers" || key.name == "decoder_layers";
    bool tables = key.name == "seq" || key.name == "decoder_seq" || key.name == "rotary_dim" ||
                  key.name == "rope_head_dim" || key.name == "heads" || key.name == "hidden" ||
                  key.name == "head_dim" || key.name == "experts";
    if (counts && settings.Int(key.name, 1) > 3) return false;
    if (tables && settings.Int(key.name, 1) > 128) return false;
    if (key.name == "image" && settings.Int(key.name) > 80) return false;
    if (key.name == "capacity_factor" && settings.Real(key.name) > 8) return false;
  }
  return true;
}

const Family& FamilyOf(const std::string& expression) {
  std::string name = expression.substr(0, expression.find(':'));
  for (const BuiltInInfo& info : BuiltInModels()) {
    if (info.name != name) continue;
    for (const Family& family : Families()) {
      if (family.name == info.family) return family;
    }
  }
  HEDDLE_CHECK(false, "{} has no family", name);
}

void Try(const std::string& expression) {
  Settings settings = CheckExpression(expression);
  HEDDLE_CHECK(IsBuiltIn(expression));
  if (!IsSmall(settings, FamilyOf(expression))) return;
  Graph graph = BuildModel(expression);
  HEDDLE_CHECK(VerifyModel(graph).empty());
  CheckTypes(graph);
}

}  // namespace
}  // namespace heddle

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    heddle::Try({reinterpret_cast<const char*>(data), size});
  } catch (const heddle::InputError& error) {
    HEDDLE_CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
  return 0;
}
