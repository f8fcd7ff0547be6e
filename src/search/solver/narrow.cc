#include "search/solver/narrow.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace heddle {
namespace {

// The rows and columns that are kept; an empty list keeps all.
Table Submatrix(const Table& table, size_t rows, size_t columns, const std::vector<int>& row,
                const std::vector<int>& column) {
  size_t kept_rows = row.empty() ? rows : row.size();
  size_t kept_columns = column.empty() ? columns : column.size();
  Table kept;
  kept.reserve(kept_rows * kept_columns);
  for (size_t r = 0; r < kept_rows; ++r) {
    const double* from = table.data() + (row.empty() ? r : static_cast<size_t>(row[r])) * columns;
    for (size_t c = 0; c < kept_columns; ++c) {
      kept.push_back(from[column.empty() ? c : static_cast<size_t>(column[c])]);
    }
  }
  return kept;
}

}  // namespace

std::vector<int> Narrowed::ToOriginal(std::vector<int> choice) const {
  for (size_t v = 0; v < choice.size(); ++v) {
    if (!original[v].empty()) choice[v] = original[v][static_cast<size_t>(choice[v])];
  }
  return choice;
}

int Narrowed::FromOriginal(size_t variable, int choice) const {
  const std::vector<int>& kept = original[variable];
  if (kept.empty()) return choice;
  auto at = std::lower_bound(kept.begin(), kept.end(), choice);
  return at != kept.end() && *at == choice ? static_cast<int>(at - kept.begin()) : -1;
}

Narrowed Narrow(const Problem& problem, const std::vector<Allowed>& allowed) {
  Narrowed out;
  out.problem = problem;
  out.original.resize(problem.unary.size());
  for (const Allowed& some : allowed) {
    size_t v = static_cast<size_t>(some.variable);
    out.original[v] = some.choices;
    auto unary = std::make_shared<Unary>();
    for (int x : some.choices) unary->Push(problem.unary[v]->At(static_cast<size_t>(x)));
    out.problem.unary[v] = std::move(unary);
  }
  if (allowed.empty()) return out;
  // Shared objects stay shared.
  std::map<std::tuple<const Table*, std::vector<int>, std::vector<int>>, TableRef> made;
  for (PairCost& pair : out.problem.pairs) {
    const std::vector<int>&rows = out.original[static_cast<size_t>(pair.a)],
          &columns = out.original[static_cast<size_t>(pair.b)];
    if (rows.empty() && columns.empty()) continue;
    for (TableRef* table : {&pair.seconds, &pair.queued}) {
      if (!*table) continue;
      TableRef& kept = made[{table->get(), rows, columns}];
      if (!kept) {
        kept = std::make_shared<Table>(
            Submatrix(**table, problem.domain(pair.a), problem.domain(pair.b), rows, columns));
      }
      *table = kept;
    }
  }
  return out;
}

Freed Free(const Problem& problem, const std::vector<int>& variables,
           const std::vector<int>& choice) {
  Freed out;
  out.variables = variables;
  std::vector<int> number(problem.unary.size(), -1);
  std::vector<Unary> unary;
  for (size_t i = 0; i < variables.size(); ++i) {
    size_t v = static_cast<size_t>(variables[i]);
    number[v] = static_cast<int>(i);
    unary.push_back(*problem.unary[v]);
  }
  for (const PairCost& pair : problem.pairs) {
    size_t a = static_cast<size_t>(pair.a), b = static_cast<size_t>(pair.b);
    if (number[a] < 0 && number[b] < 0) continue;
    if (number[a] >= 0 && number[b] >= 0) {
      out.problem.pairs.push_back({number[a], number[b], pair.seconds, pair.queued});
      continue;
    }
    bool a_is_free = number[a] >= 0;
    Unary& sum = unary[static_cast<size_t>(a_is_free ? number[a] : number[b])];
    size_t columns = problem.domain(pair.b);
    for (size_t x = 0; x < sum.size(); ++x) {
      size_t entry = a_is_free ? x * columns + static_cast<size_t>(choice[b])
                               : static_cast<size_t>(choice[a]) * columns + x;
      sum.Add(x, {(*pair.seconds)[entry], pair.queued ? (*pair.queued)[entry] : 0, 0});
    }
  }
  for (Unary& u : unary) out.problem.unary.push_back(std::make_shared<Unary>(std::move(u)));
  return out;
}

}  // namespace heddle
