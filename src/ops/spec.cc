#include "ops/spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>

#include "base/check.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "ops/pieces.h"

namespace heddle {
namespace {

struct Token {
  std::vector<std::string> names;  // of the product; empty for "1"
  bool run = false;
};
struct TensorSpec {
  std::vector<Token> tokens;
};
struct ParsedSpec {
  std::vector<TensorSpec> operands, results;
  std::map<std::string, FactorKind, std::less<>> kinds;
};

// Specs are written in this code base, so a malformed one is a bug.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  ParsedSpec Parse() {
    ParsedSpec spec;
    std::vector<TensorSpec>* side = &spec.operands;
    side->emplace_back();
    while (Skip()) {
      if (text_.substr(at_).starts_with("->")) {
        at_ += 2;
        side = &spec.results;
        side->emplace_back();
      } else if (text_[at_] == ',') {
        ++at_;
        side->emplace_back();
      } else {
        side->back().tokens.push_back(ParseToken(spec));
      }
    }
    HEDDLE_CHECK(side == &spec.results, "rule without '->': {}", text_);
    return spec;
  }

 private:
  bool Skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size();
  }

  std::string ParseName(ParsedSpec& spec, bool* run) {
    size_t begin = at_;
    while (at_ < text_.size() && std::isalnum(static_cast<unsigned char>(text_[at_]))) ++at_;
    std::string name(text_.substr(begin, at_ - begin));
    HEDDLE_CHECK(!name.empty(), "rule '{}': a name is missing at {}", text_, begin);
    if (at_ < text_.size() && text_[at_] == '*') {
      HEDDLE_CHECK(run != nullptr, "rule '{}': a run inside a product", text_);
      *run = true;
      ++at_;
    }
    if (at_ < text_.size()) {
      static constexpr std::string_view kMarks = "+^&!";
      static constexpr FactorKind kKinds[] = {FactorKind::kSummed, FactorKind::kMaxed,
                                              FactorKind::kExpanded, FactorKind::kWhole};
      if (size_t mark = kMarks.find(text_[at_]); mark != std::string_view::npos) {
        spec.kinds[name] = kKinds[mark];
        ++at_;
      }
    }
    return name;
  }

  Token ParseToken(ParsedSpec& spec) {
    Token token;
    if (text_[at_] == '(') {
      ++at_;
      while (Skip() && text_[at_] != ')') token.names.push_back(ParseName(spec, nullptr));
      HEDDLE_CHECK(at_ < text_.size(), "rule '{}': ')' is missing", text_);
      ++at_;
    } else if (text_[at_] == '1') {
      ++at_;
    } else {
      token.names.push_back(ParseName(spec, &token.run));
    }
    return token;
  }

  std::string_view text_;
  size_t at_ = 0;
};

// Lays runs out over a tensor's dimensions, so that every dimension has one token without runs.
class Binder {
 public:
  Binder(const ParsedSpec& spec, const OpContext& context, const SpecArgs& args)
      : spec_(spec), context_(context), args_(args), sizes_(args.sizes.begin(), args.sizes.end()) {}

  Rule Bind() {
    size_t given = context_.operands.size();
    if (given > spec_.operands.size()) {
      ThrowInput("takes at most {} operands, {} given", spec_.operands.size(), given);
    }
    MeasureRuns(given);
    std::vector<std::vector<Token>> operands;
    for (size_t o = 0; o < given; ++o) operands.push_back(LayOut(spec_.operands[o]));
    for (size_t o = 0; o < given; ++o) MeasureFactors(o, operands[o]);
    for (size_t o = 0; o < given; ++o) MeasureProducts(o, operands[o]);
    for (size_t o = 0; o < given; ++o) {
      Dims dims;
      for (size_t d = 0; d < operands[o].size(); ++d) {
        dims.push_back(OperandDim(o, d, operands[o][d]));
      }
      rule_.operands.push_back(std::move(dims));
    }
    for (const TensorSpec& result : spec_.results) {
      Dims dims;
      for (const Token& token : LayOut(result)) dims.push_back(MakeDim(token));
      rule_.results.push_back(std::move(dims));
    }
    return std::move(rule_);
  }

 private:
  // The longest extent of every run; runs may be shorter in some operands (broadcasting).
  void MeasureRuns(size_t given) {
    run_lengths_.insert(args_.lengths.begin(), args_.lengths.end());
    for (size_t o = 0; o < given; ++o) {
      int64_t rank = context_.rank(o);
      int64_t fixed = 0;
      const Token* open = nullptr;
      for (const Token& token : spec_.operands[o].tokens) {
        if (!token.run) {
          ++fixed;
        } else if (auto it = args_.lengths.find(token.names[0]); it != args_.lengths.end()) {
          fixed += it->second;
        } else {
          HEDDLE_CHECK(open == nullptr, "two runs of unknown length in one tensor");
          open = &token;
        }
      }
      int64_t length = rank - fixed;
      if (length < 0 || (open == nullptr && length != 0)) {
        ThrowInput("operand {} has {} dimensions {}, expected {}{}", o, rank,
                   ToString(context_.shape(o)), open == nullptr ? "" : "at least ", fixed);
      }
      operand_run_.push_back(length);
      if (open != nullptr) {
        int64_t& longest = run_lengths_.try_emplace(open->names[0], 0).first->second;
        longest = std::max(longest, length);
      }
    }
  }

  std::vector<Token> LayOut(const TensorSpec& tensor) const {
    bool is_operand =
        &tensor >= spec_.operands.data() && &tensor < spec_.operands.data() + spec_.operands.size();
    std::vector<Token> laid;
    for (const Token& token : tensor.tokens) {
      if (!token.run) {
        laid.push_back(token);
        continue;
      }
      const std::string& name = token.names[0];
      int64_t full = run_lengths_.count(name) ? run_lengths_.at(name) : 0;
      int64_t length = full;
      if (is_operand && args_.lengths.count(name) == 0) {
        length = operand_run_[static_cast<size_t>(&tensor - spec_.operands.data())];
      }
      for (int64_t i = full - length; i < full; ++i) {
        Token single;
        single.names.push_back(fmt::format("{}{}", name, i));
        single.run = true;
        laid.push_back(std::move(single));
      }
    }
    return laid;
  }

  void MeasureFactors(size_t o, const std::vector<Token>& tokens) {
    for (size_t d = 0; d < tokens.size(); ++d) {
      if (tokens[d].names.size() != 1) continue;
      const std::string& name = tokens[d].names[0];
      int64_t size = context_.dim(o, static_cast<int64_t>(d));
      auto [it, fresh] = sizes_.try_emplace(name, size);
      if (fresh || it->second == size) continue;
      if (tokens[d].run && size == 1) continue;
      if (tokens[d].run && it->second == 1) {
        it->second = size;
        continue;
      }
      ThrowInput("operand {} {} has {} in dimension {}, where {} is expected", o,
                 ToString(context_.shape(o)), size, d, it->second);
    }
  }

  void MeasureProducts(size_t o, const std::vector<Token>& tokens) {
    for (size_t d = 0; d < tokens.size(); ++d) {
      int64_t size = context_.dim(o, static_cast<int64_t>(d));
      if (tokens[d].names.empty() && size != 1) {
        ThrowInput("operand {} {} has {} in dimension {}, where 1 is expected", o,
                   ToString(context_.shape(o)), size, d);
      }
      if (tokens[d].names.size() < 2) continue;
      const std::string* unknown = nullptr;
      int64_t known = 1;
      for (const std::string& name : tokens[d].names) {
        if (auto it = sizes_.find(name); it != sizes_.end()) {
          // A product that cannot be counted is no dimension's size.
          known = TryMul(known, it->second).value_or(std::numeric_limits<int64_t>::max());
        } else {
          HEDDLE_CHECK(unknown == nullptr, "two unknown factors in a product");
          unknown = &name;
        }
      }
      if (known == 0 ? size != 0 : (unknown == nullptr ? size != known : size % known != 0)) {
        ThrowInput("operand {} {} has {} in dimension {}, which is not {}{}", o,
                   ToString(context_.shape(o)), size, d, unknown ? "a multiple of " : "", known);
      }
      if (unknown != nullptr) sizes_[*unknown] = known == 0 ? 1 : size / known;
    }
  }

  FactorKind KindOf(const Token& token, const std::string& name) const {
    std::string_view key = name;
    if (token.run) {
      while (std::isdigit(static_cast<unsigned char>(key.back()))) key.remove_suffix(1);
    }
    auto it = spec_.kinds.find(key);
    return it == spec_.kinds.end() ? FactorKind::kParallel : it->second;
  }

  Dim MakeDim(const Token& token) {
    if (token.names.size() == 1) {
      if (auto sizes = args_.pieces.find(token.names[0]); sizes != args_.pieces.end()) {
        auto [made, fresh] = pieces_.try_emplace(sizes->first);
        if (fresh) made->second = Dim{Pieces(rule_, sizes->second)};
        return made->second;
      }
    }
    Product product;
    for (const std::string& name : token.names) {
      auto size = sizes_.find(name);
      HEDDLE_CHECK(size != sizes_.end(), "factor {} has no size", name);
      if (size->second == 1) continue;
      int index = FindFactor(rule_, name);
      if (index < 0) {
        index = AddFactor(rule_, name, size->second, KindOf(token, name)).front();
      }
      product.push_back(index);
    }
    return Dim{{std::move(product)}};
  }

  Dim OperandDim(size_t o, size_t d, const Token& token) {
    bool broadcast = token.run && context_.dim(o, static_cast<int64_t>(d)) == 1;
    return broadcast ? Dim{} : MakeDim(token);
  }

  const ParsedSpec& spec_;
  const OpContext& context_;
  const SpecArgs& args_;
  std::map<std::string, int64_t, std::less<>> sizes_;
  std::map<std::string, int64_t, std::less<>> run_lengths_;
  std::vector<int64_t> operand_run_;                // length of each operand's open run
  std::map<std::string, Dim, std::less<>> pieces_;  // made so far
  Rule rule_;
};

}  // namespace

Rule Spec(std::string_view spec, const OpContext& context, const SpecArgs& args) {
  ParsedSpec parsed = Parser(spec).Parse();
  Rule rule = Binder(parsed, context, args).Bind();
  DType dtype = context.operands.empty() ? DType::kF32 : context.operands[0].dtype;
  rule.result_dtypes.assign(rule.results.size(), dtype);
  for (size_t o = 0; o < context.operands.size(); ++o) {
    if (IsFloat(context.operands[o].dtype)) rule.differentiable.push_back(static_cast<int>(o));
  }
  SetWork(rule, 1, FactorsOf(rule.results[0]));
  return rule;
}

Product AddFactor(Rule& rule, std::string name, int64_t size, FactorKind kind) {
  if (size == 1) return {};
  rule.factors.push_back({std::move(name), size, kind});
  return {static_cast<int>(rule.factors.size()) - 1};
}

int FindFactor(const Rule& rule, std::string_view name) {
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    if (rule.factors[f].name == name) return static_cast<int>(f);
  }
  return -1;
}

std::vector<int> AllFactors(const Rule& rule) {
  std::vector<int> all(rule.factors.size());
  for (size_t f = 0; f < all.size(); ++f) all[f] = static_cast<int>(f);
  return all;
}

std::vector<int> Factors(const Rule& rule, std::initializer_list<std::string_view> names) {
  std::vector<int> found;
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    std::string_view name = rule.factors[f].name;
    std::string_view stem = name.substr(0, name.find_first_of("0123456789"));
    for (std::string_view wanted : names) {
      bool run = wanted.ends_with('*');
      if (run ? stem == wanted.substr(0, wanted.size() - 1) : name == wanted) {
        found.push_back(static_cast<int>(f));
      }
    }
  }
  return found;
}

std::vector<int> FactorsOf(const Dims& dims) {
  std::vector<int> found;
  for (const Dim& dim : dims) {
    for (const Product& term : dim.terms) {
      for (int f : term) {
        if (std::find(found.begin(), found.end(), f) == found.end()) found.push_back(f);
      }
    }
  }
  return found;
}

int64_t NormaliseAxis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank) {
    ThrowInput("axis {} is outside a tensor of {} dimensions", axis, rank);
  }
  return axis < 0 ? axis + rank : axis;
}

int64_t AxisAttr(const OpContext& context, int64_t rank, std::optional<int64_t> fallback) {
  return NormaliseAxis(IntAttr(context.attributes, "axis", fallback), rank);
}

void RequireSameTypes(const OpContext& context) {
  for (const TensorType& type : context.operands) {
    if (type.dtype != context.operands[0].dtype) {
      ThrowInput("operands of unlike types {} and {}", Name(context.operands[0].dtype),
                 Name(type.dtype));
    }
  }
}

void RequireFloats(const OpContext& context) {
  for (size_t o = 0; o < context.operands.size(); ++o) {
    DType dtype = context.operands[o].dtype;
    if (!IsFloat(dtype)) ThrowInput("operand {} is {}, not a float", o, Name(dtype));
  }
}

void NoGradient(Rule& rule) { rule.differentiable.clear(); }

void SetWork(Rule& rule, double flops_per_point, std::vector<int> factors, bool contraction) {
  rule.work = {{flops_per_point, std::move(factors), contraction, {}}};
}

void FinishBiased(Rule& rule, const OpContext& context) {
  rule.keep.crossed = {0, 1};
  rule.work[0].gradients = {{0}, {1}};
  if (context.operands.size() == 2) {
    rule.linear = {{0}, {1}};
  } else {
    rule.work.push_back({1, FactorsOf(rule.results[0]), false, {{2}}});
  }
}

}  // namespace heddle
