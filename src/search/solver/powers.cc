#include "search/solver/powers.h"

#include "base/check.h"

namespace heddle {

MinPlusPower::MinPlusPower(Table matrix, size_t n, int64_t k) : n_(n) {
  HEDDLE_CHECK(matrix.size() == n * n && k >= 1, "{} entries, power {}", matrix.size(), k);
  products_.push_back({1, -1, -1, std::move(matrix), {}});
  int square = 0, result = -1;
  for (; k > 0; k >>= 1) {
    if ((k & 1) != 0) result = result < 0 ? square : Multiply(result, square);
    if (k > 1) square = Multiply(square, square);
  }
  last_ = static_cast<size_t>(result);
}

int MinPlusPower::Multiply(int left, int right) {
  const Product &a = products_[static_cast<size_t>(left)],
                &b = products_[static_cast<size_t>(right)];
  Product product;
  product.length = a.length + b.length;
  product.left = left;
  product.right = right;
  product.values.assign(n_ * n_, kForbidden);
  product.best.assign(n_ * n_, 0);
  for (size_t i = 0; i < n_; ++i) {
    double* row = product.values.data() + i * n_;
    int32_t* best = product.best.data() + i * n_;
    for (size_t m = 0; m < n_; ++m) {
      double first = a.values[i * n_ + m];
      if (first == kForbidden) continue;
      const double* second = b.values.data() + m * n_;
      for (size_t j = 0; j < n_; ++j) {
        double sum = first + second[j];
        best[j] = sum < row[j] ? static_cast<int32_t>(m) : best[j];
        row[j] = sum < row[j] ? sum : row[j];
      }
    }
  }
  products_.push_back(std::move(product));
  return static_cast<int>(products_.size()) - 1;
}

std::vector<int> MinPlusPower::Between(int from, int to) const {
  std::vector<int> states;
  Collect(static_cast<int>(last_), from, to, states);
  return states;
}

void MinPlusPower::Collect(int index, int from, int to, std::vector<int>& states) const {
  const Product& product = products_[static_cast<size_t>(index)];
  if (product.length == 1) return;
  int middle = product.best[static_cast<size_t>(from) * n_ + static_cast<size_t>(to)];
  Collect(product.left, from, middle, states);
  states.push_back(middle);
  Collect(product.right, middle, to, states);
}

}  // namespace heddle
