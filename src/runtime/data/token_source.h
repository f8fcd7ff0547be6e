// Batches from a file of tokens: sample i is the window of tokens that the seeded order of its epoch has at i.
#pragma once

#include <span>
#include <string>

#include "graph/token_file.h"
#include "runtime/data/data_source.h"
#include "runtime/data/token_inputs.h"

namespace heddle {

class TokenSource : public DataSource {
 public:
  // Checks the first window; all of a text for a model whose vocabulary is less than the 256 bytes.
  TokenSource(const Graph& graph, const std::string& path, uint64_t seed);

  Batch Rows(int64_t step, Block rows) const override;
  std::string Describe() const override;
  uint64_t Fingerprint() const override { return FingerprintOf(file_.tokens()); }

  int64_t windows() const { return windows_; }  // samples in an epoch
  const TokenInputs& inputs() const { return inputs_; }

 private:
  // Throws InputError where a token from `begin` to before `end` is beyond the vocabulary.
  void CheckTokens(int64_t begin, int64_t end) const;

  TokenFile file_;
  TokenInputs inputs_;
  int64_t windows_ = 0;
  uint64_t seed_;
};

}  // namespace heddle
