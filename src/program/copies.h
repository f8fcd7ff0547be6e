// The copy through which the readers of a value read it.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "program/segments.h"

namespace heddle {

// The shardings in which readers need a value, and those in which they compute its gradient.
struct Routes {
  std::vector<Sharding> wanted;     // distinct
  std::vector<Sharding> gradients;  // distinct; of readers that compute one
  bool operator==(const Routes&) const = default;
};
Routes RoutesOf(const std::vector<SegmentUse>& uses);

// With no partial sums.
Sharding Complete(Sharding sharding);

// Of the shardings of the producer and of all readers, the one for the copy that moves the fewest bytes in all: producer to
// copy, copy to readers, and gradients back, added up at the copy. `given` is the producer's, where it is on this stage.
// `complete`: the copy must not be partial.
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
