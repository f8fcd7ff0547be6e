// The copy through which the readers of a value read it.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "program/segments.h"

namespace heddle {

// What readers of a value want and give.
struct Routes {
  std::vector<Sharding> wanted;     // distinct
  std::vector<Sharding> gradients;  // distinct; none where none is needed
  bool operator==(const Routes&) const = default;
};
Routes RoutesOf(const std::vector<SegmentUse>& uses);

// With no partial sums.
Sharding Complete(Sharding sharding);

// The sharding of the copy that costs fewest bytes in all (producer to copy, copy to readers, and gradients back,
// added up at the copy), of those somebody gives or wants. `given` is the producer's, where it is on this stage;
// `complete`: nothing partial may lie there.
Sharding ChooseCopy(const Mesh& mesh, const std::optional<Sharding>& given, const Routes& routes,
                    bool complete);

// The same, with the answers of one mesh remembered: in layers that are alike the same question is asked many times.
class CopyChoices {
 public:
  const Sharding& Of(const Mesh& mesh, const std::optional<Sharding>& given, const Routes& routes,
                     bool complete);

 private:
  struct Answer {
    std::optional<Sharding> given;
    Routes routes;
    bool complete;
    Sharding copy;
  };
  std::deque<Answer> known_;
};

}  // namespace heddle
