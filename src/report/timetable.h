// What every pipeline rank does when, as a picture of plain characters.
//
//             0 s                    12 s
//   d0        00001111........aaaaaaaa....bbbbbbbb
//   d1        ....00001111aaaaaaaabbbbbbbb........
//
// A row is a run of devices with a list of its own (a rank of the pipeline); of its devices the one that works
// longest. A column is an equal share of the time shown, and its character what takes most of that time:
//
//   0-9   forward of a micro-batch, by the last digit of its number    u   the optimizer, and work that is of no
//   a-j   its backward: a is that of 0 (or 10, 20, ...)                    micro-batch
//   A-J   gradients of weights, where these are apart (zb-h1, zb)      #   waits for communication
//   r     forward again, for backward                                  .   idle: waits for others
//
// Work counts first by what it is, then by micro-batch. Where a forward would be narrower than a column the picture
// shows the beginning and the end of the step instead, wide enough to read.
#pragma once

#include <string>
#include <vector>

#include "sim/simulate.h"

namespace heddle {

struct TimetableOptions {
  size_t columns = 96;
  size_t rows = 24;  // more are left out in the middle
};

// Lines end in a line break and have no blanks at their end; the legend, of what occurs, is the last. Empty for a step
// of no length.
std::string TimetableOf(const Program& program, const Prepared& prepared, const Timeline& timeline,
                        const TimetableOptions& options = {});

}  // namespace heddle
