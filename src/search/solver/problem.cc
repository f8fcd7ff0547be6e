#include "search/solver/problem.h"

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

// 0 x infinity counts as 0.
double Times(double weight, double cost) { return weight == 0 ? 0 : weight * cost; }

}  // namespace

Cost& Cost::operator+=(const Cost& other) {
  seconds += other.seconds;
  queued += other.queued;
  bytes += other.bytes;
  return *this;
}

double Cost::Weighted(const Weights& weights) const {
  if (seconds == kForbidden) return kForbidden;
  return weights.seconds * seconds + Times(weights.queued, queued) + weights.bytes * bytes;
}

void Unary::Resize(size_t size) {
  seconds.resize(size, 0);
  queued.resize(size, 0);
  bytes.resize(size, 0);
}

void Unary::Push(const Cost& cost) {
  Resize(size() + 1);
  Add(size() - 1, cost);
}

void Unary::Add(size_t x, const Cost& cost) {
  seconds[x] += cost.seconds;
  queued[x] += cost.queued;
  bytes[x] += cost.bytes;
}

TableRef Weighted(const Unary& unary, const Weights& weights) {
  auto table = std::make_shared<Table>();
  table->reserve(unary.size());
  for (size_t x = 0; x < unary.size(); ++x) table->push_back(unary.At(x).Weighted(weights));
  return table;
}

TableRef Weighted(const PairCost& pair, const Weights& weights) {
  bool queued = pair.queued && weights.queued != 0;
  if (!queued && weights.seconds == 1) return pair.seconds;
  auto table = std::make_shared<Table>();
  table->reserve(pair.seconds->size());
  for (size_t i = 0; i < pair.seconds->size(); ++i) {
    table->push_back(Cost{(*pair.seconds)[i], queued ? (*pair.queued)[i] : 0}.Weighted(weights));
  }
  return table;
}

Cost Evaluate(const Problem& problem, const std::vector<int>& choice) {
  HEDDLE_CHECK(choice.size() == problem.unary.size(), "{} choices", choice.size());
  Cost cost;
  for (size_t v = 0; v < choice.size(); ++v) {
    cost += problem.unary[v]->At(static_cast<size_t>(choice[v]));
  }
  for (const PairCost& pair : problem.pairs) {
    size_t row = static_cast<size_t>(choice[static_cast<size_t>(pair.a)]);
    size_t column = static_cast<size_t>(choice[static_cast<size_t>(pair.b)]);
    size_t entry = row * problem.domain(pair.b) + column;
    cost.seconds += (*pair.seconds)[entry];
    if (pair.queued) cost.queued += (*pair.queued)[entry];
  }
  return cost;
}

PairEntries::PairEntries(const Problem& problem, const Solution& solution)
    : problem_(problem), solution_(solution) {
  for (size_t c = 0; c < solution.left_out.size(); ++c) {
    const VariableChain& chain = problem.chains[c];
    if (solution.left_out[c].empty() || chain.repeated + 1 >= chain.copies.size()) continue;
    const std::vector<int>& followed = chain.copies[chain.repeated];
    for (size_t i = 0; i < followed.size(); ++i) {
      last_[followed[i]] = {c, solution.left_out[c].back()[i]};
    }
    for (int v : chain.copies[chain.repeated + 1]) next_[v] = c;
  }
}

size_t PairEntries::Of(const PairCost& pair) const {
  auto chosen = [&](int variable, int other) {
    auto last = last_.find(variable);
    auto next = next_.find(other);
    bool between = last != last_.end() && next != next_.end() && last->second.chain == next->second;
    return static_cast<size_t>(between ? last->second.choice
                                       : solution_.choice[static_cast<size_t>(variable)]);
  };
  return chosen(pair.a, pair.b) * problem_.domain(pair.b) + chosen(pair.b, pair.a);
}

Cost EvaluateExplicit(const Problem& problem, const Solution& solution) {
  Cost cost;
  for (size_t v = 0; v < problem.unary.size(); ++v) {
    cost += problem.unary[v]->At(static_cast<size_t>(solution.choice[v]));
  }
  PairEntries entries(problem, solution);
  for (const PairCost& pair : problem.pairs) {
    size_t entry = entries.Of(pair);
    cost.seconds += (*pair.seconds)[entry];
    if (pair.queued) cost.queued += (*pair.queued)[entry];
  }
  return cost;
}

Problem Restrict(const Problem& problem, const std::vector<int>& fixed) {
  Problem restricted = problem;
  for (size_t v = 0; v < fixed.size(); ++v) {
    if (fixed[v] < 0) continue;
    size_t x = static_cast<size_t>(fixed[v]);
    auto one = std::make_shared<Unary>();
    one->Push(problem.unary[v]->At(x));
    restricted.unary[v] = std::move(one);
  }
  // Shared objects stay shared.
  std::map<std::tuple<const Table*, int, int>, TableRef> made;
  for (PairCost& pair : restricted.pairs) {
    int row = fixed[static_cast<size_t>(pair.a)], column = fixed[static_cast<size_t>(pair.b)];
    if (row < 0 && column < 0) continue;
    for (TableRef* table : {&pair.seconds, &pair.queued}) {
      if (!*table) continue;
      TableRef& rows = made[{table->get(), row, column}];
      if (!rows) {
        rows = std::make_shared<Table>(
            Rows(**table, problem.domain(pair.a), problem.domain(pair.b), row, column));
      }
      *table = rows;
    }
  }
  return restricted;
}

}  // namespace heddle
