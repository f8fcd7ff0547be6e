// Powers of a matrix in (min, +): the cheapest way from a state through k equal blocks to another.
//
//   (A B)[i][j] = min over m of A[i][m] + B[m][j]
//
// M^k takes about 2 log2 k products, of n^3 each. Every product remembers the best m, so that the states between the
// blocks of any way can be read back: equal blocks need not be treated alike.
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

  // The states after blocks 1 .. k-1 on a cheapest way from `from` to `to`; of equal ways the same in every run.
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
