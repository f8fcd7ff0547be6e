// Random additive problems for tests of solvers. Costs lie in [0, 1.003); one pair in twelve is
// forbidden.
#pragma once

#include <random>
#include <utility>
#include <vector>

#include "search/solver/problem.h"

namespace heddle {

using Random = std::mt19937_64;

inline double Uniform(Random& rng) { return static_cast<double>(rng() % 1000) / 997.0; }
inline size_t Below(Random& rng, size_t bound) { return static_cast<size_t>(rng() % bound); }

inline UnaryRef RandomUnary(Random& rng, size_t domain) {
  Unary unary;
  for (size_t x = 0; x < domain; ++x) {
    double seconds = Uniform(rng), queued = Uniform(rng);
    unary.Push({seconds, queued, Uniform(rng)});
  }
  return std::make_shared<Unary>(std::move(unary));
}

inline TableRef RandomTable(Random& rng, size_t rows, size_t columns) {
  Table table;
  for (size_t i = 0; i < rows * columns; ++i) {
    table.push_back(Below(rng, 12) == 0 ? kForbidden : Uniform(rng));
  }
  return std::make_shared<Table>(std::move(table));
}

inline TableRef RandomFinite(Random& rng, size_t entries) {
  auto table = std::make_shared<Table>();
  for (size_t i = 0; i < entries; ++i) table->push_back(Uniform(rng));
  return table;
}

inline Problem RandomProblem(Random& rng, size_t variables) {
  Problem problem;
  for (size_t v = 0; v < variables; ++v) {
    problem.unary.push_back(RandomUnary(rng, 1 + Below(rng, 4)));
  }
  size_t pairs = Below(rng, 2 * variables);
  for (size_t p = 0; p < pairs && variables > 1; ++p) {
    int a = static_cast<int>(Below(rng, variables)), b = static_cast<int>(Below(rng, variables));
    if (a == b) continue;
    TableRef seconds = RandomTable(rng, problem.domain(a), problem.domain(b));
    TableRef queued = Below(rng, 2) == 0 ? nullptr : RandomFinite(rng, seconds->size());
    problem.pairs.push_back({a, b, seconds, queued});
  }
  return problem;
}

// Copies of a random block, each connected to the one before; sometimes also to variables outside,
// or through two ends.
inline Problem RandomChain(Random& rng, size_t copies) {
  Problem problem;
  size_t before = 1 + Below(rng, 2), inside = 1 + Below(rng, 3), ends = 1 + Below(rng, 2);
  for (size_t v = 0; v < before; ++v) problem.unary.push_back(RandomUnary(rng, 2));
  std::vector<UnaryRef> unary;
  for (size_t i = 0; i < inside + ends; ++i) unary.push_back(RandomUnary(rng, 1 + Below(rng, 3)));
  struct Tie {
    size_t a, b;
    TableRef table;
  };
  std::vector<Tie> inner, links;
  std::vector<std::pair<size_t, TableRef>> outer;
  for (size_t a = 0; a < unary.size(); ++a) {
    for (size_t b = a + 1; b < unary.size(); ++b) {
      if (Below(rng, 3) == 0) continue;
      inner.push_back({a, b, RandomTable(rng, unary[a]->seconds.size(), unary[b]->seconds.size())});
    }
    if (Below(rng, 4) == 0) outer.push_back({a, RandomTable(rng, 2, unary[a]->seconds.size())});
  }
  for (size_t e = inside; e < unary.size(); ++e) {
    size_t b = Below(rng, unary.size());
    links.push_back({e, b, RandomTable(rng, unary[e]->seconds.size(), unary[b]->seconds.size())});
  }
  VariableChain chain;
  auto at = [&](size_t copy, size_t index) { return chain.copies[copy][index]; };
  for (size_t c = 0; c < copies; ++c) {
    chain.copies.emplace_back();
    for (const UnaryRef& u : unary) {
      chain.copies.back().push_back(static_cast<int>(problem.unary.size()));
      problem.unary.push_back(u);
    }
    for (const Tie& tie : inner)
      problem.pairs.push_back({at(c, tie.a), at(c, tie.b), tie.table, {}});
    for (const auto& [a, table] : outer) problem.pairs.push_back({0, at(c, a), table, {}});
    for (const Tie& tie : links) {
      if (c > 0) problem.pairs.push_back({at(c - 1, tie.a), at(c, tie.b), tie.table, {}});
    }
  }
  // A first variable, and one that reads the last copy.
  int first = at(0, 0), last = at(copies - 1, unary.size() - 1);
  int outside = static_cast<int>(before) - 1;
  problem.pairs.push_back({outside, first, RandomTable(rng, 2, problem.domain(first)), {}});
  problem.pairs.push_back({last, 0, RandomTable(rng, problem.domain(last), 2), {}});
  problem.chains.push_back(std::move(chain));
  return problem;
}

}  // namespace heddle
