#include "program/attempts.h"

#include <fmt/format.h>

#include <cstdio>

namespace heddle {

std::string ToLine(const DoneStep& step) {
  return fmt::format("{} {:.17g} {:.9f} {:.9f}\n", step.step, step.loss, step.seconds, step.end);
}

std::vector<DoneStep> ReadDoneSteps(std::string_view text) {
  std::vector<DoneStep> steps;
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string_view::npos; begin = end + 1) {
    std::string line(text.substr(begin, end - begin));
    DoneStep step;
    long long number = 0;
    if (std::sscanf(line.c_str(), "%lld %lg %lg %lg", &number, &step.loss, &step.seconds,
                    &step.end) != 4)
      continue;
    step.step = number;
    steps.push_back(step);
  }
  return steps;
}

}  // namespace heddle
