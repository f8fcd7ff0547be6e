#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "schedule/schedule.h"

namespace heddle {
namespace {

constexpr double kMostColumns = 1000;

std::string Label(const PipelineShape& shape, const Task& task) {
  std::string label = fmt::format("{}{}", HalfName(task.half), task.microbatch);
  if (shape.chunks > 1) label += fmt::format(".{}", task.stage / shape.devices);
  return label;
}

// The time a column stands for: the shortest task that takes any.
double ColumnTime(const Timetable& timetable, const PipelineShape& shape, double makespan) {
  double shortest = std::numeric_limits<double>::infinity();
  for (const std::vector<Task>& tasks : timetable) {
    for (const Task& task : tasks) {
      const double time = Duration(shape, task);
      if (time > 0) shortest = std::min(shortest, time);
    }
  }
  return std::max(shortest, makespan / kMostColumns);
}

}  // namespace

std::string Picture(const Timetable& timetable, const PipelineShape& shape) {
  const Execution run = Execute(timetable, shape);
  const double column = ColumnTime(timetable, shape, run.makespan);
  size_t width = 1;
  for (const std::vector<Task>& tasks : timetable) {
    for (const Task& task : tasks) width = std::max(width, Label(shape, task).size());
  }
  ++width;  // and a space
  const size_t name_width = fmt::format("d{}", shape.devices - 1).size() + 2;
  std::string picture;
  for (size_t d = 0; d < timetable.size(); ++d) {
    std::string row = fmt::format("{:<{}}", fmt::format("d{}", d), name_width);
    size_t at = 0;  // the next free column
    for (size_t i = 0; i < timetable[d].size(); ++i) {
      const auto from = static_cast<size_t>(std::lround(run.start[d][i] / column));
      const auto to = static_cast<size_t>(std::lround(run.end[d][i] / column));
      for (; at < from; ++at) row += fmt::format("{:<{}}", ".", width);
      if (to == from) continue;
      std::string cell = Label(shape, timetable[d][i]);
      cell.resize((to - from) * width - 1, to > from + 1 ? '-' : ' ');
      row += cell + ' ';
      at = to;
    }
    picture += row.substr(0, row.find_last_not_of(' ') + 1) + "\n";
  }
  return picture;
}

}  // namespace heddle
