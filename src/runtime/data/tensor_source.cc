#include "runtime/data/tensor_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "base/hash.h"
#include "runtime/data/batch.h"
#include "runtime/kernels/kernel.h"
#include "runtime/tensor.h"

namespace heddle {
namespace {

// How many times the shape `one` the shape `many` is along dimension 0; 0 where it is no multiple.
int64_t Multiple(const Shape& many, const Shape& one) {
  if (many == one) return 1;
  if (many.size() != one.size() || one.empty() || one[0] == 0 || many[0] % one[0] != 0) return 0;
  bool rest = std::equal(many.begin() + 1, many.end(), one.begin() + 1);
  return rest ? many[0] / one[0] : 0;
}

// Rows [begin, end) of dimension 0 of a tensor of the file.
HostTensor LoadRows(const SafetensorsFile& file, const std::string& name, int64_t begin,
                    int64_t end) {
  const SafetensorsEntry& entry = *file.Find(name);
  std::span<const std::byte> bytes = file.Bytes(name);
  auto row = static_cast<int64_t>(bytes.size()) / entry.type.shape[0];
  auto part =
      bytes.subspan(static_cast<size_t>(begin * row), static_cast<size_t>((end - begin) * row));
  HostTensor tensor;
  tensor.dtype = entry.type.dtype;
  tensor.shape = entry.type.shape;
  tensor.shape[0] = end - begin;
  tensor.data.assign(part.begin(), part.end());
  if (tensor.dtype == DType::kBool) {
    auto bad = std::ranges::find_if(part, [](std::byte b) { return b > std::byte{1}; });
    if (bad != part.end()) {
      ThrowInput("{}: tensor '{}': element {} is {}, but a BOOL is 0 or 1", file.path(), name,
                 begin * row + (bad - part.begin()), std::to_integer<int>(*bad));
    }
  }
  return tensor;
}

}  // namespace

std::vector<TensorMatch> MatchTensors(const Graph& graph, const SafetensorsFile& file) {
  std::vector<TensorMatch> matches;
  std::vector<std::string> problems;
  for (ValueId id : graph.ValuesOf(ValueKind::kInput)) {
    const Value& value = graph.value(id);
    const SafetensorsEntry* entry = file.Find(value.name);
    if (entry == nullptr) entry = file.Find("input." + value.name);
    if (entry == nullptr) {
      problems.push_back(fmt::format("no tensor '{}' or 'input.{}'", value.name, value.name));
      continue;
    }
    int64_t batches = Multiple(entry->type.shape, value.type.shape);
    if (batches == 0 || IsFloat(entry->type.dtype) != IsFloat(value.type.dtype)) {
      problems.push_back(fmt::format("'{}' is {} but the model takes {}", entry->name,
                                     ToString(entry->type), ToString(value.type)));
      continue;
    }
    if (!matches.empty() && matches[0].batches != batches) {
      problems.push_back(fmt::format("'{}' holds {} batches but '{}' holds {}", matches[0].tensor,
                                     matches[0].batches, entry->name, batches));
    }
    matches.push_back({value.name, value.type, RangeOf(graph, id), entry->name, batches});
  }
  if (!problems.empty()) ThrowInput("{}: {}", file.path(), fmt::join(problems, "; "));
  return matches;
}

TensorSource::TensorSource(const Graph& graph, const std::string& path, uint64_t seed)
    : file_(SafetensorsFile::Open(path)),
      batch_(BatchOf(graph)),
      seed_(seed),
      tensors_(MatchTensors(graph, file_)) {
  batches_ = tensors_[0].batches;
  Rows(0, {0, batch_});  // what is wrong with the first batch is said now
}

Batch TensorSource::Rows(int64_t step, Block rows) const {
  HEDDLE_CHECK(step >= 0 && rows.begin >= 0 && rows.begin <= rows.end && rows.end <= batch_,
               "step {}, rows {}..{}", step, rows.begin, rows.end);
  int64_t first = batches_ == 1 ? 0 : SeededPlace(step, batches_, seed_) * batch_;
  Batch batch;
  std::vector<std::string> problems;
  for (const TensorMatch& match : tensors_) {
    at::Tensor tensor =
        ToTorchTensor(LoadRows(file_, match.tensor, first + rows.begin, first + rows.end));
    std::string wrong = OutOfRange(match.input, match.range, tensor, first + rows.begin);
    if (!wrong.empty()) {
      problems.push_back(batches_ == 1 ? wrong
                                       : fmt::format("{} (batch {})", wrong, first / batch_));
    }
    batch[match.input] = tensor.to(ToTorch(match.type.dtype));
  }
  if (!problems.empty()) ThrowInput("{}: {}", file_.path(), fmt::join(problems, "; "));
  return batch;
}

std::string TensorSource::Describe() const {
  if (batches_ == 1) {
    return fmt::format("{}: one batch of {}, the same at every step", file_.path(), batch_);
  }
  return fmt::format("{}: {} batches of {}, in the order of seed {}", file_.path(), batches_,
                     batch_, seed_);
}

uint64_t TensorSource::Fingerprint() const {
  uint64_t hash = 0;
  for (const TensorMatch& match : tensors_)
    hash = HashCombine(hash, FingerprintOf(file_.Bytes(match.tensor)));
  return hash;
}

}  // namespace heddle
