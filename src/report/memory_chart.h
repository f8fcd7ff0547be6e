// Memory over a step as a small picture of plain characters, the kinds one upon the other:
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

// A column shows the most that was held in its share of the step. w, g, o, a and b are weights, gradients, optimizer,
// activations and buffers, in upper case above `capacity` bytes. `width` and `height` are those of the whole picture;
// below 30 x 5 they count as that. Empty for no samples.
std::string MemoryChart(std::span<const MemorySample> samples, double seconds, int64_t capacity,
                        int width, int height);

}  // namespace heddle
