// The timeline of every pipeline rank as a picture of plain characters.
//
//             0 s                    12 s
//   d0        00001111........aaaaaaaa....bbbbbbbb
//   d1        ....00001111aaaaaaaabbbbbbbb........
//
// A row is a run of devices, that is, a rank of the pipeline; it shows the device of the run that works longest.
// Columns are equal intervals of the time shown. The character of a column is what takes most of its interval:
//
//   0-9   forward of a micro-batch, by the last digit of its number    u   the optimizer, and work that belongs to no
//   a-j   its backward: a is that of 0 (or 10, 20, ...)                    micro-batch
//   A-J   gradients of weights in a split backward (zb-h1, zb)         #   waits for communication
//   r     recomputed forward                                           .   idle: waits for other devices
//
// The kind of work that takes most of a column is found first, then its micro-batch. If a forward half would be
// narrower than a column, the picture shows only the beginning and the end of the step, at a readable scale.
#pragma once

#include <string>
#include <vector>

#include "sim/simulate.h"

namespace heddle {

struct TimetableOptions {
  size_t columns = 96;
  size_t rows = 24;  // of more rows, those in the middle are left out
};

// Lines end in a line break and have no trailing spaces. The last line is a legend of the characters that occur. Empty
// if the step takes no time.
std::string TimetableOf(const Program& program, const Prepared& prepared, const Timeline& timeline,
                        const TimetableOptions& options = {});

}  // namespace heddle
