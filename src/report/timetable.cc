#include "report/timetable.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/units.h"
#include "sim/compute_stream.h"

namespace heddle {
namespace {

enum class What : uint8_t { kForward, kBackward, kWeights, kAgain, kOther, kExposed, kIdle };
constexpr size_t kWhats = 7;
constexpr std::array<std::string_view, kWhats> kLegend = {"0-9 forward",
                                                          "a-j backward",
                                                          "A-J weights' gradients",
                                                          "r recomputed forward",
                                                          "u update and other",
                                                          "# waits for communication",
                                                          ". idle"};

struct Cell {
  What what = What::kIdle;
  int microbatch = -1;
};

char Character(const Cell& cell) {
  int digit = cell.microbatch % 10;
  switch (cell.what) {
    case What::kForward:
      return static_cast<char>('0' + digit);
    case What::kBackward:
      return static_cast<char>('a' + digit);
    case What::kWeights:
      return static_cast<char>('A' + digit);
    case What::kAgain:
      return 'r';
    case What::kOther:
      return 'u';
    case What::kExposed:
      return '#';
    case What::kIdle:
      return '.';
  }
  return '?';
}

// Work that belongs to no half (loads, sums, slices) is shown as part of the half before it.
Cell CellOf(const Slice& slice, const Instruction* at, Cell before) {
  if (slice.kind == SliceKind::kExposed) return {What::kExposed, -1};
  if (slice.kind == SliceKind::kIdle) return {What::kIdle, -1};
  if (at->microbatch < 0) return {What::kOther, -1};
  if (at->op != Opcode::kRun) {
    bool follows = before.microbatch == at->microbatch;
    return {follows ? before.what : What::kForward, at->microbatch};
  }
  if (at->recompute) return {What::kAgain, -1};
  What half = at->half == Half::kF   ? What::kForward
              : at->half == Half::kW ? What::kWeights
                                     : What::kBackward;
  return {half, at->microbatch};
}

struct Span {
  double start = 0, end = 0;
  Cell cell;
};

struct Row {
  std::string name;
  std::vector<Span> spans;
  double forward = 0;  // mean seconds of a micro-batch's forward
};

// The interval [from, to), drawn in a number of columns.
struct Window {
  double from = 0, to = 0;
  size_t columns = 0;
};

// Finds what takes most of a column: first the kind of work, then the micro-batch. Of equals the earlier one counts.
class Share {
 public:
  void Add(const Cell& cell, double seconds) {
    what_[static_cast<size_t>(cell.what)] += seconds;
    for (auto& [known, sum] : cells_) {
      if (known.what == cell.what && known.microbatch == cell.microbatch) {
        sum += seconds;
        return;
      }
    }
    cells_.push_back({cell, seconds});
  }
  Cell Most() const {
    const std::pair<Cell, double>* best = nullptr;
    for (const auto& at : cells_) {
      if (best == nullptr || Key(at) > Key(*best)) best = &at;
    }
    return best == nullptr ? Cell{} : best->first;
  }

 private:
  std::pair<double, double> Key(const std::pair<Cell, double>& at) const {
    return {what_[static_cast<size_t>(at.first.what)], at.second};
  }
  std::array<double, kWhats> what_ = {};
  std::vector<std::pair<Cell, double>> cells_;
};

std::vector<Cell> CellsIn(const std::vector<Span>& spans, const Window& window) {
  double width = (window.to - window.from) / static_cast<double>(window.columns);
  std::vector<Share> shares(window.columns);
  auto column = [&](double time) { return (time - window.from) / width; };
  for (const Span& span : spans) {
    double from = std::max(0.0, column(span.start));
    double to = std::min(static_cast<double>(window.columns), column(span.end));
    for (double at = from; at < to;) {
      size_t c = std::min(static_cast<size_t>(at), window.columns - 1);
      double next = std::min(to, static_cast<double>(c) + 1);
      if (next <= at) break;
      shares[c].Add(span.cell, next - at);
      at = next;
    }
  }
  std::vector<Cell> cells;
  for (const Share& share : shares) cells.push_back(share.Most());
  return cells;
}

class Drawer {
 public:
  Drawer(const Program& program, const Prepared& prepared, const Timeline& timeline,
         const TimetableOptions& options)
      : program_(program), in_(prepared), at_(timeline), options_(options) {}

  std::string Draw() {
    if (at_.seconds <= 0) return "";
    for (size_t r = 0; r < program_.runs.size(); ++r) AddRow(r);
    std::vector<Window> windows = Windows();
    size_t name = 0;
    for (const Row& row : rows_) name = std::max(name, row.name.size());
    std::string text = Line(std::string(name, ' '), Scale(windows));
    for (size_t r = 0; r < rows_.size(); ++r) {
      if (rows_.size() > options_.rows && r == options_.rows / 2) {
        size_t left_out = rows_.size() - options_.rows;
        text += fmt::format("{:<{}}  {} more\n", "...", name, left_out);
        r += left_out;
      }
      text += Line(fmt::format("{:<{}}", rows_[r].name, name), Picture(rows_[r], windows));
    }
    return text + Legend(name);
  }

 private:
  // The device class of a run that works longest.
  int ClassOf(size_t run, std::vector<Slice>& slices) const {
    int chosen = -1;
    double longest = -1;
    for (size_t c = 0; c < in_.classes.devices.size(); ++c) {
      if (in_.classes.devices[c].run != static_cast<int>(run)) continue;
      std::vector<Slice> stream = ComputeStream(in_, at_, static_cast<int>(c));
      double work = 0;
      for (const Slice& slice : stream) {
        if (slice.kind == SliceKind::kWork) work += slice.end - slice.start;
      }
      if (work <= longest) continue;
      longest = work;
      chosen = static_cast<int>(c);
      slices = std::move(stream);
    }
    return chosen;
  }

  void AddRow(size_t run) {
    std::vector<Slice> slices;
    int chosen = ClassOf(run, slices);
    if (chosen < 0) return;
    Row row;
    row.name = fmt::format("d{}", in_.classes.devices[static_cast<size_t>(chosen)].device);
    Cell before;
    double forward = 0;
    for (const Slice& slice : slices) {
      const Instruction* at =
          slice.task < 0 ? nullptr
                         : &program_.runs[run].instructions[static_cast<size_t>(slice.task)];
      Cell cell = CellOf(slice, at, before);
      if (slice.kind == SliceKind::kWork) before = cell;
      if (cell.what == What::kForward) forward += slice.end - slice.start;
      row.spans.push_back({slice.start, slice.end, cell});
    }
    size_t halves = program_.runs[run].stages.size() * static_cast<size_t>(program_.microbatches);
    row.forward = forward / static_cast<double>(std::max<size_t>(halves, 1));
    rows_.push_back(std::move(row));
  }

  // The whole step, or its beginning and its end with a column per forward.
  std::vector<Window> Windows() const {
    double forward = at_.seconds;
    for (const Row& row : rows_) {
      if (row.forward > 0) forward = std::min(forward, row.forward);
    }
    double columns = static_cast<double>(options_.columns);
    if (forward * columns >= at_.seconds * 0.999) return {{0, at_.seconds, options_.columns}};
    size_t half = (options_.columns - kGap.size()) / 2;
    double shown = forward * static_cast<double>(half);
    return {{0, shown, half}, {at_.seconds - shown, at_.seconds, half}};
  }

  // The line of times at the ends of the windows.
  std::string Scale(const std::vector<Window>& windows) const {
    std::string line;
    for (const Window& window : windows) {
      std::string from = FormatSeconds(Seconds{window.from}),
                  to = FormatSeconds(Seconds{window.to});
      if (!line.empty()) line += std::string(kGap.size(), ' ');
      size_t between = std::max(window.columns, from.size() + to.size() + 1) - from.size();
      line += from + fmt::format("{:>{}}", to, between);
    }
    return line;
  }

  std::string Picture(const Row& row, const std::vector<Window>& windows) {
    std::string line;
    for (const Window& window : windows) {
      if (!line.empty()) line += kGap;
      for (const Cell& cell : CellsIn(row.spans, window)) {
        line += Character(cell);
        seen_[static_cast<size_t>(cell.what)] = true;
      }
    }
    return line;
  }

  static std::string Line(const std::string& name, const std::string& rest) {
    std::string line = name + "  " + rest;
    return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }

  std::string Legend(size_t name) const {
    std::string text;
    for (size_t w = 0; w < kWhats; ++w) {
      if (!seen_[w]) continue;
      text += fmt::format("{}{}", text.empty() ? "" : ", ", kLegend[w]);
    }
    return Line(std::string(name, ' '), text);
  }

  static constexpr std::string_view kGap = "  ~~  ";

  const Program& program_;
  const Prepared& in_;
  const Timeline& at_;
  TimetableOptions options_;
  std::vector<Row> rows_;
  std::array<bool, kWhats> seen_ = {};
};

}  // namespace

std::string TimetableOf(const Program& program, const Prepared& prepared, const Timeline& timeline,
                        const TimetableOptions& options) {
  return Drawer(program, prepared, timeline, options).Draw();
}

}  // namespace heddle
