#include "report/curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "report/picture.h"

namespace heddle {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// The mean of the finite values in losses[begin, end); kNone if there are none.
double MeanOf(std::span<const double> losses, size_t begin, size_t end) {
  double mean = 0, count = 0;
  for (size_t i = begin; i < end; ++i) {
    if (!std::isfinite(losses[i])) continue;
    ++count;
    mean += losses[i] / count - mean / count;  // a plain sum could overflow
  }
  return count > 0 ? mean : kNone;
}

// One value per column.
std::vector<double> Columns(std::span<const double> losses, size_t columns) {
  std::vector<double> values;
  size_t n = losses.size();
  for (size_t c = 0; c < columns; ++c) {
    if (n >= columns) {
      values.push_back(MeanOf(losses, c * n / columns, (c + 1) * n / columns));
      continue;
    }
    double x =
        columns == 1 ? 0 : static_cast<double>(c * (n - 1)) / static_cast<double>(columns - 1);
    auto i = std::min(static_cast<size_t>(x), n - 1);
    double t = x - static_cast<double>(i);
    double next = i + 1 < n && t > 0 ? losses[i + 1] : losses[i];
    double value = losses[i] * (1 - t) + next * t;
    values.push_back(std::isfinite(value) ? value : kNone);
  }
  return values;
}

struct Scale {
  double low = 0, high = 0;
  size_t rows = 1;

  // Row 0 is the top.
  size_t RowOf(double value) const {
    // Halves, because high - low may overflow.
    double part = high > low ? (high / 2 - value / 2) / (high / 2 - low / 2) : 0.5;
    auto last = static_cast<double>(rows - 1);
    return static_cast<size_t>(std::clamp(std::round(part * last), 0.0, last));
  }
  double ValueOf(size_t row) const {
    double part = rows == 1 ? 0.5 : static_cast<double>(row) / static_cast<double>(rows - 1);
    return high * (1 - part) + low * part;
  }
};

Scale ScaleOf(std::span<const double> values, size_t rows) {
  Scale scale{kNone, kNone, rows};
  for (double value : values) {
    if (std::isnan(value)) continue;
    scale.low = std::isnan(scale.low) ? value : std::min(scale.low, value);
    scale.high = std::isnan(scale.high) ? value : std::max(scale.high, value);
  }
  return scale;
}

std::string Label(double value) { return std::isnan(value) ? "-" : fmt::format("{:.3g}", value); }

}  // namespace

std::string LossCurve(std::span<const double> losses, int width, int height) {
  if (losses.empty()) return "";
  constexpr size_t kLabel = 10;  // -1.23e+308
  size_t columns = static_cast<size_t>(std::max(width, 20)) - kLabel - 2;
  size_t rows = static_cast<size_t>(std::max(height, 5)) - 2;
  std::vector<double> values = Columns(losses, columns);
  Scale scale = ScaleOf(values, rows);

  std::vector<std::string> lines(rows, std::string(columns, ' '));
  for (size_t c = 0; c < columns; ++c) {
    bool none = std::isnan(values[c]);
    lines[none ? 0 : scale.RowOf(values[c])][c] = none ? '!' : '*';
  }
  std::string picture;
  for (size_t r = 0; r < rows; ++r) {
    bool labelled = r == 0 || r == rows / 2 || r == rows - 1;
    AddLine(picture,
            fmt::format("{:>{}} |{}", labelled ? Label(scale.ValueOf(r)) : "", kLabel, lines[r]));
  }
  AddLine(picture, fmt::format("{:>{}} +{}", "", kLabel, std::string(columns, '-')));
  std::string last = std::to_string(losses.size() - 1);
  AddLine(picture,
          fmt::format("{:>{}}  0{:>{}}", "", kLabel, losses.size() > 1 ? last : "", columns - 1));
  return picture;
}

}  // namespace heddle
