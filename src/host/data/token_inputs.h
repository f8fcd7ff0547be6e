// Which tokens of a window each input of a model gets.
//
// A decoder-only model (input_ids [B,S], labels [B,S]) takes windows of S + 1 tokens, one every S:
//
//   tokens     t0 t1 t2 t3 | t4 t5 ...
//   input_ids  t0 t1 t2 t3
//   labels     t1 t2 t3 t4        the next tokens; or, where the graph itself shifts labels against logits
//              t0 t1 t2 t3        (InputUse::shift > 0), the same tokens, and windows of S
//
// For an encoder and a decoder, the window holds the encoder's tokens, then the decoder's, then one more. The decoder
// is the token input that also feeds the loss, or whose name contains "decoder", or the last one that is as long as the
// labels. Some inputs are recognized by name and get no tokens: attention masks ("mask") are ones, "position" inputs
// are 0 .. S-1, "token_type" and "segment" inputs are zeros.
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
  int64_t first = 0;  // for kTokens and kLabels: the token of the window that is element 0 of a row
  int64_t length = 0;  // elements of a row
};

struct TokenInputs {
  std::vector<TokenInput> inputs;  // in the model's order
  int64_t batch = 0;
  int64_t window = 0;  // tokens of a sample
  int64_t stride = 0;  // tokens from the beginning of one sample to the next
  // Tokens are below this: the minimum over the sizes of all tables, numbers of classes and ranges of element types.
  int64_t vocabulary = 0;
  std::string labels;  // how labels are made, as text for the user
};

// Throws InputError, which begins with `file`, where a model cannot be trained on tokens: it has an input of floats
// (images), one label per sample, or integers that are neither tokens nor labels.
TokenInputs AssignTokens(const Graph& graph, const std::string& file);

}  // namespace heddle
