// Cross entropy of rows of logits in one pass over them, and its gradient in another: nothing of their size is made
// but the gradient itself.
#pragma once

#include <cstdint>

namespace heddle {

enum class LogitType : uint8_t { kF32, kBF16, kF16 };

struct LogitRows {
  const void* data = nullptr;
  LogitType type = LogitType::kF32;
  int64_t rows = 0, classes = 0;
  int64_t stride = 0;               // elements from one row to the next
  const int64_t* labels = nullptr;  // one per row
  int64_t ignored = -100;           // a label whose row counts nothing
};

// losses[r] = log sum_c exp(x[r][c]) - x[r][label], 0 for ignored rows, NaN for labels that are no class; log_sums is
// kept for the gradient. `stream` is a cudaStream_t. Returns the error of the launch, or null.
const char* RowLosses(const LogitRows& rows, float* losses, float* log_sums, void* stream);

// gradient[r][c] = of_loss[r] * (softmax(x[r])[c] - [c is the label]), of the type of the logits, rows `stride_out`
// elements apart.
const char* RowLossGradients(const LogitRows& rows, const float* log_sums, const float* of_loss,
                             void* gradient, int64_t stride_out, void* stream);

}  // namespace heddle
