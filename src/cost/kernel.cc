#include "cost/kernel.h"

#include <algorithm>

#include "graph/dtype.h"
#include "ops/moved_bytes.h"
#include "ops/spec.h"
#include "ops/traits.h"

namespace heddle {
namespace {

double Elements(const Rule& rule, const Dims& dims, std::span<const Block> blocks) {
  return static_cast<double>(LocalElements(rule, dims, blocks));
}

double TermBytes(const std::vector<KeepTerm>& terms, std::span<const Block> blocks) {
  double bytes = 0;
  for (const KeepTerm& term : terms) {
    double points = term.bytes;
    for (int f : term.factors) points *= static_cast<double>(blocks[static_cast<size_t>(f)].size());
    bytes += points;
  }
  return bytes;
}

class NodeWorker {
 public:
  NodeWorker(const Graph& graph, const GradientFlow& flow, const Node& node, const Rule& rule,
             std::span<const Block> blocks, DType gradients)
      : graph_(graph),
        flow_(flow),
        node_(node),
        traits_(TraitsOf(node.op)),
        rule_(rule),
        blocks_(blocks),
        gradients_(gradients) {}

  NodeKernels Run() {
    Halves work = NodeWork(node_, rule_, flow_, blocks_);
    if (rule_.view) return {};
    NodeKernels kernels;
    if (traits_.kind == OpKind::kAttention) {
      Attention(work, kernels);
    } else if (work.forward.contraction_flops > 0 && node_.operands.size() >= 2) {
      Product(work, kernels);
    } else {
      Traffic(kernels);
    }
    return kernels;
  }

 private:
  DType type(ValueId id) const { return graph_.value(id).type.dtype; }
  double OperandBytes(size_t o) const {
    double bytes = Elements(rule_, rule_.operands[o], blocks_) *
                   static_cast<double>(SizeOf(type(node_.operands[o])));
    return o == 0 && ReadsRows(traits_) ? std::min(bytes, ResultBytes(0)) : bytes;
  }
  double ResultBytes(size_t r) const {
    return Elements(rule_, rule_.results[r], blocks_) *
           static_cast<double>(SizeOf(type(node_.results[r])));
  }
  double AllOperands() const {
    double bytes = 0;
    for (size_t o = 0; o < node_.operands.size(); ++o) bytes += OperandBytes(o);
    return bytes;
  }
  double AllResults() const {
    double bytes = 0;
    for (size_t r = 0; r < node_.results.size(); ++r) bytes += ResultBytes(r);
    return bytes;
  }
  bool Needs(size_t o) const {
    bool differentiable = std::find(rule_.differentiable.begin(), rule_.differentiable.end(),
                                    static_cast<int>(o)) != rule_.differentiable.end();
    return differentiable && flow_.needed[node_.operands[o].index()];
  }
  bool AnyGradient() const {
    for (size_t o = 0; o < node_.operands.size(); ++o) {
      if (Needs(o)) return true;
    }
    return false;
  }

  Kernel Make(KernelKind kind, double flops, double bytes) const {
    Kernel kernel;
    kernel.kind = kind;
    kernel.dtype = type(node_.results[0]);
    kernel.flops = flops;
    kernel.bytes = bytes;
    kernel.op = node_.op;
    if (kind == KernelKind::kTraffic)
      kernel.moved = MovedBytes(graph_, node_, rule_, blocks_, false);
    return kernel;
  }
  Kernel MakeBackward(KernelKind kind, double flops, double bytes) const {
    Kernel kernel = Make(kind, flops, bytes);
    kernel.backward = true;
    if (kind == KernelKind::kTraffic)
      kernel.moved = MovedBytes(graph_, node_, rule_, blocks_, true);
    return kernel;
  }
  double FactorSize(std::string_view name) const {
    int factor = FindFactor(rule_, name);
    return factor < 0 ? 1 : static_cast<double>(blocks_[static_cast<size_t>(factor)].size());
  }

  // Flash attention: scores are made again in backward, which then is five products instead of four, and what a
  // causal mask hides is skipped.
  void Attention(const Halves& work, NodeKernels& kernels) const {
    constexpr double kBackwardAgain = 1.25;
    double seen = IntAttr(node_.attributes, "causal", 0) != 0 ? 0.5 : 1;
    kernels.forward = {Make(KernelKind::kAttention, seen * work.forward.contraction_flops,
                            AllOperands() + AllResults())};
    if (work.backward.flops > 0) {
      kernels.backward = {MakeBackward(KernelKind::kAttention,
                                       seen * kBackwardAgain * work.backward.contraction_flops,
                                       2 * (AllOperands() + AllResults()))};
    }
    double width = FactorSize("d"), queries = FactorSize("i"), keys = FactorSize("j");
    double results = Elements(rule_, rule_.results[0], blocks_);
    double heads = results / (queries * FactorSize("e"));
    for (std::vector<Kernel>* half : {&kernels.forward, &kernels.backward}) {
      for (Kernel& kernel : *half) {
        kernel.causal = seen < 1;
        kernel.b = heads;
        kernel.m = queries;
        kernel.n = keys;
        kernel.k = width;
      }
    }
  }

  // b are the factors of all three tensors; k follows from the work, n from what operand 1 holds, m from the rest.
  void Product(const Halves& work, NodeKernels& kernels) const {
    double b = 1;
    for (size_t f = 0; f < rule_.factors.size(); ++f) {
      int factor = static_cast<int>(f);
      bool all = Has(rule_.operands[0], factor) && Has(rule_.operands[1], factor) &&
                 Has(rule_.results[0], factor);
      if (all) b *= static_cast<double>(blocks_[f].size());
    }
    double results = Elements(rule_, rule_.results[0], blocks_);
    if (results == 0) return;
    double k = work.forward.contraction_flops / (2 * results);
    double n = std::max(1.0, Elements(rule_, rule_.operands[1], blocks_) / (b * k));
    double m = std::max(1.0, results / (b * n));
    double left = OperandBytes(0), right = OperandBytes(1), out = AllResults();
    bool parameter = flow_.weight[node_.operands[1].index()] ||
                     graph_.value(node_.operands[1]).kind == ValueKind::kParameter;
    auto product = [&](double flops, double mm, double nn, double kk, double bytes) {
      Kernel kernel = Make(KernelKind::kProduct, flops, bytes);
      kernel.with_parameter = parameter;
      kernel.b = b;
      kernel.m = mm;
      kernel.n = nn;
      kernel.k = kk;
      return kernel;
    };
    double flops = work.forward.contraction_flops;
    kernels.forward = {product(flops, m, n, k, left + right + out)};
    for (size_t o = 0; o < 2; ++o) {
      if (!Needs(o)) continue;
      bool weight = flow_.weight[node_.operands[o].index()];
      double bytes = left + right + out;
      if (weight) {  // added to what is there
        bytes += 2 * Elements(rule_, rule_.operands[o], blocks_) *
                 static_cast<double>(SizeOf(gradients_));
      }
      Kernel kernel = o == 0 ? product(flops, m, k, n, bytes) : product(flops, k, n, m, bytes);
      kernel.backward = true;
      (weight ? kernels.weight : kernels.backward).push_back(kernel);
    }
  }

  // What is kept beside the results is written; what a half needs for itself is written and read.
  void Traffic(NodeKernels& kernels) const {
    double scratch = 2 * TermBytes(rule_.scratch, blocks_);
    double extra = TermBytes(rule_.keep.extra, blocks_);
    bool gradient = AnyGradient();
    kernels.forward = {Make(KernelKind::kTraffic, 0,
                            AllOperands() + AllResults() + scratch + (gradient ? extra : 0))};
    if (!gradient) return;
    // Sums and the like hand gradients on as they are; what was broadcast is summed.
    const Keep& keep = rule_.keep;
    bool keeps = !keep.operands.empty() || !keep.crossed.empty() || !keep.results.empty() ||
                 !keep.extra.empty();
    double bytes = 0;
    if (keeps || !IsLinear()) {
      bytes = AllResults();
      for (int o : keep.operands) bytes += OperandBytes(static_cast<size_t>(o));
      for (int o : keep.crossed) bytes += OperandBytes(static_cast<size_t>(o));
      for (int r : keep.results) bytes += ResultBytes(static_cast<size_t>(r));
      bytes += extra + 2 * scratch;
      for (size_t o = 0; o < node_.operands.size(); ++o) {
        if (Needs(o)) bytes += OperandBytes(o);
      }
    } else {
      for (size_t o = 0; o < node_.operands.size(); ++o) {
        bool broadcast = Elements(rule_, rule_.operands[o], blocks_) <
                         Elements(rule_, rule_.results[0], blocks_);
        if (Needs(o) && broadcast) bytes += AllResults() + OperandBytes(o);
      }
    }
    if (bytes > 0) kernels.backward = {MakeBackward(KernelKind::kTraffic, 0, bytes)};
  }

  // All operands together, as a sum is: its gradients are those of the result.
  bool IsLinear() const {
    for (const std::vector<int>& set : rule_.linear) {
      if (set.size() == node_.operands.size()) return node_.operands.size() > 1;
    }
    return false;
  }

  const Graph& graph_;
  const GradientFlow& flow_;
  const Node& node_;
  const OpTraits& traits_;
  const Rule& rule_;
  std::span<const Block> blocks_;
  DType gradients_;
};

}  // namespace

bool IsProductBias(const Node& node, size_t operand) {
  const OpTraits& traits = TraitsOf(node.op);
  return traits.kind == OpKind::kMatrixProduct && traits.bias == operand;
}

double ScratchBytes(const Rule& rule, std::span<const Block> blocks) {
  return TermBytes(rule.scratch, blocks);
}

double OperandBytes(const Graph& graph, const Node& node, const Rule& rule,
                    std::span<const Block> blocks, size_t o) {
  return Elements(rule, rule.operands[o], blocks) *
         static_cast<double>(SizeOf(graph.value(node.operands[o]).type.dtype));
}

NodeKernels KernelsOf(const Graph& graph, const GradientFlow& flow, const Node& node,
                      const Rule& rule, std::span<const Block> blocks, DType gradients) {
  return NodeWorker(graph, flow, node, rule, blocks, gradients).Run();
}

Kernel FactorKernel(const Graph& graph, const GradientFlow& flow, const Node& node,
                    const Rule& rule, std::span<const Block> blocks, DType gradients,
                    size_t operand) {
  // Of a product with a weight there is one product in W: that of the weight among its first two operands.
  NodeKernels kernels = KernelsOf(graph, flow, node, rule, blocks, gradients);
  if (operand < 2 && !kernels.weight.empty()) return kernels.weight[0];
  double result =
      Elements(rule, rule.results[0], blocks) * static_cast<double>(SizeOf(rule.result_dtypes[0]));
  Kernel sum;
  sum.dtype = rule.result_dtypes[0];
  bool bias = IsProductBias(node, operand);
  sum.op = bias ? kBiasGradient : std::string_view(node.op);
  sum.backward = !bias;
  sum.moved = bias ? result : MovedBytes(graph, node, rule, blocks, true);
  sum.bytes = result + 2 * Elements(rule, rule.operands[operand], blocks) *
                           static_cast<double>(SizeOf(gradients));
  return sum;
}

}  // namespace heddle
