#include "search/problem.h"

#include <map>

#include "base/check.h"

namespace heddle {
namespace {

Table Rows(const Table& table, size_t rows, size_t columns, int row, int column) {
  Table kept;
  for (size_t r = 0; r < rows; ++r) {
    if (row >= 0 && r != static_cast<size_t>(row)) continue;
    for (size_t c = 0; c < columns; ++c) {
      if (column < 0 || c == static_cast<size_t>(column)) kept.push_back(table[r * columns + c]);
    }
  }
  return kept;
}

}  // namespace

Cost Evaluate(const Problem& problem, const std::vector<int>& choice) {
  HEDDLE_CHECK(choice.size() == problem.unary.size(), "{} choices", choice.size());
  Cost cost;
  for (size_t v = 0; v < choice.size(); ++v) {
    cost.seconds += problem.unary[v]->seconds[static_cast<size_t>(choice[v])];
    cost.bytes += problem.unary[v]->bytes[static_cast<size_t>(choice[v])];
  }
  for (const PairCost& pair : problem.pairs) {
    size_t row = static_cast<size_t>(choice[static_cast<size_t>(pair.a)]);
    size_t column = static_cast<size_t>(choice[static_cast<size_t>(pair.b)]);
    cost.seconds += (*pair.table)[row * problem.domain(pair.b) + column];
  }
  return cost;
}

Problem Restrict(const Problem& problem, const std::vector<int>& fixed) {
  Problem restricted = problem;
  for (size_t v = 0; v < fixed.size(); ++v) {
    if (fixed[v] < 0) continue;
    size_t x = static_cast<size_t>(fixed[v]);
    const Unary& all = *problem.unary[v];
    restricted.unary[v] = std::make_shared<Unary>(Unary{{all.seconds[x]}, {all.bytes[x]}});
  }
  // What was one object stays one.
  std::map<std::tuple<const Table*, int, int>, TableRef> made;
  for (PairCost& pair : restricted.pairs) {
    int row = fixed[static_cast<size_t>(pair.a)], column = fixed[static_cast<size_t>(pair.b)];
    if (row < 0 && column < 0) continue;
    TableRef& table = made[{pair.table.get(), row, column}];
    if (!table) {
      table = std::make_shared<Table>(
          Rows(*pair.table, problem.domain(pair.a), problem.domain(pair.b), row, column));
    }
    pair.table = table;
  }
  return restricted;
}

}  // namespace heddle
