#include "frontend/format.h"

#include "base/error.h"
#include "frontend/formats.h"
#include "frontend/glob.h"

namespace heddle {

std::span<const FormatDef> AllFormats() {
  static const FormatDef kAll[] = {
      OnnxFormat(),
      TextFormat(),
      HfConfigFormat(),
      BuiltInFormat(),
  };
  return kAll;
}

const FormatDef* FindFormat(const std::string& model, std::span<const FormatDef> formats) {
  const FormatDef* best = nullptr;
  Recognition surest = Recognition::kNo;
  for (const FormatDef& format : formats) {
    const Recognition sure = format.recognise(model);
    if (sure <= surest) continue;
    surest = sure;
    best = &format;
  }
  return best;
}

Recognition ByEnding(std::string_view model, std::string_view ending) {
  return model.ends_with(ending) ? Recognition::kByName : Recognition::kNo;
}

void Freeze(Graph& graph, const std::vector<std::string>& patterns, const std::string& model) {
  for (const std::string& pattern : patterns) {
    bool any = false;
    for (Value& value : graph.values) {
      if (value.kind != ValueKind::kParameter || !GlobMatch(pattern, value.name)) continue;
      value.kind = ValueKind::kConstant;
      any = true;
    }
    if (!any) ThrowInput("{}: --frozen {} matches no parameter", model, pattern);
  }
}

void RequireFused(const std::string& model, const ImportOptions& options) {
  if (!options.fuse)
    ThrowInput("{}: --no-fuse: this model is always built from fused ops; remove the option",
               model);
}

}  // namespace heddle
