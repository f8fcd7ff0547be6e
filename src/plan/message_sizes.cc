#include "plan/message_sizes.h"

#include <algorithm>

namespace heddle {
namespace {

AxisMask AxesOf(const ShardedDim& dim) {
  AxisMask axes = 0;
  for (const Parts& term : dim.terms) {
    for (const Part& part : term) axes |= part.axes;
  }
  return axes;
}

// A dimension as the devices of a mesh hold it. Devices that agree along its axes hold one part; parts are numbered
// row-major along these.
struct SplitDim {
  AxisMask axes = 0;
  std::vector<Ranges> parts;
};

int64_t PlaceAlong(const Mesh& mesh, AxisMask axes, const Position& position) {
  int64_t place = 0;
  for (size_t a = 0; a < mesh.axes.size(); ++a) {
    if (Contains(axes, a)) place = place * mesh.axes[a].size + position[a];
  }
  return place;
}

std::vector<SplitDim> SplitDims(const Mesh& mesh, const Sharding& sharding) {
  std::vector<SplitDim> dims;
  for (const ShardedDim& dim : sharding.dims) {
    SplitDim split{AxesOf(dim), {}};
    for (int64_t index : AxisGroup(mesh, 0, split.axes)) {
      split.parts.push_back(HeldRanges(mesh, dim, PositionOf(mesh, index)));
    }
    dims.push_back(std::move(split));
  }
  return dims;
}

// The coordinates that both hold; both lists ascend.
int64_t Common(const Ranges& a, const Ranges& b) {
  int64_t common = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    common += std::max<int64_t>(0, std::min(a[i].end, b[j].end) - std::max(a[i].begin, b[j].begin));
    if (a[i].end < b[j].end) {
      ++i;
    } else {
      ++j;
    }
  }
  return common;
}

struct Match {
  int64_t part = 0;  // of the receivers' dimension
  int64_t elements = 0;
};

// Per part of the senders' dimension: the receivers' parts that share elements with it.
std::vector<std::vector<Match>> Matches(const SplitDim& from, const SplitDim& to) {
  std::vector<std::vector<Match>> matches(from.parts.size());
  for (size_t i = 0; i < from.parts.size(); ++i) {
    for (size_t j = 0; j < to.parts.size(); ++j) {
      int64_t elements = Common(from.parts[i], to.parts[j]);
      if (elements > 0) matches[i].push_back({static_cast<int64_t>(j), elements});
    }
  }
  return matches;
}

class Finder {
 public:
  Finder(const MeshTransfer& transfer, const std::function<void()>& poll)
      : transfer_(transfer),
        poll_(poll),
        from_(SplitDims(transfer.from_mesh, transfer.from)),
        to_(SplitDims(transfer.to_mesh, transfer.to)) {
    size_t keys = 1;
    for (size_t d = 0; d < from_.size(); ++d) {
      matches_.push_back(Matches(from_[d], to_[d]));
      keys *= to_[d].parts.size();
    }
    receivers_.resize(keys);
    for (int64_t receiver = 0; receiver < transfer.to_mesh.size(); ++receiver) {
      if (poll_) poll_();
      Position position = PositionOf(transfer.to_mesh, receiver);
      size_t key = 0;
      for (const SplitDim& dim : to_) {
        key = key * dim.parts.size() +
              static_cast<size_t>(PlaceAlong(transfer.to_mesh, dim.axes, position));
      }
      receivers_[key].push_back(receiver);
    }
    replicas_ = (AxisSet(transfer.from_mesh.axes.size()) - 1) & ~transfer.from.split_axes();
  }

  std::vector<MessageSize> Run() {
    for (sender_ = 0; sender_ < transfer_.from_mesh.size(); ++sender_) {
      if (poll_) poll_();
      position_ = PositionOf(transfer_.from_mesh, sender_);
      auto first = static_cast<std::ptrdiff_t>(sizes_.size());
      Follow(0, 0, 1);
      std::sort(sizes_.begin() + first, sizes_.end(),
                [](const MessageSize& a, const MessageSize& b) { return a.to < b.to; });
    }
    return std::move(sizes_);
  }

 private:
  // The parts of the dimensions before `d` are chosen already.
  void Follow(size_t d, size_t key, int64_t elements) {
    if (d == from_.size()) return Give(key, elements);
    int64_t part = PlaceAlong(transfer_.from_mesh, from_[d].axes, position_);
    for (const Match& match : matches_[d][static_cast<size_t>(part)]) {
      Follow(d + 1, key * to_[d].parts.size() + static_cast<size_t>(match.part),
             elements * match.elements);
    }
  }

  // Receivers are spread over the senders that hold the same, as in exchange.cc.
  void Give(size_t key, int64_t elements) {
    int64_t replica = PlaceAlong(transfer_.from_mesh, replicas_, position_);
    int64_t replicas = GroupSize(transfer_.from_mesh, replicas_);
    for (int64_t receiver : receivers_[key]) {
      if (receiver % replicas == replica) sizes_.push_back({sender_, receiver, elements});
    }
  }

  const MeshTransfer& transfer_;
  const std::function<void()>& poll_;
  std::vector<SplitDim> from_, to_;
  std::vector<std::vector<std::vector<Match>>> matches_;  // per dimension and part
  std::vector<std::vector<int64_t>> receivers_;           // by the parts they hold
  AxisMask replicas_ = 0;
  int64_t sender_ = 0;
  Position position_;
  std::vector<MessageSize> sizes_;
};

}  // namespace

std::vector<MessageSize> MessageSizes(const MeshTransfer& transfer,
                                      const std::function<void()>& poll) {
  return Finder(transfer, poll).Run();
}

}  // namespace heddle
