// What a run that is started again after failures leaves behind: the steps it finished, and when each attempt began and
// ended. Goodput is made of these (report/goodput.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

// A step that was finished. Times are seconds of the steady clock.
struct DoneStep {
  int64_t step = 0;
  double loss = 0;
  double seconds = 0;
  double end = 0;
};

// A line of a file of steps, and such a file read; a last line without its end is left out.
std::string ToLine(const DoneStep& step);
std::vector<DoneStep> ReadDoneSteps(std::string_view text);

// The ranks from one start to the next. Times are seconds of the steady clock; 0: it did not come to that.
struct AttemptTimes {
  double training = 0;        // the first instruction
  double failed = 0;          // the last sign of life of the rank that failed
  double detected = 0;        // the failure was known
  double saving_seconds = 0;  // checkpoints
};

}  // namespace heddle
