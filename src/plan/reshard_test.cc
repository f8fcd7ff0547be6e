#include "plan/reshard.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>

#include "plan/exchange.h"
#include "plan/message_sizes.h"

namespace heddle {
namespace {

Mesh MakeMesh(std::vector<int64_t> sizes) {
  static const std::string kNames[] = {"x", "y", "z"};
  Mesh mesh;
  for (size_t a = 0; a < sizes.size(); ++a) mesh.axes.push_back({kNames[a], sizes[a]});
  return mesh;
}

Sharding Make(const Mesh& mesh, std::vector<ShardedDim> dims,
              std::array<PartialState, kMaxAxes> partial = {}) {
  return Normalised(mesh, Sharding{std::move(dims), partial});
}

constexpr AxisMask X = 1, Y = 2;
constexpr PartialState kC = PartialState::kComplete, kS = PartialState::kSum;

std::string Chain(const Mesh& mesh, const Sharding& from, const Sharding& to,
                  ReshardEnd end = ReshardEnd::kExact) {
  std::string text;
  for (const ReshardStep& step : Reshard(mesh, from, to, end)) {
    if (!text.empty()) text += ", ";
    text += Name(step.kind);
    text += " " + ToString(mesh, Normalised(mesh, step.after));
  }
  return text;
}

TEST(ShardingTest, NormalFormsAgree) {
  Mesh mesh = MakeMesh({2, 4});
  EXPECT_EQ(Make(mesh, {{{{{12, X}, {64, 0}}}}}), Make(mesh, {{{{{768, X}}}}}));
  EXPECT_EQ(Make(mesh, {{{{{2, X}, {6, Y}}}}}), Make(mesh, {{{{{12, X | Y}}}}}));
  // Three equal terms are a product; an uneven split is not that of the whole dimension.
  EXPECT_EQ(ToString(mesh, Make(mesh, {{{{{12, X}}, {{12, X}}, {{12, X}}}}})), "[3*12/x]");
  EXPECT_EQ(ToString(mesh, Make(mesh, {{{{{6, Y}, {10, 0}}}}})), "[6/y*10]");
  EXPECT_EQ(ToString(mesh, Make(mesh, {{{{{6, 0}, {4, 0}}}}})), "[24]");
}

TEST(ShardingTest, HeldRangesFollowParts) {
  Mesh mesh = MakeMesh({2, 4});
  ShardedDim qkv{{{{8, X}}, {{4, X}}}};
  EXPECT_EQ(HeldRanges(mesh, qkv, {1, 0}), (Ranges{{4, 8}, {10, 12}}));
  ShardedDim inner{{{{2, 0}, {6, Y}}}};  // blocks of 2: 2,2,2,0
  EXPECT_EQ(HeldRanges(mesh, inner, {0, 2}), (Ranges{{4, 6}, {10, 12}}));
  EXPECT_EQ(HeldRanges(mesh, inner, {0, 3}), (Ranges{}));
  EXPECT_EQ(HeldRanges(mesh, ShardedDim{{{{10, X | Y}}}}, {1, 1}), (Ranges{{7, 9}}));
}

TEST(ReshardTest, KnownChains) {
  Mesh mesh = MakeMesh({2, 4});
  Sharding whole = Replicated({8, 12});
  Sharding rows = Make(mesh, {{{{{8, X}}}}, {{{{12, 0}}}}});
  Sharding columns = Make(mesh, {{{{{8, 0}}}}, {{{{12, X}}}}});
  Sharding sum = Make(mesh, {{{{{8, 0}}}}, {{{{12, 0}}}}}, {kS, kC, kC});
  Sharding both = Make(mesh, {{{{{8, 0}}}}, {{{{12, 0}}}}}, {kS, kS, kC});
  EXPECT_EQ(Chain(mesh, whole, whole), "");
  EXPECT_EQ(Chain(mesh, whole, rows), "slice [8/x,12]");
  EXPECT_EQ(Chain(mesh, rows, whole), "all-gather [8,12]");
  EXPECT_EQ(Chain(mesh, rows, columns), "all-to-all [8,12/x]");
  EXPECT_EQ(Chain(mesh, sum, whole), "all-reduce [8,12]");
  EXPECT_EQ(Chain(mesh, sum, rows), "reduce-scatter [8/x,12]");
  EXPECT_EQ(Chain(mesh, both, whole), "all-reduce [8,12]");
  EXPECT_EQ(Chain(mesh, sum, whole, ReshardEnd::kPartialStays), "");
  EXPECT_EQ(Chain(mesh, whole, sum), "mask [8,12] sum(x)");
  // Splitting y first makes what x reduces smaller.
  Sharding split = Make(mesh, {{{{{8, 0}}}}, {{{{12, Y}}}}});
  EXPECT_EQ(Chain(mesh, sum, split), "slice [8,12/y] sum(x), all-reduce [8,12/y]");
}

// Samples of 8 tokens in rows: three samples of a rank of x cannot be cut into four blocks of whole samples or of tokens, so
// the two ways in which y splits the rows have no common refinement. That is between the ranks of y alone.
TEST(ReshardTest, AxesThatSplitOutermostAlikeStay) {
  Mesh mesh = MakeMesh({2, 4});
  Sharding tokens = Make(mesh, {{{{{6, X}, {8, Y}}}}}), rows = Make(mesh, {{{{{48, X | Y}}}}});
  for (auto [from, to] : {std::pair(tokens, rows), std::pair(rows, tokens)}) {
    std::vector<ReshardStep> steps = Reshard(mesh, from, to);
    ASSERT_EQ(steps.size(), 1u);
    EXPECT_EQ(steps[0].kind, StepKind::kAllToAll);
    EXPECT_EQ(steps[0].axes, Y);
    EXPECT_EQ(Normalised(mesh, steps[0].before), from);
    EXPECT_EQ(Normalised(mesh, steps[0].after), to);
  }
}

// ---- Every chain is carried out on all devices of a mesh, with whole numbers.

struct Tensor {
  Shape shape;
  std::vector<int64_t> data;
};

int64_t ElementsOf(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// Calls f(offset) for every element of a tile, in order.
template <class F>
void ForTile(const Shape& shape, const Tile& tile, F f, size_t d = 0, int64_t offset = 0) {
  if (d == shape.size()) {
    f(offset);
    return;
  }
  for (Block range : tile[d]) {
    for (int64_t i = range.begin; i < range.end; ++i)
      ForTile(shape, tile, f, d + 1, offset * shape[d] + i);
  }
}

std::vector<int64_t> Read(const Tensor& tensor, const Tile& tile) {
  std::vector<int64_t> out;
  ForTile(tensor.shape, tile,
          [&](int64_t at) { out.push_back(tensor.data[static_cast<size_t>(at)]); });
  return out;
}

void Write(Tensor& tensor, const Tile& tile, const std::vector<int64_t>& values) {
  size_t next = 0;
  ForTile(tensor.shape, tile,
          [&](int64_t at) { tensor.data[static_cast<size_t>(at)] = values.at(next++); });
  ASSERT_EQ(next, values.size());
}

Tile Everything(const Shape& shape) {
  Tile tile;
  for (int64_t size : shape) tile.push_back(size == 0 ? Ranges{} : Ranges{{0, size}});
  return tile;
}

using Devices = std::vector<Tensor>;

class Simulated {
 public:
  explicit Simulated(const Mesh& mesh) : mesh_(mesh) {}

  // The value whose elements are their global offsets times 7, plus 1; partial ones as random terms.
  Devices Scatter(const Sharding& sharding, std::mt19937& random) const {
    Devices devices;
    for (int64_t i = 0; i < mesh_.size(); ++i) devices.push_back(Expected(sharding, i));
    for (size_t a = 0; a < mesh_.axes.size(); ++a) {
      if (sharding.partial[a] == PartialState::kComplete) continue;
      Devices terms(devices.size());
      for (int64_t i = 0; i < mesh_.size(); ++i) {
        std::vector<int64_t> group = AxisGroup(mesh_, i, AxisSet(a));
        if (group[0] != i) continue;
        std::vector<size_t> members(group.begin(), group.end());
        for (size_t m : members) terms[m] = devices[m];
        for (size_t e = 0; e < devices[members[0]].data.size(); ++e) {
          int64_t rest = devices[members[0]].data[e];
          for (size_t m = 0; m + 1 < members.size(); ++m) {
            int64_t term = static_cast<int64_t>(random() % 100);
            terms[members[m]].data[e] = term;
            rest -= term;
          }
          terms[members.back()].data[e] = rest;
        }
      }
      devices = std::move(terms);
    }
    return devices;
  }

  Tensor Expected(const Sharding& sharding, int64_t device) const {
    Shape global = GlobalShape(sharding);
    Position position = PositionOf(mesh_, device);
    Tile held;
    for (const ShardedDim& dim : sharding.dims) held.push_back(HeldRanges(mesh_, dim, position));
    Tensor tensor{LocalShape(mesh_, sharding, position), {}};
    ForTile(global, held, [&](int64_t at) { tensor.data.push_back(at * 7 + 1); });
    return tensor;
  }

  Devices Apply(const ReshardStep& step, const Devices& before) const {
    Devices after;
    for (int64_t i = 0; i < mesh_.size(); ++i) {
      Position position = PositionOf(mesh_, i);
      Tensor tensor{LocalShape(mesh_, step.after, position), {}};
      tensor.data.assign(static_cast<size_t>(ElementsOf(tensor.shape)), -1);
      Fill(step, before, i, tensor);
      after.push_back(std::move(tensor));
    }
    return after;
  }

 private:
  void Fill(const ReshardStep& step, const Devices& before, int64_t device, Tensor& tensor) const {
    Position position = PositionOf(mesh_, device);
    Exchange mine = ExchangeOf(mesh_, step, position);
    const Tensor& own = before[static_cast<size_t>(device)];
    std::vector<int64_t> group = AxisGroup(mesh_, device, step.axes);
    size_t index =
        static_cast<size_t>(std::find(group.begin(), group.end(), device) - group.begin());
    if (step.kind == StepKind::kSlice) {
      Write(tensor, Everything(tensor.shape), Read(own, mine.give[0]));
    } else if (step.kind == StepKind::kMask) {
      for (size_t e = 0; e < own.data.size(); ++e) tensor.data[e] = index == 0 ? own.data[e] : 0;
    } else if (step.kind == StepKind::kAllReduce) {
      std::fill(tensor.data.begin(), tensor.data.end(), 0);
      for (int64_t member : group) {
        const Tensor& term = before[static_cast<size_t>(member)];
        for (size_t e = 0; e < term.data.size(); ++e) tensor.data[e] += term.data[e];
      }
    } else if (step.kind == StepKind::kReduceScatter) {
      std::fill(tensor.data.begin(), tensor.data.end(), 0);
      for (int64_t member : group) {
        Exchange theirs = ExchangeOf(mesh_, step, PositionOf(mesh_, member));
        std::vector<int64_t> term = Read(before[static_cast<size_t>(member)], theirs.give[index]);
        ExpectFits(term.size(), theirs.chunk);
        for (size_t e = 0; e < term.size(); ++e) tensor.data[e] += term[e];
      }
    } else {
      for (size_t m = 0; m < group.size(); ++m) {
        const Tensor& other = before[static_cast<size_t>(group[m])];
        Exchange theirs = ExchangeOf(mesh_, step, PositionOf(mesh_, group[m]));
        EXPECT_EQ(theirs.chunk, mine.chunk);
        Tile tile =
            step.kind == StepKind::kAllGather ? Everything(other.shape) : theirs.give[index];
        std::vector<int64_t> sent = Read(other, tile);
        ExpectFits(sent.size(), mine.chunk);
        Write(tensor, mine.get[m], sent);
      }
    }
  }

  static void ExpectFits(size_t count, const Shape& chunk) {
    EXPECT_LE(static_cast<int64_t>(count), ElementsOf(chunk));
  }

  const Mesh& mesh_;
};

// A random reading of the shape with random axes, each used once.
Sharding RandomSharding(const Mesh& mesh,
                        const std::vector<std::vector<std::vector<Parts>>>& readings,
                        std::mt19937& random, bool may_be_partial) {
  Sharding sharding;
  for (const auto& options : readings) {
    sharding.dims.push_back({options[random() % options.size()]});
  }
  for (size_t a = 0; a < mesh.axes.size(); ++a) {
    switch (random() % 4) {
      case 0:
        if (may_be_partial) sharding.partial[a] = PartialState::kSum;
        break;
      case 1:
        break;
      default: {
        ShardedDim& dim = sharding.dims[random() % sharding.dims.size()];
        // In a concatenation, the first part of every term.
        size_t part = dim.terms.size() > 1 ? 0 : random() % dim.terms[0].size();
        for (Parts& term : dim.terms) term[part].axes |= AxisSet(a);
      }
    }
  }
  return Normalised(mesh, sharding);
}

TEST(ReshardTest, EveryChainMovesTheRightNumbers) {
  const std::vector<std::vector<std::vector<std::vector<Parts>>>> kShapes = {
      {{{{{8, 0}}}, {{{2, 0}, {4, 0}}}}, {{{{12, 0}}}, {{{3, 0}, {4, 0}}}, {{{4, 0}}, {{8, 0}}}}},
      {{{{{7, 0}}}},
       {{{{24, 0}}}, {{{6, 0}, {4, 0}}}, {{{8, 0}, {3, 0}}}, {{{2, 0}, {3, 0}, {4, 0}}}}},
      {{{{{72, 0}}}, {{{6, 0}, {12, 0}}}, {{{18, 0}, {4, 0}}}}, {{{{2, 0}}}}},
      {{{{{5, 0}}}}, {{{{1, 0}}}}, {{{{6, 0}}}, {{{2, 0}, {3, 0}}}}},
      {{{{{8, 0}}}, {{{1, 0}, {8, 0}}}, {{{1, 0}, {2, 0}, {4, 0}}}, {{{2, 0}, {1, 0}, {4, 0}}}},
       {{{{3, 0}}}}},
  };
  const std::vector<std::vector<int64_t>> kMeshes = {{2},    {3},       {2, 2},   {2, 3},
                                                     {4, 2}, {2, 2, 2}, {3, 1, 2}};
  std::mt19937 random(7);
  int checked = 0, moved = 0;
  for (int trial = 0; trial < 1500; ++trial) {
    Mesh mesh = MakeMesh(kMeshes[random() % kMeshes.size()]);
    const auto& readings = kShapes[random() % kShapes.size()];
    Sharding from = RandomSharding(mesh, readings, random, true);
    Sharding to = RandomSharding(mesh, readings, random, false);
    std::vector<ReshardStep> steps = Reshard(mesh, from, to);
    Simulated simulated(mesh);
    Devices devices = simulated.Scatter(from, random);
    for (const ReshardStep& step : steps) {
      devices = simulated.Apply(step, devices);
      moved += !IsLocal(step.kind);
    }
    for (int64_t i = 0; i < mesh.size(); ++i) {
      Tensor expected = simulated.Expected(to, i);
      ASSERT_EQ(devices[static_cast<size_t>(i)].shape, expected.shape);
      ASSERT_EQ(devices[static_cast<size_t>(i)].data, expected.data)
          << ToString(mesh, from) << " -> " << ToString(mesh, to) << " device " << i;
      ++checked;
    }
  }
  EXPECT_GT(checked, 5000);
  EXPECT_GT(moved, 1000);
}

TEST(ExchangeTest, MessagesBetweenUnlikeMeshesCoverEverythingOnce) {
  std::mt19937 random(11);
  const std::vector<std::vector<std::vector<Parts>>> kReadings = {
      {{{{8, 0}}}, {{{2, 0}, {4, 0}}}}, {{{{7, 0}}}}, {{{{12, 0}}}, {{{3, 0}, {4, 0}}}}};
  for (int trial = 0; trial < 300; ++trial) {
    Mesh from_mesh = MakeMesh(trial % 2 ? std::vector<int64_t>{2, 2} : std::vector<int64_t>{4});
    Mesh to_mesh = MakeMesh(trial % 3 ? std::vector<int64_t>{3, 2} : std::vector<int64_t>{2});
    MeshTransfer transfer{from_mesh, to_mesh, RandomSharding(from_mesh, kReadings, random, false),
                          RandomSharding(to_mesh, kReadings, random, false)};
    Simulated source(from_mesh), target(to_mesh);
    Devices held = source.Scatter(transfer.from, random);
    std::map<std::pair<int64_t, int64_t>, int64_t> sent;
    std::vector<MessageSize> sizes;
    for (int64_t s = 0; s < from_mesh.size(); ++s) {
      for (const Message& message : MessagesFrom(transfer, s)) {
        sent[{message.from, message.to}] = ElementsOf(ShapeOf(message.give));
        sizes.push_back({message.from, message.to, ElementsOf(ShapeOf(message.give))});
      }
    }
    EXPECT_EQ(MessageSizes(transfer), sizes);
    for (int64_t r = 0; r < to_mesh.size(); ++r) {
      Tensor expected = target.Expected(transfer.to, r);
      Tensor got{expected.shape, std::vector<int64_t>(expected.data.size(), -1)};
      int64_t received = 0;
      for (const Message& message : MessagesTo(transfer, r)) {
        EXPECT_EQ((sent[{message.from, message.to}]), ElementsOf(ShapeOf(message.get)));
        Write(got, message.get, Read(held[static_cast<size_t>(message.from)], message.give));
        received += ElementsOf(ShapeOf(message.get));
      }
      EXPECT_EQ(got.data, expected.data);
      EXPECT_EQ(received, ElementsOf(expected.shape));
    }
  }
}

}  // namespace
}  // namespace heddle
