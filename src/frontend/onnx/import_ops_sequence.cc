// ONNX sequences of tensors. They exist only during import: the graph has none.
#include <algorithm>

#include "frontend/onnx/ops.h"

namespace heddle {
namespace {

// The largest number of parts, which limits what a small file can request.
constexpr int64_t kMaxParts = 4096;

const std::vector<Imported>& SequenceOf(CallImport& n) {
  if (!n.Any(0).sequence) n.Fail("operand 0 must be a sequence");
  return *n.Any(0).sequence;
}

Imported MakeSequence(std::vector<Imported> parts) {
  Imported result;
  result.sequence = std::make_shared<const std::vector<Imported>>(std::move(parts));
  return result;
}

std::vector<int64_t> ChunkSizes(CallImport& n, int64_t size) {
  if (n.Has(1) && n.rank(1) > 0) return n.Ints(1, "split");
  const int64_t chunk = n.Has(1) ? n.ScalarInt(1, "split") : 1;
  if (chunk < 1) n.Fail("split is {}, must be positive", chunk);
  if (size / chunk >= kMaxParts) n.Fail("splits {} into parts of {}, too many", size, chunk);
  std::vector<int64_t> sizes;
  for (int64_t left = size; left > 0; left -= sizes.back()) sizes.push_back(std::min(chunk, left));
  return sizes;
}

void ImportSplitToSequence(CallImport& n) {
  const int64_t axis = n.Axis(n.Int("axis", 0), n.rank(0));
  const auto sizes = ChunkSizes(n, n.shape(0)[static_cast<size_t>(axis)]);
  if (sizes.empty()) n.Fail("splits an empty dimension");
  auto parts = n.EmitAll("Split", {{"axis", axis}, {"sizes", sizes}}, {n.In(0)});
  if (n.Int("keepdims", 1) == 0 && !n.Has(1)) {
    for (Imported& part : parts) {
      Shape shape = part.shape();
      shape.erase(shape.begin() + axis);
      part = n.Reshape(part, shape);
    }
  }
  n.Return(MakeSequence(std::move(parts)));
}

void ImportSequenceAt(CallImport& n) {
  const auto& parts = SequenceOf(n);
  const int64_t position = n.ScalarInt(1, "position"), count = std::ssize(parts);
  if (position < -count || position >= count)
    n.Fail("position {} is out of range for {} elements", position, count);
  n.Return(parts[static_cast<size_t>(position < 0 ? position + count : position)]);
}

void ImportConcatFromSequence(CallImport& n) {
  std::vector<Imported> parts = SequenceOf(n);
  if (parts.empty()) n.Fail("concatenates an empty sequence");
  const bool fresh = n.Int("new_axis", 0) != 0;
  const int64_t axis = n.Axis(n.Int("axis"), parts.front().rank() + (fresh ? 1 : 0));
  if (fresh) {
    for (Imported& part : parts) {
      if (part.rank() < axis) n.Fail("the parts differ in rank");
      Shape shape = part.shape();
      shape.insert(shape.begin() + axis, 1);
      part = n.Reshape(part, shape);
    }
  }
  n.Return(n.Emit("Concat", {{"axis", axis}}, parts));
}

}  // namespace

std::span<const OpImport> OnnxSequenceOps() {
  static const OpImport ops[] = {
      {"SplitToSequence", 1, 2, ImportSplitToSequence},
      {"SequenceAt", 2, 2, ImportSequenceAt},
      {"SequenceConstruct", 1, -1, [](CallImport& n) { n.Return(MakeSequence(n.All())); }},
      {"SequenceLength", 1, 1,
       [](CallImport& n) {
         n.Return(Builder::Constant(
             MakeTensor(DType::kI64, {}, std::vector<int64_t>{std::ssize(SequenceOf(n))})));
       }},
      {"ConcatFromSequence", 1, 1, ImportConcatFromSequence},
  };
  return ops;
}

}  // namespace heddle
