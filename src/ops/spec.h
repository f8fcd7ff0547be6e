// The notation of rules. Most ops state theirs in one line:
//
//   Spec("b* i k+, b* k j -> b* i j", c)          MatMul
//   Spec("a* c! z* -> a* c! z*", c, {.lengths = {{"a", axis}}})   Softmax
//   Spec("n (g c)+ ...")
//
// Operands and results are separated by commas, dimensions by blanks. A dimension is
//   k         a factor; every mention has the same size
//   b*        a run of factors b0 b1 ..., aligned at its right end between tensors; a dimension of size 1
//             broadcasts, that is, it does not run over the factor. Its length follows from the tensor's
//             rank, or is given where a tensor has several
//   (h g)     a product, outermost first; the sizes of all but one factor must be known
//   1         a dimension of size 1
// A suffix, written at any mention, says how the factor may be split: none parallel, + summed, ^ maxed,
// & expanded, ! whole. Factors that only results have get their sizes from `sizes`. Factors of size 1 are
// left out of the rule: there is nothing to split. Operands past those given (optional ones) are skipped.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ops/op.h"

namespace heddle {

struct SpecArgs {
  std::map<std::string, int64_t, std::less<>> lengths;  // of runs
  std::map<std::string, int64_t, std::less<>> sizes;    // of factors
  // Of dimensions that are concatenations: where the name stands alone it is these pieces (ops/pieces.h).
  std::map<std::string, std::vector<int64_t>, std::less<>> pieces = {};
};

// Throws InputError when operand shapes do not fit. Result types are those of operand 0, every float
// operand is differentiable and the work is one flop per point of result 0, unless changed afterwards.
Rule Spec(std::string_view spec, const OpContext& context, const SpecArgs& args = {});

// Adds a factor and returns the product of it alone; the empty product when its size is 1.
Product AddFactor(Rule& rule, std::string name, int64_t size, FactorKind kind);

// The index of a factor by name, or -1 (also when its size is 1).
int FindFactor(const Rule& rule, std::string_view name);

// All factors of a rule or those of the named runs and factors ("b*" is every factor of run b).
std::vector<int> AllFactors(const Rule& rule);
std::vector<int> Factors(const Rule& rule, std::initializer_list<std::string_view> names);

// The factors of one tensor, each once.
std::vector<int> FactorsOf(const Dims& dims);

// An attribute `axis` counted from either end, checked against the rank.
int64_t AxisAttr(const OpContext& context, int64_t rank, std::optional<int64_t> fallback = {});
int64_t NormaliseAxis(int64_t axis, int64_t rank);

// Throw InputError unless all operands have one type, or unless all have float types.
void RequireSameTypes(const OpContext& context);
void RequireFloats(const OpContext& context);

// What every family does after its Spec.
void NoGradient(Rule& rule);
void SetWork(Rule& rule, double flops_per_point, std::vector<int> factors,
             bool contraction = false);

// Operands 0 and 1 are contracted (the work set so far), and operand 2, where there is one, is a bias: one
// more term of the sum, which ends linearity in the others.
void FinishBiased(Rule& rule, const OpContext& context);

}  // namespace heddle
