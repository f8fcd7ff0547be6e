// The copy through which the readers of a value read it.
#pragma once

#include <optional>
#include <vector>

#include "program/segments.h"

namespace heddle {

// What readers of a value want and give.
struct Routes {
  std::vector<Sharding> wanted;     // distinct
  std::vector<Sharding> gradients;  // distinct; none where none is needed
};
Routes RoutesOf(const std::vector<SegmentUse>& uses);

// With no partial sums.
Sharding Complete(Sharding sharding);

// The sharding of the copy that costs fewest bytes in all (producer to copy, copy to readers, and gradients back,
// added up at the copy), of those somebody gives or wants. `given` is the producer's, where it is on this stage;
// `complete`: nothing partial may lie there.
Sharding ChooseCopy(const Mesh& mesh, const std::optional<Sharding>& given, const Routes& routes,
                    bool complete);

}  // namespace heddle
