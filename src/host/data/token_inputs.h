// What each input of a model gets of a window of tokens.
//
// A decoder-only model (input_ids [B,S], labels [B,S]) takes windows of S + 1 tokens, one every S:
//
//   tokens     t0 t1 t2 t3 | t4 t5 ...
//   input_ids  t0 t1 t2 t3
//   labels     t1 t2 t3 t4        the next tokens; or, where the graph itself shifts labels against logits
//              t0 t1 t2 t3        (InputUse::shift > 0), the same tokens, and windows of S
//
// With an encoder and a decoder the window is the encoder's tokens, then the decoder's, then one more. The
// decoder is the token input that also feeds the loss, or whose name says decoder, or the last as long as the
// labels. By name, and not tokens: attention masks ("mask") are ones, "position" inputs 0 .. S-1, "token_type"
// and "segment" inputs zeros.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace heddle {

enum class TokenRole : uint8_t { kTokens, kLabels, kOnes, kZeros, kPositions };

struct TokenInput {
  std::string name;
  TensorType type;
  TokenRole role = TokenRole::kTokens;
  int64_t first = 0;   // of kTokens and kLabels: which token of the window is element 0 of a row
  int64_t length = 0;  // elements of a row
};

struct TokenInputs {
  std::vector<TokenInput> inputs;  // in the model's order
  int64_t batch = 0;
  int64_t window = 0;  // tokens of a sample
  int64_t stride = 0;  // from one sample to the next
  int64_t vocabulary =
      0;               // tokens must lie below: the least of all tables, classes and element types
  std::string labels;  // how labels are made, for people
};

// Throws InputError, beginning with `file`, where a model cannot be trained on tokens: an input of floats
// (images), labels that are one per sample, integers that are neither tokens nor labels.
TokenInputs AssignTokens(const Graph& graph, const std::string& file);

}  // namespace heddle
