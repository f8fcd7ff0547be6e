// A curve of losses as a small picture of plain characters.
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
// Every column shows the mean of the losses that fall on it (or lies between two, where there are fewer losses
// than columns). Losses that are not finite count for nothing; a column with nothing else shows ! at the top.
#pragma once

#include <span>
#include <string>

namespace heddle {

// `width` and `height` are those of the whole picture, labels included; below 20 x 5 they count as that. Lines
// end in a line break and have no blanks at their end. Empty for no losses.
std::string LossCurve(std::span<const double> losses, int width, int height);

}  // namespace heddle
