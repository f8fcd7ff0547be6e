#include "plan/exchange.h"

#include <algorithm>

#include "base/check.h"

namespace heddle {
namespace {

// Where the coordinates of `wanted` lie among those of `held`; coordinates that are not held are left out. Both
// ascend.
Ranges PositionsIn(const Ranges& held, const Ranges& wanted) {
  Ranges positions;
  int64_t before = 0;  // positions before held[h]
  size_t h = 0;
  for (Block want : wanted) {
    while (h < held.size() && held[h].end <= want.begin) before += held[h++].size();
    int64_t skipped = before;
    for (size_t i = h; i < held.size() && held[i].begin < want.end; skipped += held[i++].size()) {
      Block common{std::max(held[i].begin, want.begin), std::min(held[i].end, want.end)};
      if (common.size() <= 0) continue;
      Block at{skipped + common.begin - held[i].begin, skipped + common.end - held[i].begin};
      if (!positions.empty() && positions.back().end == at.begin) {
        positions.back().end = at.end;
      } else {
        positions.push_back(at);
      }
    }
  }
  return positions;
}

using Coordinates = std::vector<Ranges>;  // per dimension

Coordinates Held(const Mesh& mesh, const Sharding& sharding, const Position& position) {
  Coordinates held;
  for (const ShardedDim& dim : sharding.dims) held.push_back(HeldRanges(mesh, dim, position));
  return held;
}

Tile TileOf(const Coordinates& held, const Coordinates& wanted) {
  Tile tile;
  for (size_t d = 0; d < held.size(); ++d) tile.push_back(PositionsIn(held[d], wanted[d]));
  return tile;
}

// The number of coordinates that both contain.
int64_t CountCommon(const Ranges& held, const Ranges& wanted) {
  int64_t count = 0;
  for (size_t h = 0, w = 0; h < held.size() && w < wanted.size();) {
    int64_t end = std::min(held[h].end, wanted[w].end);
    count += std::max(int64_t{0}, end - std::max(held[h].begin, wanted[w].begin));
    (held[h].end == end ? h : w) += 1;
  }
  return count;
}

std::vector<Position> PositionsOf(const Mesh& mesh, const Position& position, AxisMask axes) {
  std::vector<Position> positions;
  for (int64_t member : AxisGroup(mesh, IndexOf(mesh, position), axes)) {
    positions.push_back(PositionOf(mesh, member));
  }
  return positions;
}

Position WithLargest(const Mesh& mesh, Position position, AxisMask axes) {
  for (size_t a = 0; a < position.size(); ++a) {
    if (Contains(axes, a)) position[a] = LargestOf(mesh.axes[a]);
  }
  return position;
}

// The coordinates of a dimension that the members hold together, each once.
std::vector<Ranges> DistinctRanges(const Mesh& mesh, const ShardedDim& dim,
                                   const std::vector<Position>& group) {
  std::vector<Ranges> distinct;
  for (const Position& member : group) {
    Ranges held = HeldRanges(mesh, dim, member);
    if (std::find(distinct.begin(), distinct.end(), held) == distinct.end()) {
      distinct.push_back(std::move(held));
    }
  }
  return distinct;
}

// Along each dimension, the largest tile that any member of the group sends to any other.
Shape LargestTile(const Mesh& mesh, const ReshardStep& step, const std::vector<Position>& group) {
  Shape chunk;
  for (size_t d = 0; d < step.before.dims.size(); ++d) {
    std::vector<Ranges> after = DistinctRanges(mesh, step.after.dims[d], group);
    int64_t most = 0;
    for (const Ranges& held : DistinctRanges(mesh, step.before.dims[d], group)) {
      for (const Ranges& wanted : after) most = std::max(most, CountCommon(held, wanted));
    }
    chunk.push_back(most);
  }
  return chunk;
}

// The axes that split nothing: devices along them hold the same part of the sharding.
AxisMask ReplicaAxes(const Mesh& mesh, const Sharding& sharding) {
  AxisMask all = AxisSet(mesh.axes.size()) - 1;
  return all & ~sharding.split_axes();
}

// Of the devices that hold the same part, one sends to a receiver: receivers are spread over them evenly.
class Replicas {
 public:
  explicit Replicas(const MeshTransfer& transfer)
      : mesh_(transfer.from_mesh),
        axes_(ReplicaAxes(transfer.from_mesh, transfer.from)),
        count_(GroupSize(mesh_, axes_)) {}

  bool Serves(const Position& sender, int64_t receiver) const {
    int64_t which = 0;
    for (size_t a = 0; a < sender.size(); ++a) {
      if (Contains(axes_, a)) which = which * mesh_.axes[a].size + sender[a];
    }
    return receiver % count_ == which;
  }

 private:
  const Mesh& mesh_;
  AxisMask axes_;
  int64_t count_;
};

void AddMessage(int64_t sender, const Coordinates& held, int64_t receiver,
                const Coordinates& wanted, std::vector<Message>* messages) {
  Tile give = TileOf(held, wanted);
  if (IsEmpty(give)) return;
  messages->push_back({sender, receiver, std::move(give), TileOf(wanted, held)});
}

}  // namespace

Shape ShapeOf(const Tile& tile) {
  Shape shape;
  for (const Ranges& ranges : tile) shape.push_back(Count(ranges));
  return shape;
}

bool IsEmpty(const Tile& tile) {
  return std::any_of(tile.begin(), tile.end(), [](const Ranges& ranges) { return ranges.empty(); });
}

Shape ChunkOf(const Mesh& mesh, const ReshardStep& step, const Position& position) {
  switch (step.kind) {
    case StepKind::kAllGather:
    case StepKind::kAllReduce:
      return LocalShape(mesh, step.before, WithLargest(mesh, position, step.axes));
    case StepKind::kReduceScatter:
      return LocalShape(mesh, step.after, WithLargest(mesh, position, step.axes));
    case StepKind::kAllToAll:
      return LargestTile(mesh, step, PositionsOf(mesh, position, step.axes));
    default:
      return {};
  }
}

Exchange ExchangeOf(const Mesh& mesh, const ReshardStep& step, const Position& position) {
  Exchange exchange;
  exchange.chunk = ChunkOf(mesh, step, position);
  if (step.kind == StepKind::kAllReduce || step.kind == StepKind::kMask) return exchange;
  Coordinates before = Held(mesh, step.before, position), after = Held(mesh, step.after, position);
  if (step.kind == StepKind::kSlice) {
    exchange.give.push_back(TileOf(before, after));
    return exchange;
  }
  for (const Position& member : PositionsOf(mesh, position, step.axes)) {
    if (step.kind != StepKind::kAllGather) {
      exchange.give.push_back(TileOf(before, Held(mesh, step.after, member)));
    }
    if (step.kind != StepKind::kReduceScatter) {
      exchange.get.push_back(TileOf(after, Held(mesh, step.before, member)));
    }
  }
  return exchange;
}

int64_t PayloadElements(const Mesh& mesh, const ReshardStep& step, const Position& position) {
  if (IsLocal(step.kind)) return 0;
  int64_t elements = 1;
  for (int64_t size : ChunkOf(mesh, step, position)) elements *= size;
  bool to_all = step.kind == StepKind::kReduceScatter || step.kind == StepKind::kAllToAll;
  return to_all ? elements * GroupSize(mesh, step.axes) : elements;
}

std::vector<Message> MessagesFrom(const MeshTransfer& transfer, int64_t sender) {
  std::vector<Message> messages;
  Replicas replicas(transfer);
  Position position = PositionOf(transfer.from_mesh, sender);
  Coordinates held = Held(transfer.from_mesh, transfer.from, position);
  for (int64_t receiver = 0; receiver < transfer.to_mesh.size(); ++receiver) {
    if (!replicas.Serves(position, receiver)) continue;
    AddMessage(sender, held, receiver,
               Held(transfer.to_mesh, transfer.to, PositionOf(transfer.to_mesh, receiver)),
               &messages);
  }
  return messages;
}

std::vector<Message> MessagesTo(const MeshTransfer& transfer, int64_t receiver) {
  std::vector<Message> messages;
  Replicas replicas(transfer);
  Coordinates wanted = Held(transfer.to_mesh, transfer.to, PositionOf(transfer.to_mesh, receiver));
  for (int64_t sender = 0; sender < transfer.from_mesh.size(); ++sender) {
    Position position = PositionOf(transfer.from_mesh, sender);
    if (!replicas.Serves(position, receiver)) continue;
    AddMessage(sender, Held(transfer.from_mesh, transfer.from, position), receiver, wanted,
               &messages);
  }
  return messages;
}

}  // namespace heddle
