#include "search/solver/ilp.h"

#include <algorithm>
#include <limits>
#include <map>

#include "base/check.h"
#include "base/error.h"
#include "search/solver/cbc.h"

namespace heddle {
namespace {

// CBC's tolerances are absolute, about 1e-6, so costs are scaled to make the least possible total
// this large.
constexpr double kScaledObjective = 1e5;
constexpr double kScaledMemory = 1e3;

// Subtracts the least entry of the table from all and returns it; kForbidden where all are
// forbidden.
double TakeLeast(Table& table) {
  double least = *std::min_element(table.begin(), table.end());
  if (least == kForbidden) return kForbidden;
  for (double& entry : table) entry -= least;
  return least;
}

bool IsZero(const Table& table) {
  return std::all_of(table.begin(), table.end(), [](double entry) { return entry == 0; });
}

// Costs from which the least entry of every table is subtracted, with tables of equal pairs of
// variables added up.
struct Reduced {
  std::vector<Table> unary;
  std::map<std::pair<int, int>, Table> pairs;  // (a, b) with a < b
  double least = 0;  // sum of the subtracted entries; kForbidden where a table allows nothing
};

Reduced Reduce(const Problem& problem, const Weights& weights) {
  Reduced reduced;
  for (const UnaryRef& unary : problem.unary) {
    reduced.unary.push_back(*Weighted(*unary, weights));
    reduced.least += TakeLeast(reduced.unary.back());
  }
  for (const PairCost& pair : problem.pairs) {
    TableRef costs = Weighted(pair, weights);
    size_t rows = problem.domain(pair.a), columns = problem.domain(pair.b);
    bool in_order = pair.a < pair.b;
    Table& sum = reduced.pairs[std::minmax(pair.a, pair.b)];
    sum.resize(rows * columns, 0);
    for (size_t x = 0; x < rows; ++x) {
      for (size_t y = 0; y < columns; ++y) {
        sum[in_order ? x * columns + y : y * rows + x] += (*costs)[x * columns + y];
      }
    }
  }
  for (auto& [variables, table] : reduced.pairs) reduced.least += TakeLeast(table);
  std::erase_if(reduced.pairs, [](const auto& pair) { return IsZero(pair.second); });
  return reduced;
}

// The unit that costs are divided by.
double Unit(const Reduced& reduced) {
  if (reduced.least > 0) return reduced.least / kScaledObjective;
  double largest = 0;
  auto look = [&](const Table& table) {
    for (double entry : table) {
      if (entry != kForbidden) largest = std::max(largest, entry);
    }
  };
  for (const Table& table : reduced.unary) look(table);
  for (const auto& [variables, table] : reduced.pairs) look(table);
  return largest > 0 ? largest / kScaledObjective : 1;
}

// An integer program whose first columns are choices.
struct ChoiceProgram : IntegerProgram {
  std::vector<std::vector<int>> choices;  // per choice its column; -1: forbidden
};

// The rows that tie sums of e_ab's entries to choices.
struct PairRows {
  std::vector<int> of_a, of_b;  // by choice
};

ChoiceProgram Formulate(const Problem& problem, const Reduced& reduced, const IlpOptions& options) {
  ChoiceProgram program;
  double unit = Unit(reduced);
  std::vector<PairRows> pair_rows;
  std::vector<std::vector<const std::vector<int>*>> rows_with(problem.unary.size());
  pair_rows.reserve(reduced.pairs.size());
  for (const auto& [variables, table] : reduced.pairs) {
    auto [a, b] = variables;
    PairRows& rows = pair_rows.emplace_back();
    for (size_t x = 0; x < problem.domain(a); ++x) rows.of_a.push_back(program.AddRow(0, 0));
    for (size_t y = 0; y < problem.domain(b); ++y) rows.of_b.push_back(program.AddRow(0, 0));
    rows_with[static_cast<size_t>(a)].push_back(&rows.of_a);
    rows_with[static_cast<size_t>(b)].push_back(&rows.of_b);
  }
  int memory = options.memory_limit
                   ? program.AddRow(std::numeric_limits<double>::lowest(), kScaledMemory)
                   : -1;
  for (size_t v = 0; v < problem.unary.size(); ++v) {
    int one = program.AddRow(1, 1);
    std::vector<int>& columns = program.choices.emplace_back();
    for (size_t x = 0; x < reduced.unary[v].size(); ++x) {
      columns.push_back(-1);
      if (reduced.unary[v][x] == kForbidden) continue;
      program.Put(one, 1);
      for (const std::vector<int>* rows : rows_with[v]) program.Put((*rows)[x], -1);
      double bytes = problem.unary[v]->bytes[x];
      if (memory >= 0 && bytes != 0) {
        program.Put(memory, kScaledMemory * bytes / *options.memory_limit);
      }
      columns.back() = program.EndColumn(reduced.unary[v][x] / unit);
    }
  }
  program.binaries = static_cast<int>(program.costs.size());
  size_t p = 0;
  for (const auto& [variables, table] : reduced.pairs) {
    const std::vector<int>&of_a = program.choices[static_cast<size_t>(variables.first)],
          &of_b = program.choices[static_cast<size_t>(variables.second)];
    for (size_t i = 0; i < table.size(); ++i) {
      size_t x = i / of_b.size(), y = i % of_b.size();
      if (table[i] == kForbidden || of_a[x] < 0 || of_b[y] < 0) continue;
      program.Put(pair_rows[p].of_a[x], 1);
      program.Put(pair_rows[p].of_b[y], 1);
      program.EndColumn(table[i] / unit);
    }
    ++p;
  }
  return program;
}

std::vector<int> Choices(const ChoiceProgram& program, const std::vector<double>& values) {
  std::vector<int> choice;
  for (const std::vector<int>& columns : program.choices) {
    int best = -1;
    double most = -1;
    for (size_t x = 0; x < columns.size(); ++x) {
      if (columns[x] < 0 || values[static_cast<size_t>(columns[x])] <= most) continue;
      most = values[static_cast<size_t>(columns[x])];
      best = static_cast<int>(x);
    }
    choice.push_back(best);
  }
  return choice;
}

IlpResult Nothing() { return {std::nullopt, true, kForbidden}; }

// The bound is in units of the program; the objective is not filled in.
IlpResult Solve(const ChoiceProgram& program, double seconds) {
  CbcResult found = SolveCbc(program, seconds);
  if (found.infeasible) return Nothing();
  IlpResult result;
  if (found.values.empty()) return result;
  result.solution = Solution{0, {}, Choices(program, found.values)};
  result.proven = found.proven;
  result.bound = std::max(0.0, found.bound);
  return result;
}

}  // namespace

bool HasIlp() { return HasCbc(); }

IlpResult SolveIlp(const Problem& problem, const IlpOptions& options) {
  RequireCbc();
  if (options.memory_limit && *options.memory_limit <= 0) {
    ThrowInput("a limit of {} bytes of memory", *options.memory_limit);
  }
  for (const VariableChain& chain : problem.chains) {
    HEDDLE_CHECK(chain.left_out == 0, "copies that are left out have no variables");
  }
  if (problem.unary.empty()) return {Solution{}, true, 0};
  Reduced reduced = Reduce(problem, options.weights);
  if (reduced.least == kForbidden) return Nothing();
  ChoiceProgram program = Formulate(problem, reduced, options);
  IlpResult result = Solve(program, options.seconds);
  if (result.bound < kForbidden) result.bound = reduced.least + result.bound * Unit(reduced);
  if (result.solution) {
    Solution& found = *result.solution;
    found.cost = Evaluate(problem, found.choice);
    found.objective = found.cost.Weighted(options.weights);
    HEDDLE_CHECK(found.objective < kForbidden, "CBC chose what is forbidden");
    result.bound = std::min(result.bound, found.objective);
  }
  result.columns = static_cast<int64_t>(program.costs.size());
  result.rows = static_cast<int64_t>(program.row_lower.size());
  return result;
}

}  // namespace heddle
