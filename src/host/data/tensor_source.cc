#include "host/data/tensor_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/hash.h"
#include "graph/tensor.h"

namespace heddle {
namespace {

// How many times `many` is as long as `one` along dimension 0; 0 where it is no multiple, or other dimensions differ.
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

// The index of the first element that is not in the range; the number of elements where all are.
template <class T>
int64_t FirstOutOf(const InputRange& range, std::span<const T> values) {
  auto wrong = [&](T stored) {
    auto value = static_cast<int64_t>(stored);
    return (value < range.low || value >= range.high) && value != range.ignored;
  };
  return std::ranges::find_if(values, wrong) - values.begin();
}

int64_t FirstOutOf(const InputRange& range, const HostTensor& tensor) {
  if (tensor.dtype == DType::kI64) return FirstOutOf(range, tensor.as<int64_t>());
  if (tensor.dtype == DType::kI32) return FirstOutOf(range, tensor.as<int32_t>());
  std::vector<int64_t> values;
  for (int64_t i = 0; i < tensor.size(); ++i) values.push_back(AsInt(tensor, i));
  return FirstOutOf(range, std::span<const int64_t>(values));
}

}  // namespace

std::string OutOfRange(const std::string& input, const InputRange& range, const HostTensor& tensor,
                       int64_t first_row) {
  if (range.high == 0 || IsFloat(tensor.dtype) || tensor.size() == 0) return "";
  int64_t found = FirstOutOf(range, tensor);
  if (found == tensor.size()) return "";
  std::vector<int64_t> place(tensor.shape.size());
  int64_t rest = found;
  for (size_t d = place.size(); d-- > 0; rest /= tensor.shape[d]) place[d] = rest % tensor.shape[d];
  if (!place.empty()) place[0] += first_row;
  std::string ignored = range.ignored ? fmt::format(", or {} (ignored)", *range.ignored) : "";
  return fmt::format("'{}' holds {} at [{}], the model takes {} to {}{}", input,
                     AsInt(tensor, found), fmt::join(place, ", "), range.low, range.high - 1,
                     ignored);
}

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
  Rows(0, {0, batch_});  // reports errors of the first batch before training starts
}

HostBatch TensorSource::Rows(int64_t step, Block rows) const {
  HEDDLE_CHECK(step >= 0 && rows.begin >= 0 && rows.begin <= rows.end && rows.end <= batch_,
               "step {}, rows {}..{}", step, rows.begin, rows.end);
  int64_t first = batches_ == 1 ? 0 : SeededPlace(step, batches_, seed_) * batch_;
  HostBatch batch;
  std::vector<std::string> problems;
  for (const TensorMatch& match : tensors_) {
    HostTensor tensor = LoadRows(file_, match.tensor, first + rows.begin, first + rows.end);
    std::string wrong = OutOfRange(match.input, match.range, tensor, first + rows.begin);
    if (!wrong.empty()) {
      problems.push_back(batches_ == 1 ? wrong
                                       : fmt::format("{} (batch {})", wrong, first / batch_));
    }
    batch[match.input] = std::move(tensor);
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
