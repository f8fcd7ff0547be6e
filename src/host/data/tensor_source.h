// Rows from a safetensors file.
#pragma once

#include <string>
#include <vector>

#include "graph/safetensors.h"
#include "host/data/input_use.h"
#include "host/data/row_source.h"

namespace heddle {

// A tensor of the file and the input that it is for.
struct TensorMatch {
  std::string input;
  TensorType type;      // of the input
  InputRange range;     // of the input's integers
  std::string tensor;   // in the file
  int64_t batches = 1;  // the tensor's dimension 0 over the input's
};

// The tensor for every input; it may hold several batches, the same number for all inputs. Throws InputError that lists
// every input whose tensor is missing or does not fit.
std::vector<TensorMatch> MatchTensors(const Graph& graph, const SafetensorsFile& file);

// Describes the first integer of an input that is out of range ("'labels' holds 300 at [2, 5], the model takes 0 to
// 255"); empty where there is none. `first_row` is the row of the file that is row 0 of the tensor.
std::string OutOfRange(const std::string& input, const InputRange& range, const HostTensor& tensor,
                       int64_t first_row = 0);

class TensorSource : public RowSource {
 public:
  TensorSource(const Graph& graph, const std::string& path, uint64_t seed);
  HostBatch Rows(int64_t step, Block rows) const override;
  std::string Describe() const override;
  uint64_t Fingerprint() const override;

 private:
  SafetensorsFile file_;
  int64_t batch_;
  int64_t batches_;
  uint64_t seed_;
  std::vector<TensorMatch> tensors_;
};

}  // namespace heddle
