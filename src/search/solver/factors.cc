#include "search/solver/factors.h"

#include <algorithm>
#include <set>
#include <span>

#include "base/check.h"

namespace heddle {
namespace {

using Scope = SmallVector<int, 4>;

std::span<const int> Span(const Scope& scope) { return {scope.data(), scope.size()}; }

void Remove(SmallVector<int, 4>& from, int item) {
  int* at = std::find(from.begin(), from.end(), item);
  from.erase(at, at + 1);
}

// The strides in a row-major table over `scope` for each variable of `over`; 0 for those that the
// table lacks.
SmallVector<size_t, 4> StridesOf(const std::vector<size_t>& domains, const Scope& scope,
                                 std::span<const int> over) {
  SmallVector<size_t, 4> strides;
  for (size_t i = 0; i < over.size(); ++i) strides.push_back(0);
  size_t stride = 1;
  for (size_t i = scope.size(); i-- > 0;) {
    auto at = std::find(over.begin(), over.end(), scope[i]);
    if (at != over.end()) strides[static_cast<size_t>(at - over.begin())] = stride;
    stride *= domains[static_cast<size_t>(scope[i])];
  }
  return strides;
}

size_t SizeOf(const std::vector<size_t>& domains, std::span<const int> scope) {
  size_t size = 1;
  for (int v : scope) size *= domains[static_cast<size_t>(v)];
  return size;
}

// Calls visit(offsets) for every assignment of `over` in row-major order; offsets[f] is the
// assignment's offset in table f.
template <class Visit>
void ForEach(const std::vector<size_t>& domains, std::span<const int> over,
             std::span<const SmallVector<size_t, 4>> strides, const Visit& visit) {
  SmallVector<size_t, 8> at, offsets;
  for (size_t i = 0; i < over.size(); ++i) at.push_back(0);
  for (size_t f = 0; f < strides.size(); ++f) offsets.push_back(0);
  while (true) {
    visit(offsets);
    size_t d = over.size();
    while (d-- > 0) {
      size_t domain = domains[static_cast<size_t>(over[d])];
      bool carry = ++at[d] == domain;
      for (size_t f = 0; f < strides.size(); ++f) {
        if (carry) {
          offsets[f] -= strides[f][d] * (domain - 1);
        } else {
          offsets[f] += strides[f][d];
        }
      }
      if (!carry) break;
      at[d] = 0;
    }
    if (d == static_cast<size_t>(-1)) return;
  }
}

void AddTo(double* sum, const double* row, size_t width) {
  for (size_t y = 0; y < width; ++y) sum[y] += row[y];
}

void KeepLeast(double* least, const double* row, size_t width) {
  for (size_t y = 0; y < width; ++y) least[y] = row[y] < least[y] ? row[y] : least[y];
}

// The table with its scope in another order.
Table Reordered(const std::vector<size_t>& domains, const FactorTable& factor,
                std::span<const int> order) {
  Table table;
  table.reserve(factor.values->size());
  SmallVector<size_t, 4> strides = StridesOf(domains, factor.scope, order);
  ForEach(domains, order, {&strides, 1},
          [&](const auto& at) { table.push_back((*factor.values)[at[0]]); });
  return table;
}

}  // namespace

void Elimination::Add(Scope scope, TableRef values) {
  HEDDLE_CHECK(values->size() == SizeOf(domains_, Span(scope)), "{} entries", values->size());
  FactorTable factor{scope, std::move(values)};
  if (!std::is_sorted(scope.begin(), scope.end())) {
    std::sort(scope.begin(), scope.end());
    factor.values = std::make_shared<Table>(Reordered(domains_, factor, Span(scope)));
    factor.scope = scope;
  }
  touched_.resize(domains_.size());
  for (int v : scope) touched_[static_cast<size_t>(v)].push_back(static_cast<int>(factors_.size()));
  factors_.push_back(std::move(factor));
}

Elimination::Scope Elimination::Neighbours(int variable) const {
  Scope all;
  for (int f : touched_[static_cast<size_t>(variable)]) {
    for (int v : factors_[static_cast<size_t>(f)].scope) {
      bool known = v == variable || std::find(all.begin(), all.end(), v) != all.end();
      if (!known) all.push_back(v);
    }
  }
  std::sort(all.begin(), all.end());
  return all;
}

int64_t Elimination::TableSize(int variable) const {
  int64_t size = 1;
  for (int v : Neighbours(variable)) {
    size *= static_cast<int64_t>(domains_[static_cast<size_t>(v)]);
    if (size > kMaxTableEntries) return kMaxTableEntries + 1;
  }
  return size;
}

bool Elimination::Run(const std::vector<bool>& eliminated) {
  touched_.resize(domains_.size());
  std::vector<int64_t> sizes(domains_.size(), 0);
  std::set<std::pair<int64_t, int>> queue;
  for (size_t v = 0; v < domains_.size(); ++v) {
    if (!eliminated[v]) continue;
    sizes[v] = TableSize(static_cast<int>(v));
    queue.insert({sizes[v], static_cast<int>(v)});
  }
  while (!queue.empty()) {
    auto [size, variable] = *queue.begin();
    queue.erase(queue.begin());
    if (size > kMaxTableEntries) return false;
    Scope around = Neighbours(variable);
    Eliminate(variable);
    for (int v : around) {
      size_t i = static_cast<size_t>(v);
      if (!eliminated[i]) continue;
      queue.erase({sizes[i], v});
      sizes[i] = TableSize(v);
      queue.insert({sizes[i], v});
    }
  }
  return true;
}

// Removes the tables that contain the variable from the factors. The eliminated variable is
// innermost, then the last one of the scope.
Elimination::Step Elimination::Take(int variable) {
  Step step;
  step.variable = variable;
  step.scope = Neighbours(variable);
  int last = step.scope.empty() ? -1 : step.scope.back();
  SmallVector<int, 4> gone = touched_[static_cast<size_t>(variable)];
  for (int f : gone) {
    FactorTable& factor = factors_[static_cast<size_t>(f)];
    Scope order = factor.scope;
    Remove(order, variable);
    bool has_last = !order.empty() && order.back() == last;
    order.insert(has_last ? order.end() - 1 : order.end(), variable);
    Operand operand;
    operand.values = order == factor.scope
                         ? factor.values
                         : std::make_shared<Table>(Reordered(domains_, factor, Span(order)));
    operand.strides = StridesOf(domains_, order, Span(step.scope));
    operand.own = has_last ? domains_[static_cast<size_t>(last)] : 1;
    for (int v : factor.scope) {
      Remove(touched_[static_cast<size_t>(v)], f);
    }
    factor.values = nullptr;
    step.operands.push_back(std::move(operand));
    // Both groups keep their order.
    if (!has_last) {
      auto at = step.operands.begin() + static_cast<std::ptrdiff_t>(step.without_last++);
      std::rotate(at, step.operands.end() - 1, step.operands.end());
    }
  }
  return step;
}

// Goes row by row of the scope's last variable. Tables without it are added up once per row.
TableRef Elimination::Minimise(const Step& step) const {
  size_t domain = domains_[static_cast<size_t>(step.variable)];
  size_t width = step.scope.empty() ? 1 : domains_[static_cast<size_t>(step.scope.back())];
  std::span<const int> prefix = Span(step.scope);
  if (!prefix.empty()) prefix = prefix.first(prefix.size() - 1);
  std::vector<Strides> strides;
  strides.reserve(step.operands.size());
  for (const Operand& operand : step.operands) strides.push_back(operand.strides);
  auto made = std::make_shared<Table>(SizeOf(domains_, Span(step.scope)), kForbidden);
  double* row = made->data();
  std::vector<double> sum(width);
  ForEach(domains_, prefix, strides, [&](const auto& at) {
    for (size_t x = 0; x < domain; ++x) {
      double base = 0;
      for (size_t f = 0; f < step.without_last; ++f) {
        base += (*step.operands[f].values)[at[f] + x];
      }
      if (base == kForbidden) continue;
      std::fill(sum.begin(), sum.end(), base);
      for (size_t f = step.without_last; f < step.operands.size(); ++f) {
        AddTo(sum.data(), step.operands[f].values->data() + at[f] + x * width, width);
      }
      KeepLeast(row, sum.data(), width);
    }
    row += width;
  });
  return made;
}

void Elimination::Eliminate(int variable) {
  Step step = Take(variable);
  FactorTable factor{step.scope, Minimise(step)};
  for (int v : step.scope) {
    touched_[static_cast<size_t>(v)].push_back(static_cast<int>(factors_.size()));
  }
  factors_.push_back(std::move(factor));
  steps_.push_back(std::move(step));
}

Table Elimination::Rest(const std::vector<int>& scope) const {
  std::vector<const Table*> tables;
  std::vector<Strides> strides;
  for (const FactorTable& factor : factors_) {
    if (!factor.values) continue;
    for (int v : factor.scope) {
      HEDDLE_CHECK(std::find(scope.begin(), scope.end(), v) != scope.end(), "variable {}", v);
    }
    tables.push_back(factor.values.get());
    strides.push_back(StridesOf(domains_, factor.scope, scope));
  }
  Table rest;
  rest.reserve(SizeOf(domains_, scope));
  ForEach(domains_, scope, strides, [&](const auto& at) {
    double sum = 0;
    for (size_t f = 0; f < tables.size(); ++f) sum += (*tables[f])[at[f]];
    rest.push_back(sum);
  });
  return rest;
}

void Elimination::Recover(std::vector<int>& choice) const {
  for (size_t s = steps_.size(); s-- > 0;) {
    const Step& step = steps_[s];
    std::vector<double> sums(domains_[static_cast<size_t>(step.variable)], 0);
    for (const Operand& operand : step.operands) {
      size_t at = 0;
      for (size_t i = 0; i < step.scope.size(); ++i) {
        at += operand.strides[i] * static_cast<size_t>(choice[static_cast<size_t>(step.scope[i])]);
      }
      for (size_t x = 0; x < sums.size(); ++x) sums[x] += (*operand.values)[at + x * operand.own];
    }
    auto least = std::min_element(sums.begin(), sums.end());
    choice[static_cast<size_t>(step.variable)] = static_cast<int>(least - sums.begin());
  }
}

}  // namespace heddle
