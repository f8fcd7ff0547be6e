#include "ops/verify_rule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/checked_math.h"
#include "base/error.h"

namespace heddle {
namespace {

class Verifier {
 public:
  Verifier(const Rule& rule, std::span<const TensorType> types) : rule_(rule), types_(types) {}

  std::vector<std::string> Run() {
    CheckFactors();
    CheckTensors();
    // What follows looks factors up by index.
    if (!found_.empty()) return found_;
    CheckKinds();
    CheckWork();
    CheckKeep();
    CheckOperandSets();
    if (rule_.view) CheckView();
    return found_;
  }

 private:
  template <class... Args>
  void Report(fmt::format_string<Args...> format, Args&&... args) {
    found_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  static bool InRange(int index, size_t count) {
    return index >= 0 && static_cast<size_t>(index) < count;
  }

  // Indices below `count`, each once.
  void CheckIndices(std::string_view what, const std::vector<int>& indices, size_t count) {
    std::set<int> seen;
    for (int index : indices) {
      if (!InRange(index, count)) Report("{} names {} of {}", what, index, count);
      if (!seen.insert(index).second) Report("{} names {} twice", what, index);
    }
  }

  void CheckFactors() {
    std::set<std::string_view> names;
    for (size_t f = 0; f < rule_.factors.size(); ++f) {
      const Factor& factor = rule_.factors[f];
      if (factor.name.empty()) Report("factor {} has no name", f);
      if (!names.insert(factor.name).second) Report("two factors are named {}", factor.name);
      if (factor.size < 0 || factor.size == 1) {
        Report("factor {} has size {}", factor.name, factor.size);
      }
    }
  }

  void CheckTensors() {
    if (rule_.operands.size() != types_.size()) {
      Report("{} operands stated, {} given", rule_.operands.size(), types_.size());
    }
    if (rule_.results.empty() || rule_.results.size() != rule_.result_dtypes.size()) {
      Report("{} results with {} dtypes", rule_.results.size(), rule_.result_dtypes.size());
    }
    for (size_t o = 0; o < std::min(types_.size(), rule_.operands.size()); ++o) {
      std::string what = fmt::format("operand {}", o);
      std::optional<Shape> shape = CheckTensor(what, rule_.operands[o]);
      if (shape && *shape != types_[o].shape) {
        Report("{} is {} by the rule, {} by its type", what, ToString(*shape),
               ToString(types_[o].shape));
      }
    }
    for (size_t r = 0; r < std::min(rule_.results.size(), rule_.result_dtypes.size()); ++r) {
      std::string what = fmt::format("result {}", r);
      std::optional<Shape> shape = CheckTensor(what, rule_.results[r]);
      if (!shape) continue;
      try {
        ByteCount({rule_.result_dtypes[r], *shape}, what);
      } catch (const InputError& error) {
        Report("{}", error.what());
      }
    }
  }

  // The shape, where it can be computed.
  std::optional<Shape> CheckTensor(std::string_view what, const Dims& dims) {
    Shape shape;
    std::set<int> elsewhere;
    for (size_t d = 0; d < dims.size(); ++d) {
      std::optional<int64_t> size = CheckDim(fmt::format("{}, dimension {}", what, d), dims[d]);
      if (!size) return std::nullopt;
      shape.push_back(*size);
      std::set<int> here;
      for (const Product& term : dims[d].terms) here.insert(term.begin(), term.end());
      for (int f : here) {
        if (!elsewhere.insert(f).second) {
          Report("{} has factor {} in two dimensions", what, NameOf(f));
        }
      }
    }
    return shape;
  }

  std::optional<int64_t> CheckDim(std::string_view what, const Dim& dim) {
    if (dim.terms.empty()) Report("{} has no terms", what);
    int64_t size = 0;
    for (const Product& term : dim.terms) {
      size_t before = found_.size();
      CheckIndices(what, term, rule_.factors.size());
      if (found_.size() != before) return std::nullopt;
      std::optional<int64_t> product = 1;
      for (int f : term) product = TryMul(*product, SizeOf(f)).value_or(-1);
      std::optional<int64_t> sum = *product < 0 ? std::nullopt : TryAdd(size, *product);
      if (!sum) {
        Report("{} is too large", what);
        return std::nullopt;
      }
      size = *sum;
      for (int f : term) CheckEveryTermHas(what, dim, f);
    }
    return size;
  }

  void CheckEveryTermHas(std::string_view what, const Dim& dim, int f) {
    if (KindOf(f) == FactorKind::kWhole) return;
    for (const Product& term : dim.terms) {
      if (std::find(term.begin(), term.end(), f) == term.end()) {
        Report("{} has factor {} in some terms only", what, NameOf(f));
        return;
      }
    }
  }

  void CheckKinds() {
    for (size_t i = 0; i < rule_.factors.size(); ++i) {
      int f = static_cast<int>(i);
      auto has = [f](const Dims& dims) { return Has(dims, f); };
      bool read = std::any_of(rule_.operands.begin(), rule_.operands.end(), has);
      bool made = std::any_of(rule_.results.begin(), rule_.results.end(), has);
      bool everywhere = std::all_of(rule_.results.begin(), rule_.results.end(), has);
      if (!read && !made) Report("factor {} stands in no tensor", NameOf(f));
      FactorKind kind = KindOf(f);
      if (kind == FactorKind::kParallel && read && !made) {
        Report("factor {} is parallel, yet no result has it", NameOf(f));
      }
      if ((kind == FactorKind::kSummed || kind == FactorKind::kMaxed) && everywhere) {
        Report("factor {} is summed or maxed, yet every result has it", NameOf(f));
      }
      if (kind == FactorKind::kMaxed && !rule_.differentiable.empty()) {
        Report("factor {} is maxed, yet there is a gradient", NameOf(f));
      }
    }
  }

  void CheckWork() {
    for (const WorkTerm& term : rule_.work) {
      CheckIndices("work", term.factors, rule_.factors.size());
      if (!std::isfinite(term.flops) || term.flops < 0) Report("work of {} flops", term.flops);
      for (const std::vector<int>& set : term.gradients) {
        // Optional operands may be named that are not given.
        for (int o : set) {
          if (o < 0) Report("the gradients of work name operand {}", o);
        }
      }
    }
  }

  void CheckKeep() {
    const Keep& keep = rule_.keep;
    CheckIndices("keep.operands", keep.operands, rule_.operands.size());
    CheckIndices("keep.crossed", keep.crossed, rule_.operands.size());
    CheckIndices("keep.results", keep.results, rule_.results.size());
    for (const KeepTerm& term : keep.extra) {
      CheckIndices("keep.extra", term.factors, rule_.factors.size());
      if (!std::isfinite(term.bytes) || term.bytes <= 0) Report("{} bytes kept", term.bytes);
    }
  }

  void CheckOperandSets() {
    for (const std::vector<int>& set : rule_.linear) {
      CheckIndices("linear", set, rule_.operands.size());
      if (set.empty()) Report("linear in no operand");
    }
    CheckIndices("differentiable", rule_.differentiable, rule_.operands.size());
    for (int o : rule_.differentiable) {
      if (!InRange(o, types_.size())) continue;
      DType dtype = types_[static_cast<size_t>(o)].dtype;
      if (!IsFloat(dtype)) Report("operand {} is {}, yet differentiable", o, Name(dtype));
    }
    if (!rule_.differentiable.empty() && !IsFloat(rule_.result_dtypes[0])) {
      Report("the result is {}, yet there is a gradient", Name(rule_.result_dtypes[0]));
    }
  }

  void CheckView() {
    if (types_.size() != 1) Report("a view of {} operands", types_.size());
    for (DType dtype : rule_.result_dtypes) {
      if (dtype != types_[0].dtype) {
        Report("a view of {} as {}", Name(types_[0].dtype), Name(dtype));
      }
    }
    if (!rule_.work.empty()) Report("a view with work");
  }

  const std::string& NameOf(int f) const { return rule_.factors[static_cast<size_t>(f)].name; }
  int64_t SizeOf(int f) const { return rule_.factors[static_cast<size_t>(f)].size; }
  FactorKind KindOf(int f) const { return rule_.factors[static_cast<size_t>(f)].kind; }

  const Rule& rule_;
  std::span<const TensorType> types_;
  std::vector<std::string> found_;
};

}  // namespace

std::vector<std::string> Verify(const Rule& rule, std::span<const TensorType> operands) {
  return Verifier(rule, operands).Run();
}

}  // namespace heddle
