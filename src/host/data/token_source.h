// Rows from a file of tokens: sample i is the window of tokens at place i of the seeded order of its epoch.
#pragma once

#include <span>
#include <string>

#include "graph/token_file.h"
#include "host/data/row_source.h"
#include "host/data/token_inputs.h"

namespace heddle {

class TokenSource : public RowSource {
 public:
  // Checks the tokens of the first window, or of the whole file where it is text and the vocabulary is below 256.
  TokenSource(const Graph& graph, const std::string& path, uint64_t seed);

  HostBatch Rows(int64_t step, Block rows) const override;
  std::string Describe() const override;
  uint64_t Fingerprint() const override { return FingerprintOf(file_.tokens()); }

  int64_t windows() const { return windows_; }  // samples in an epoch
  const TokenInputs& inputs() const { return inputs_; }

 private:
  // Throws InputError where one of the tokens [begin, end) is not in the vocabulary.
  void CheckTokens(int64_t begin, int64_t end) const;

  TokenFile file_;
  TokenInputs inputs_;
  int64_t windows_ = 0;
  uint64_t seed_;
};

}  // namespace heddle
