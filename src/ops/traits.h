// Traits: what an op is, where its rule (rule.h) does not say it. Import, planner, simulator, runtime and reports ask
// for a trait where they treat some ops unlike others. Only kernels and rewrites of graphs compare an op's name
// (tests/op_names.sh checks that).
//
//   if (TraitsOf(node.op).kind == OpKind::kAttention) ...
//
// An op declares its traits once, in its OpDef. The defaults are those of an op that computes new values elementwise.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "ops/gradient_factors.h"

namespace heddle {

struct OpContext;  // ops/op.h

// Kinds of ops with measured rates, memory or words in reports of their own.
enum class OpKind : uint8_t {
  kOther,
  kMatrixProduct,
  kConvolution,
  kAttention,  // softmax(scale q k^T + bias) v as one op; operands q, k, v and the bias of the scores
};

// What a normalisation takes its mean and deviation from.
enum class NormStatistics : uint8_t {
  kNone,    // the op is no normalisation
  kSample,  // rows, groups or channels of each sample
  kBatch,   // each channel over the batch
  kGiven,   // operands with a number for each channel
};

// The cross entropy of logits and labels is a negative log likelihood of log probabilities: the part that the op
// computes. Labels are operand 1, classes are dimension 1 of operand 0, and a label that equals attribute
// `ignore_index` does not count.
enum class CrossEntropyPart : uint8_t {
  kNone,
  kLogProbabilities,  // of logits; without labels
  kLikelihood,        // of log probabilities and labels
  kWhole,             // of logits and labels
};

// What the indices in operand 1 choose of operand 0.
enum class LookupKind : uint8_t {
  kNone,
  kRows,      // along attribute `axis`, everything at an index: rows of an embedding table
  kElements,  // along attribute `axis`, one element
  kPoints,    // along several dimensions at once
};

// The elements of the results, where they all are elements of operand 0.
enum class ResultElements : uint8_t {
  kComputed,   // they are not
  kReshaped,   // all, in the same row-major order
  kPermuted,   // all, with the dimensions in another order
  kConverted,  // all, as another type
  kPart,       // the block or every n-th one of each dimension
};

// When an op draws random numbers, and so gives other results in every step.
enum class Randomness : uint8_t {
  kNone,
  kTraining,  // in training; else the results are operand 0
  kAlways,
};

// Of an op with two operands: `value op x` = x where it is on the left, and x `op value` = x.
struct NeutralElement {
  double value = 0;
  bool left = false;
};

struct OpTraits {
  OpKind kind = OpKind::kOther;
  NormStatistics statistics = NormStatistics::kNone;
  CrossEntropyPart cross_entropy = CrossEntropyPart::kNone;
  LookupKind lookup = LookupKind::kNone;
  ResultElements elements = ResultElements::kComputed;
  Randomness randomness = Randomness::kNone;
  // PyTorch has no kernel for the op: uncompiled, it runs several and keeps values between them.
  bool composite = false;
  // All operands broadcast as NumPy's do: where a tensor repeats along a dimension, size 1 gives the same results.
  bool broadcasts = false;
  // The operand that scales, and the one that is added, one element per channel or feature each.
  std::optional<size_t> gain = {}, bias = {};
  std::optional<NeutralElement> neutral = {};
  // Of an op that adds its operands: their signs. The gradient of an operand is that of the result times its sign.
  std::vector<int> signs = {};
  // The operands whose gradients, where they are weights, can be computed from gathered factors.
  std::vector<GradientFactors> gradient_factors = {};
  // Is a node with one operand and these attributes the identity if the result has the operand's type? Null: never.
  bool (*identity)(const Attributes&) = nullptr;
  // Of an op that moves elements, and at most converts or limits them: the index in operand `o` at which result `r`
  // begins, negative where the op puts elements in front. Nothing: the result has no elements of that operand. Null: the op
  // computes new values, or may put an element at several places of a sequence.
  std::optional<std::vector<int64_t>> (*origin)(const OpContext&, size_t o, size_t r) = nullptr;
};

// Of the op with this name, which must exist.
const OpTraits& TraitsOf(std::string_view op);

}  // namespace heddle
