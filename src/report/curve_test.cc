#include "report/curve.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>
#include <vector>

namespace heddle {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::string Curve(std::vector<double> losses, int width, int height) {
  return LossCurve(losses, width, height);
}

TEST(LossCurve, Falls) {
  std::vector<double> losses;
  for (int i = 0; i < 100; ++i) losses.push_back(3 + 2 * std::exp(-i / 25.0));
  EXPECT_EQ(Curve(losses, 41, 10), R"(      4.92 |*
           | *
           |  **
           |    *
      3.85 |     ***
           |        ***
           |           *******
      3.04 |                  ***********
           +-----------------------------
            0                          99
)");
}

TEST(LossCurve, FewLossesAreJoined) {
  EXPECT_EQ(Curve({3, 1, 2}, 21, 7), R"(         3 |*
           | *
         2 |  *     *
           |   *  **
         1 |    **
           +---------
            0       2
)");
}

TEST(LossCurve, FlatAndSingle) {
  EXPECT_EQ(Curve({2, 2}, 21, 5), R"(         2 |
         2 |*********
         2 |
           +---------
            0       1
)");
  EXPECT_EQ(Curve({2}, 21, 0), R"(         2 |
         2 |*********
         2 |
           +---------
            0
)");
}

TEST(LossCurve, NotFinite) {
  EXPECT_EQ(Curve({3, 2, 1, kNan, kInf, -kInf, 1, 1, 2}, 21, 5), R"(         3 |*  !!!
         2 | *      *
         1 |  *   **
           +---------
            0       8
)");
  EXPECT_EQ(Curve({kNan, kNan}, 21, 5), R"(         - |!!!!!!!!!
         - |
         - |
           +---------
            0       1
)");
}

TEST(LossCurve, ExtremesStayInside) {
  double most = std::numeric_limits<double>::max();
  EXPECT_EQ(Curve({most, -most, most, -most, 0, 5e-324, -1, 1, most}, 21, 5),
            R"(  1.8e+308 |* *     *
         0 |    ****
 -1.8e+308 | * *
           +---------
            0       8
)");
}

TEST(LossCurve, NothingForNothing) { EXPECT_EQ(Curve({}, 80, 20), ""); }

TEST(LossCurve, FitsItsSize) {
  std::vector<double> losses(1000);
  for (size_t i = 0; i < losses.size(); ++i) losses[i] = std::sin(static_cast<double>(i));
  for (int width : {20, 37, 80, 200}) {
    for (int height : {5, 12, 40}) {
      std::istringstream lines(LossCurve(losses, width, height));
      std::string line;
      int count = 0;
      for (; std::getline(lines, line); ++count) EXPECT_LE(static_cast<int>(line.size()), width);
      EXPECT_EQ(count, height);
    }
  }
}

}  // namespace
}  // namespace heddle
