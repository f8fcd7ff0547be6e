#include "host/data/token_source.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/check.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "base/units.h"

namespace heddle {
namespace {

// The rows of one input. `samples` has a window of tokens for each of them.
HostTensor InputRows(const TokenInput& input, int64_t rows, int64_t window,
                     std::span<const int64_t> samples) {
  std::vector<int64_t> values;
  values.reserve(static_cast<size_t>(rows * input.length));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < input.length; ++i) {
      switch (input.role) {
        case TokenRole::kOnes:
          values.push_back(1);
          break;
        case TokenRole::kZeros:
          values.push_back(0);
          break;
        case TokenRole::kPositions:
          values.push_back(i);
          break;
        case TokenRole::kTokens:
        case TokenRole::kLabels:
          values.push_back(samples[static_cast<size_t>(row * window + input.first + i)]);
      }
    }
  }
  Shape shape = input.type.shape;
  shape[0] = rows;
  return MakeTensor(input.type.dtype, std::move(shape), values);
}

}  // namespace

TokenSource::TokenSource(const Graph& graph, const std::string& path, uint64_t seed)
    : file_(TokenFile::Open(path)), inputs_(AssignTokens(graph, file_.path())), seed_(seed) {
  if (file_.size() < inputs_.window) {
    ThrowInput(
        "{}: has {} tokens, fewer than the {} of one sample; give a longer file, or a model {}",
        file_.path(), file_.size(), inputs_.window, "of a shorter sequence");
  }
  windows_ = (file_.size() - inputs_.window) / inputs_.stride + 1;
  bool all = file_.format() == TokenFormat::kText && inputs_.vocabulary < 256;
  CheckTokens(0, all ? file_.size() : inputs_.window);
}

void TokenSource::CheckTokens(int64_t begin, int64_t end) const {
  int64_t bad = file_.FindBeyond(inputs_.vocabulary, begin, end);
  if (bad == end) return;
  int64_t value = 0;
  file_.Read(bad, {&value, 1});
  if (file_.format() == TokenFormat::kText) {
    ThrowInput("{}: byte {} is {}, but the model's vocabulary has {} tokens; {}", file_.path(), bad,
               value, inputs_.vocabulary,
               "a text is read byte by byte, so take a model with a vocabulary of 256");
  }
  ThrowInput("{}: token {} (byte {}) is {}, but the model's vocabulary has {} tokens; {}",
             file_.path(), bad, file_.ByteOf(bad), value, inputs_.vocabulary,
             "was it made with another tokenizer?");
}

HostBatch TokenSource::Rows(int64_t step, Block rows) const {
  HEDDLE_CHECK(step >= 0 && rows.begin >= 0 && rows.begin <= rows.end && rows.end <= inputs_.batch,
               "step {}, rows {}..{}", step, rows.begin, rows.end);
  std::vector<int64_t> samples(static_cast<size_t>(rows.size() * inputs_.window));
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    int64_t sample = CheckedAdd(CheckedMul(step, inputs_.batch, "number of the sample"), row,
                                "number of the sample");
    int64_t begin = SeededPlace(sample, windows_, seed_) * inputs_.stride;
    CheckTokens(begin, begin + inputs_.window);
    int64_t* to = samples.data() + (row - rows.begin) * inputs_.window;
    file_.Read(begin, {to, static_cast<size_t>(inputs_.window)});
  }
  HostBatch batch;
  for (const TokenInput& input : inputs_.inputs)
    batch[input.name] = InputRows(input, rows.size(), inputs_.window, samples);
  return batch;
}

std::string TokenSource::Describe() const {
  return fmt::format("{}: {}, {} tokens, {} samples of {} in the order of seed {}; {}",
                     file_.path(), Name(file_.format()),
                     FormatCount(static_cast<double>(file_.size())), windows_, inputs_.stride,
                     seed_, inputs_.labels);
}

}  // namespace heddle
