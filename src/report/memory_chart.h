// Memory over a step as a small picture of plain characters, with the kinds stacked:
//
//   70.1 GiB |      aaaaaaaa
//            |   aaaaaaaaaaaaaa
//            | aaaaaaaaaaaaaaaaaa
//            |oooooooooooooooooooo
//            |gggggggggggggggggggg
//            |wwwwwwwwwwwwwwwwwwww
//            +--------------------
//             0 s             12 s
#pragma once

#include <span>
#include <string>

#include "sim/memory_over_time.h"

namespace heddle {

// A column shows the largest sample of its interval of the step. w, g, o, a and b are weights, gradients, optimizer,
// activations and buffers; above `capacity` bytes they are in upper case. `width` and `height` are those of the whole
// picture, at least 30 x 5. Empty if there are no samples.
std::string MemoryChart(std::span<const MemorySample> samples, double seconds, int64_t capacity,
                        int width, int height);

}  // namespace heddle
