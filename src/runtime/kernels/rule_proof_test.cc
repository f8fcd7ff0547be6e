// Every rule proved by its kernel. For every op of the list, many random applications:
//  - every factor that may be split, 2 to 4 ways (uneven and empty blocks included), and pairs of
//  factors:
//    the kernel on shards, recombined as the rule says, equals the kernel on the whole;
//  - every set of operands the rule calls linear, given as partial sums: the results sum up;
//  - every expansion, whole and with each expanded factor split;
// forward and gradients alike. The list of ops is the registry's: an op without a kernel or a
// sampler fails.
#include <gtest/gtest.h>

#include <set>

#include "ops/gradient_factors.h"
#include "ops/op.h"
#include "runtime/kernels/factor_kernels.h"
#include "runtime/kernels/op_case.h"

namespace heddle {
namespace {

constexpr int kSamplesPerSampler = 25;

std::string Describe(std::string_view op, const Rule& rule) {
  std::string sizes;
  for (const Factor& factor : rule.factors) {
    sizes += " " + factor.name + "=" + std::to_string(factor.size);
  }
  return std::string(op) + ": " + ToString(rule) + "  with" + sizes;
}

void ExpectClose(const at::Tensor& got, const at::Tensor& want, const std::string& what) {
  double tolerance = want.defined() && want.scalar_type() == at::kFloat ? 1e-5 : 1e-9;
  EXPECT_LE(Difference(got, want), tolerance) << what << "\ngot " << got << "\nwant " << want;
}

void ExpectSame(const Evaluation& got, const Evaluation& want, const std::string& what) {
  ASSERT_EQ(got.results.size(), want.results.size()) << what;
  for (size_t r = 0; r < want.results.size(); ++r) {
    ExpectClose(got.results[r], want.results[r], what + ", result " + std::to_string(r));
  }
  for (size_t o = 0; o < want.gradients.size(); ++o) {
    ExpectClose(got.gradients[o], want.gradients[o], what + ", gradient " + std::to_string(o));
  }
}

bool CanSplit(const Factor& factor) {
  return factor.kind == FactorKind::kParallel || factor.kind == FactorKind::kSummed ||
         factor.kind == FactorKind::kMaxed;
}

class RuleProof : public testing::TestWithParam<size_t> {
 protected:
  const OpSampler& sampler() const { return AllSamplers()[GetParam()]; }

  // Calls check(case, rng) for many applications.
  template <class Check>
  void ForCases(Check check) {
    for (int i = 0; i < kSamplesPerSampler; ++i) {
      SampleRng rng(static_cast<uint64_t>(i) * 1000003 + GetParam());
      check(OpCase(sampler(), rng), rng);
      if (HasFatalFailure() || HasNonfatalFailure()) return;
    }
  }
};

TEST_P(RuleProof, ShardsOfEveryFactorRecombine) {
  ForCases([](const OpCase& one, SampleRng&) {
    for (size_t f = 0; f < one.rule.factors.size(); ++f) {
      if (!CanSplit(one.rule.factors[f])) continue;
      for (int64_t ranks = 2; ranks <= 4; ++ranks) {
        std::string what = Describe(one.op, one.rule) + "\nsplit " + one.rule.factors[f].name +
                           " " + std::to_string(ranks) + " ways";
        ExpectSame(one.Split({{static_cast<int>(f), ranks}}), one.whole, what);
      }
    }
  });
}

TEST_P(RuleProof, ShardsOfPairsOfFactorsRecombine) {
  ForCases([](const OpCase& one, SampleRng& rng) {
    std::vector<int> open;
    for (size_t f = 0; f < one.rule.factors.size(); ++f) {
      if (CanSplit(one.rule.factors[f])) open.push_back(static_cast<int>(f));
    }
    if (open.size() < 2) return;
    std::shuffle(open.begin(), open.end(), rng);
    ExpectSame(one.Split({{open[0], 2}, {open[1], 3}}), one.whole,
               Describe(one.op, one.rule) + "\nsplit two factors");
  });
}

TEST_P(RuleProof, PartialSumsPassThroughLinearOperands) {
  ForCases([](const OpCase& one, SampleRng&) {
    for (const std::vector<int>& set : one.rule.linear) {
      bool floats = true;
      for (int o : set) floats &= IsFloat(one.types[static_cast<size_t>(o)].dtype);
      if (!floats) continue;
      ExpectSame(EvaluatePartial(one.op, one.attributes, one.rule, one.operands,
                                 one.result_gradients, set),
                 one.whole, Describe(one.op, one.rule) + "\npartial operands");
    }
  });
}

TEST_P(RuleProof, ExpansionsComputeTheSame) {
  const OpDef* def = FindOp(sampler().op);
  ForCases([def](const OpCase& one, SampleRng&) {
    for (const Factor& factor : one.rule.factors) {
      bool expanded = factor.kind == FactorKind::kExpanded;
      ASSERT_TRUE(!expanded || def->expansion) << def->name;
    }
    if (!def->expansion) return;
    Graph graph = def->expansion(OpContext{one.attributes, one.types});
    ASSERT_EQ(Verify(graph), std::vector<std::string>{});
    std::vector<int> unsplit(one.operands.size(), -1);
    std::string what = Describe(one.op, one.rule) + "\nexpanded";
    ExpectSame(one.Expand(graph, unsplit, 1), one.whole, what);
    for (size_t f = 0; f < one.rule.factors.size(); ++f) {
      if (one.rule.factors[f].kind == FactorKind::kWhole) continue;
      std::vector<int> dims;
      for (const Dims& operand : one.rule.operands) {
        int found = -1;
        for (size_t d = 0; d < operand.size(); ++d) {
          if (Has({operand[d]}, static_cast<int>(f))) found = static_cast<int>(d);
        }
        dims.push_back(found);
      }
      for (int64_t ranks = 2; ranks <= 4; ++ranks) {
        ExpectSame(one.Expand(graph, dims, ranks), one.whole,
                   what + " and split along " + one.rule.factors[f].name);
      }
    }
  });
}

// The gradient of a weight from factors, of the part that these blocks of the factors hold.
void ExpectFactors(const OpCase& one, size_t operand, const std::vector<Block>& blocks,
                   const std::string& what) {
  Node node;
  node.op = one.op;
  node.attributes = one.attributes;
  node.operands.resize(one.operands.size());
  const GradientFactors* known = FindGradientFactors(node, operand);
  if (known == nullptr || !one.whole.gradients[operand].defined()) return;
  auto part = [&](const at::Tensor& whole, const Dims& dims) {
    return Take(whole, Coordinates(one.rule, dims, blocks)).detach();
  };
  std::vector<at::Tensor> factors;
  for (size_t o : known->operands) factors.push_back(part(one.operands[o], one.rule.operands[o]));
  FactorKernelFn kernel = FindFactorKernel(one.op, operand);
  ASSERT_NE(kernel, nullptr) << what;
  ExpectClose(kernel({one.attributes, one.rule, blocks, factors, {}},
                     part(one.result_gradients[0], one.rule.results[0])),
              part(one.whole.gradients[operand], one.rule.operands[operand]),
              what + ", operand " + std::to_string(operand));
}

TEST_P(RuleProof, GradientsFollowFromFactors) {
  if (TraitsOf(sampler().op).gradient_factors.empty()) return;
  ForCases([](const OpCase& one, SampleRng&) {
    for (size_t o = 0; o < one.operands.size(); ++o) {
      ExpectFactors(one, o, WholeBlocks(one.rule), Describe(one.op, one.rule));
      for (size_t f = 0; f < one.rule.factors.size(); ++f) {
        const Factor& factor = one.rule.factors[f];
        if (!CanSplit(factor) || !Has(one.rule.operands[o], static_cast<int>(f))) continue;
        for (int64_t rank = 0; rank < 3; ++rank) {
          std::vector<Block> blocks = WholeBlocks(one.rule);
          blocks[f] = FactorBlock(factor.size, 3, rank);
          ExpectFactors(one, o, blocks,
                        Describe(one.op, one.rule) + "\nblock " + std::to_string(rank) +
                            " of 3 of " + factor.name);
        }
      }
    }
  });
}

TEST(RuleProofCoverage, EveryDeclaredGradientHasAKernelForItsFactors) {
  for (const OpDef& op : AllOps()) {
    for (const GradientFactors& at : op.traits.gradient_factors) {
      EXPECT_NE(FindFactorKernel(op.name, at.operand), nullptr) << op.name << " " << at.operand;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, RuleProof, testing::Range(size_t{0}, AllSamplers().size()),
                         [](const auto& info) {
                           return std::string(AllSamplers()[info.param].op) + "_" +
                                  std::to_string(info.param);
                         });

TEST(RuleProofCoverage, EveryOpHasAKernelAndASampler) {
  std::set<std::string_view> ops, kernels, samplers;
  for (const OpDef& op : AllOps()) ops.insert(op.name);
  for (const KernelDef& kernel : AllKernels()) kernels.insert(kernel.op);
  for (const OpSampler& sampler : AllSamplers()) samplers.insert(sampler.op);
  EXPECT_EQ(ops, kernels);
  EXPECT_EQ(ops, samplers);
}

// The proofs prove nothing about a factor that no sample has: every kind of factor a rule can have
// must have been split at least once with a size above one.
TEST(RuleProofCoverage, EveryOpIsSplitSomewhere) {
  std::set<std::string_view> unsplit;
  for (size_t s = 0; s < AllSamplers().size(); ++s) {
    bool split = false;
    for (int i = 0; i < kSamplesPerSampler; ++i) {
      SampleRng rng(static_cast<uint64_t>(i) * 1000003 + s);
      OpCase one(AllSamplers()[s], rng);
      for (const Factor& factor : one.rule.factors) split |= CanSplit(factor);
    }
    if (!split) unsplit.insert(AllSamplers()[s].op);
  }
  EXPECT_TRUE(unsplit.empty()) << *unsplit.begin();
}

}  // namespace
}  // namespace heddle
