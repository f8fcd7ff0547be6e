// What each device sends to and receives from each other one in resharding steps and in transfers between meshes, as index
// ranges of local tensors.
//
// A tile is the part of a local tensor that goes to, or comes from, one other device: per dimension, ranges of
// local positions. Both ends list the same elements in the same order, that of the global coordinates.
#pragma once

#include <vector>

#include "plan/reshard.h"

namespace heddle {

using Tile = std::vector<Ranges>;  // per dimension, in local positions
Shape ShapeOf(const Tile& tile);
bool IsEmpty(const Tile& tile);

// A step as the device at `position` takes part in it. `give[i]` of the tensor it holds before goes to member i
// of the group, `get[i]` of the tensor it holds after comes from member i; each padded to `chunk`. An all-reduce
// has neither: the whole tensor is reduced. A slice has one `give`: what is kept. A mask has none.
struct Exchange {
  Shape chunk;
  std::vector<Tile> give, get;
};
Exchange ExchangeOf(const Mesh& mesh, const ReshardStep& step, const Position& position);
// Its chunk alone, which costs less to find.
Shape ChunkOf(const Mesh& mesh, const ReshardStep& step, const Position& position);

// Elements that a device hands to the transport in a step.
int64_t PayloadElements(const Mesh& mesh, const ReshardStep& step, const Position& position);

// A value that crosses from one mesh to another. Neither end is partial. Where several senders hold an element,
// receivers are spread over them.
struct MeshTransfer {
  Mesh from_mesh, to_mesh;
  Sharding from, to;
  bool operator==(const MeshTransfer&) const = default;
};

// One message: from the device `from` of the first mesh to the device `to` of the second (both counted from 0
// within their mesh).
struct Message {
  int64_t from = 0, to = 0;
  Tile give, get;
};
std::vector<Message> MessagesFrom(const MeshTransfer& transfer, int64_t sender);
std::vector<Message> MessagesTo(const MeshTransfer& transfer, int64_t receiver);

}  // namespace heddle
