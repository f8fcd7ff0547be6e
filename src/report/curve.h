// A loss curve as a small picture of plain characters.
//
//   4.85 |*
//        | *
//        |  **
//   3.9  |    ***
//        |       *****
//   2.96 |            ******
//        +------------------
//         0               99
//
// Every column shows the mean of the losses in it; if there are fewer losses than columns, values are interpolated.
// Losses that are not finite are ignored; a column that has only such losses shows ! at the top.
#pragma once

#include <span>
#include <string>

namespace heddle {

// `width` and `height` are those of the whole picture with its labels; the smallest picture is 20 x 5. Lines end in a
// line break and have no trailing spaces. Empty if there are no losses.
std::string LossCurve(std::span<const double> losses, int width, int height);

}  // namespace heddle
