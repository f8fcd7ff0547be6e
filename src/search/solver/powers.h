// Powers of a matrix in (min, +): the cheapest path from a state through k equal blocks to another
// state.
//
//   (A B)[i][j] = min over m of A[i][m] + B[m][j]
//
// M^k takes about 2 log2 k products of n^3 operations each. Every product stores the best m, so
// that the states between the blocks can be recovered for any path: equal blocks may get different
// choices.
#pragma once

#include <cstdint>
#include <vector>

#include "search/solver/problem.h"

namespace heddle {

class MinPlusPower {
 public:
  // `matrix` is n x n; k >= 1.
  MinPlusPower(Table matrix, size_t n, int64_t k);

  const Table& power() const { return products_[last_].values; }

  // The states after the blocks 1 .. k-1 on a cheapest path from `from` to `to`. Ties are broken
  // deterministically.
  std::vector<int> Between(int from, int to) const;

 private:
  struct Product {
    int64_t length = 1;  // in blocks
    int left = -1, right = -1;
    Table values;
    std::vector<int32_t> best;
  };
  int Multiply(int left, int right);
  void Collect(int product, int from, int to, std::vector<int>& states) const;

  size_t n_;
  std::vector<Product> products_;
  size_t last_ = 0;
};

}  // namespace heddle
