#include "plan/split_mark.h"

#include <algorithm>

#include "base/integers.h"

namespace heddle {
namespace {

const Factor& At(const Rule& rule, int factor) { return rule.factors[ToSize(factor)]; }

}  // namespace

std::optional<SplitMark> MarkOf(const Rule& rule, const Dims& dims, int factor) {
  for (size_t d = 0; d < dims.size(); ++d) {
    SplitMark mark{d, {}};
    for (const Product& product : dims[d].terms) {
      std::optional<DimPart> term =
          InDimension(rule, product, factor, {1, At(rule, factor).size, 1});
      if (term) mark.terms.push_back(*term);
    }
    if (mark.terms.empty()) continue;
    if (mark.terms.size() != dims[d].terms.size()) return std::nullopt;
    bool equal = std::all_of(mark.terms.begin(), mark.terms.end(),
                             [&](const auto& term) { return term == mark.terms[0]; });
    if (equal) {
      mark.terms[0].outer *= std::ssize(mark.terms);
      mark.terms.resize(1);
    }
    return mark;
  }
  return std::nullopt;
}

bool SameSplit(const SplitMark& a, const SplitMark& b, int64_t ranks) {
  if (a.dim != b.dim || a.terms.size() != b.terms.size()) return false;
  for (size_t t = 0; t < a.terms.size(); ++t) {
    const DimPart &x = a.terms[t], &y = b.terms[t];
    if (x.outer != y.outer || x.size * x.inner != y.size * y.inner) return false;
    if (x.size != y.size && (x.size % ranks != 0 || y.size % ranks != 0)) return false;
  }
  return true;
}

bool CanSplit(const Factor& factor) {
  return factor.kind == FactorKind::kParallel || factor.kind == FactorKind::kSummed ||
         factor.kind == FactorKind::kExpanded;
}

bool HasContraction(const Rule& rule) {
  return std::any_of(rule.work.begin(), rule.work.end(),
                     [](const WorkTerm& term) { return term.contraction; });
}

bool HasSummed(const Rule& rule, size_t operand) {
  for (int f = 0; f < std::ssize(rule.factors); ++f) {
    if (At(rule, f).kind == FactorKind::kSummed && Has(rule.operands[operand], f)) return true;
  }
  return false;
}

int FollowSplit(const Rule& rule, size_t operand, const SplitMark& arrives, int64_t ranks) {
  const Dims& dims = rule.operands[operand];
  int outermost = -1, largest = -1;
  for (int f : dims[arrives.dim].terms[0]) {
    const Factor& factor = At(rule, f);
    if (factor.size == 1) continue;
    std::optional<SplitMark> mark = MarkOf(rule, dims, f);
    bool splits = CanSplit(factor) && mark;
    if (splits && factor.size >= ranks && SameSplit(arrives, *mark, ranks)) return f;
    if (outermost < 0) outermost = splits ? f : ToInt(rule.factors.size());
    if (splits && (largest < 0 || factor.size > At(rule, largest).size)) largest = f;
  }
  if (outermost < 0 || outermost == ToInt(rule.factors.size())) return -1;
  if (At(rule, outermost).size >= ranks) return outermost;
  return HasContraction(rule) ? largest : -1;
}

}  // namespace heddle
