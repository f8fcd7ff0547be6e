// Any text either is refused with an InputError of one line that names the file, or gives a sound plan that is
// written and read back as itself. The model is small, with a chain of equal blocks and single nodes around it.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "graph/text.h"
#include "plan/plan_file.h"
#include "plan/verify.h"

namespace {

constexpr std::string_view kModel = R"(heddle 1
model "fuzz"
input %x: f32[4,8]
input %labels: i64[4]
param %w0: f32[8,8]
param %w1: f32[8,8]
param %w2: f32[8,8]
param %w3: f32[6,8]
%a0: f32[4,8] = Linear(%x, %w0) {transpose_weight=1}
%r0: f32[4,8] = Relu(%a0)
%a1: f32[4,8] = Linear(%r0, %w1) {transpose_weight=1}
%r1: f32[4,8] = Relu(%a1)
%a2: f32[4,8] = Linear(%r1, %w2) {transpose_weight=1}
%r2: f32[4,8] = Relu(%a2)
%logits: f32[4,6] = Linear(%r2, %w3) {transpose_weight=1}
%count: f32[] = LabelCount(%labels) {ignore_index=-100}
%loss: f32[] = CrossEntropy(%logits, %labels, %count) {ignore_index=-100, reduction="mean"}
output %loss
)";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace heddle;
  static const Model model = Analyse(FromText(kModel, "fuzz.heddle"));
  Plan plan;
  try {
    Json json = ParseJson({reinterpret_cast<const char*>(data), size}, "p.json");
    plan = FromJson(json, model, "p.json");
  } catch (const InputError& error) {
    const std::string_view message = error.what();
    HEDDLE_CHECK(message.starts_with("p.json:"), "{}", message);
    HEDDLE_CHECK(message.find('\n') == message.npos);
    return 0;
  }
  HEDDLE_CHECK(Verify(plan, model).empty());
  const std::string text = ToJson(plan, model);
  HEDDLE_CHECK(FromJson(ParseJson(text, "again"), model, "again") == plan, "{}", text);
  return 0;
}
