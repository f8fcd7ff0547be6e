#include "runtime/data/token_source.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "base/units.h"
#include "runtime/kernels/kernel.h"

namespace heddle {

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

Batch TokenSource::Rows(int64_t step, Block rows) const {
  HEDDLE_CHECK(step >= 0 && rows.begin >= 0 && rows.begin <= rows.end && rows.end <= inputs_.batch,
               "step {}, rows {}..{}", step, rows.begin, rows.end);
  at::Tensor samples = at::empty({rows.size(), inputs_.window}, at::kLong);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    int64_t sample = CheckedAdd(CheckedMul(step, inputs_.batch, "number of the sample"), row,
                                "number of the sample");
    int64_t begin = SeededPlace(sample, windows_, seed_) * inputs_.stride;
    CheckTokens(begin, begin + inputs_.window);
    int64_t* to = samples.data_ptr<int64_t>() + (row - rows.begin) * inputs_.window;
    file_.Read(begin, {to, static_cast<size_t>(inputs_.window)});
  }
  Batch batch;
  for (const TokenInput& input : inputs_.inputs) {
    Shape shape = input.type.shape;
    shape[0] = rows.size();
    at::TensorOptions options(ToTorch(input.type.dtype));
    at::Tensor& tensor = batch[input.name];
    switch (input.role) {
      case TokenRole::kOnes:
        tensor = at::ones(shape, options);
        break;
      case TokenRole::kZeros:
        tensor = at::zeros(shape, options);
        break;
      case TokenRole::kPositions:
        tensor = at::arange(input.length, options).expand(shape).contiguous();
        break;
      default:  // always a copy: inputs do not share memory
        tensor = at::empty(shape, options);
        tensor.copy_(samples.narrow(1, input.first, input.length));
    }
  }
  return batch;
}

std::string TokenSource::Describe() const {
  return fmt::format("{}: {}, {} tokens, {} samples of {} in the order of seed {}; {}",
                     file_.path(), Name(file_.format()),
                     FormatCount(static_cast<double>(file_.size())), windows_, inputs_.stride,
                     seed_, inputs_.labels);
}

}  // namespace heddle
