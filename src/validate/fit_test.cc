#include "validate/fit.h"

#include <gtest/gtest.h>

#include <cmath>

namespace heddle {
namespace {

Prediction Row(const std::string& source, const std::string& stack, double products, double far) {
  Prediction row;
  row.source = source;
  row.id = source;
  row.stack = stack;
  row.device = "a100-sxm-80gb";
  row.critical[Term::kProducts] = products;
  row.critical[Term::kFar] = far;
  row.predicted = products + far;
  return row;
}

// Rows whose measured times are slower by known factors of devices and links.
std::vector<Prediction> Rows(double products, double far) {
  std::vector<Prediction> rows;
  int n = 0;
  for (double share : {0.0, 0.1, 0.3, 0.5, 0.7}) {
    for (int i = 0; i < 4; ++i) {
      rows.push_back(Row("s" + std::to_string(n++), "unknown", 10 * (1 - share), 10 * share));
      Prediction& row = rows.back();
      row.measured = products * row.critical[Term::kProducts] + far * row.critical[Term::kFar];
    }
  }
  return rows;
}

TEST(FitTest, FindsTheFactorsRunsWereMadeWith) {
  std::vector<Prediction> rows = Rows(1.2, 0.8);
  FitFactors current = CurrentFactors(rows), fitted = Fit(rows);
  auto over = [&](const std::string& name) { return fitted.at(name) / current.at(name); };
  EXPECT_NEAR(over("a100 products") * over("unknown products"), 1.2, 0.02);
  EXPECT_NEAR(over("a100 far") * over("unknown links"), 0.8, 0.02);
  for (const Prediction& row : rows) {
    EXPECT_NEAR(Repredict(row, current, fitted) / *row.measured, 1, 0.02);
  }
}

TEST(FitTest, WhatIsLeftOutDoesNotCount) {
  std::vector<Prediction> rows = Rows(1, 1);
  FitFactors before = Fit(rows);
  rows.push_back(Row("odd", "unknown", 10, 0));
  rows.back().measured = 30;
  FitFactors with = Fit(rows), without = Fit(rows, "odd");
  EXPECT_GT(with.at("a100 products"), 1.01 * before.at("a100 products"));
  for (const auto& [name, factor] : before) EXPECT_NEAR(without.at(name), factor, 1e-9) << name;
}

TEST(FitTest, AStackOfWhichNothingIsKnownHasDefaults) {
  std::vector<Prediction> rows = Rows(1, 1);
  rows.push_back(Row("alone", "alpa", 10, 0));
  rows.back().measured = 20;
  FitFactors without = Fit(rows, "alone");
  EXPECT_EQ(without.count("alpa products"), 0u);
  double predicted = Repredict(rows.back(), CurrentFactors(rows), without);
  FitFactors usual = CurrentFactors(rows);
  EXPECT_NEAR(
      predicted,
      10 / usual.at("alpa products") * without.at("a100 products") / usual.at("a100 products"),
      1e-9);
}

}  // namespace
}  // namespace heddle
