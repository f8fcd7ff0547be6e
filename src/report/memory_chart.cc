#include "report/memory_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/units.h"
#include "report/picture.h"

namespace heddle {
namespace {

// The largest sample of each column: one of those that begin in it, or the last one before it.
std::vector<MemoryKinds> Columns(std::span<const MemorySample> samples, double seconds,
                                 size_t columns) {
  std::vector<MemoryKinds> most(columns);
  size_t next = 0;
  MemoryKinds held;
  for (size_t c = 0; c < columns; ++c) {
    double end = seconds * static_cast<double>(c + 1) / static_cast<double>(columns);
    most[c] = held;
    bool last = c + 1 == columns;
    for (; next < samples.size() && (last || samples[next].time < end); ++next) {
      held = samples[next].kinds;
      if (held.total() > most[c].total()) most[c] = held;
    }
  }
  return most;
}

char KindAt(const MemoryKinds& kinds, double bytes) {
  constexpr std::string_view kLetters = "wgoab";
  double sum = 0;
  size_t k = 0;
  for (int64_t size :
       {kinds.weights, kinds.gradients, kinds.optimizer, kinds.activations, kinds.buffers}) {
    sum += static_cast<double>(size);
    if (bytes < sum) return kLetters[k];
    ++k;
  }
  return ' ';
}

}  // namespace

std::string MemoryChart(std::span<const MemorySample> samples, double seconds, int64_t capacity,
                        int width, int height) {
  if (samples.empty()) return "";
  constexpr size_t kLabel = 10;  // 1023.5 GiB
  size_t columns = static_cast<size_t>(std::max(width, 30)) - kLabel - 2;
  size_t rows = static_cast<size_t>(std::max(height, 5)) - 2;
  std::vector<MemoryKinds> most = Columns(samples, seconds, columns);
  int64_t peak = 1;
  for (const MemoryKinds& kinds : most) peak = std::max(peak, kinds.total());

  std::string picture;
  for (size_t r = rows; r-- > 0;) {
    double bytes =
        (static_cast<double>(r) + 0.5) / static_cast<double>(rows) * static_cast<double>(peak);
    std::string line;
    for (const MemoryKinds& kinds : most) {
      char kind = KindAt(kinds, bytes);
      bool above = kind != ' ' && bytes > static_cast<double>(capacity);
      line += above ? static_cast<char>(kind - 'a' + 'A') : kind;
    }
    std::string label = r + 1 == rows ? FormatBytes(Bytes{peak}) : "";
    AddLine(picture, fmt::format("{:>{}} |{}", label, kLabel, line));
  }
  AddLine(picture, fmt::format("{:>{}} +{}", "", kLabel, std::string(columns, '-')));
  std::string end = FormatSeconds(Seconds{seconds});
  AddLine(picture, fmt::format("{:>{}}  0 s{:>{}}", "", kLabel, end, columns - 3));
  return picture;
}

}  // namespace heddle
