#include "cost/torus_traffic.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/check.h"

namespace heddle {
namespace {

using Numbers = std::vector<std::int64_t>;

std::int64_t ProductOf(std::span<const std::int64_t> numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{1}, std::multiplies<>());
}

std::size_t Size(std::int64_t n) { return static_cast<std::size_t>(n); }

std::int64_t WayRound(std::int64_t size, std::int64_t from, std::int64_t to) {
  const std::int64_t up = (to - from + size) % size;
  return std::min(up, size - up);
}

// The loads on the hops of one spot, in a dense array.
class Gather {
 public:
  Gather(const Network& network, const Network::Spot& spot, std::int64_t members)
      : network_(network), spot_(spot), first_(spot.hops) {
    const auto dims = network.Dims(spot);
    std::int64_t ways = 0;
    for (const std::int64_t size : dims) ways += std::min<std::int64_t>(size - 1, 2);
    shares_.resize(Size(members * ways));
  }

  void Add(LinkId link, double share) { shares_[Size(link.value - first_)] += share; }

  void AddRoute(std::int64_t from, std::int64_t to, double share) {
    route_.clear();
    network_.AppendHops(spot_, from, to, route_);
    for (const LinkId link : route_) Add(link, share);
  }

  void AppendTo(std::vector<LinkLoad>& loads) const {
    for (std::size_t i = 0; i < shares_.size(); ++i) {
      if (shares_[i] == 0) continue;
      loads.push_back({LinkId{first_ + static_cast<std::int32_t>(i)}, shares_[i]});
    }
  }

 private:
  const Network& network_;
  const Network::Spot& spot_;
  std::int32_t first_;
  std::vector<double> shares_;
  std::vector<LinkId> route_;
};

// One dimension of a box: the coordinates in use.
struct Axis {
  std::int64_t size = 1;    // number of members of the torus along it
  std::int64_t stride = 1;  // distance of neighbours in member numbers
  Numbers used;
  // For each coordinate the used one after and before it, around the ring.
  Numbers next, previous;
  std::int64_t longest = 0;  // hops between neighbours
  int ways = 0;              // directions that the volume can go at once
};

Axis MakeAxis(std::int64_t size, std::int64_t stride, std::span<const TorusPart> parts) {
  Axis axis{.size = size, .stride = stride, .used = {}, .next = {}, .previous = {}};
  std::vector<bool> is_used(Size(size));
  for (const TorusPart& part : parts) is_used[Size(part.member / stride % size)] = true;
  for (std::int64_t i = 0; i < size; ++i) {
    if (is_used[Size(i)]) axis.used.push_back(i);
  }
  const std::size_t count = axis.used.size();
  if (count < 2) return axis;
  axis.next.resize(Size(size));
  axis.previous.resize(Size(size));
  axis.ways = 2;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t from = axis.used[i];
    const std::int64_t to = axis.used[(i + 1) % count];
    axis.next[Size(from)] = to;
    axis.previous[Size(to)] = from;
    axis.longest = std::max(axis.longest, WayRound(size, from, to));
    if (2 * ((to - from + size) % size) >= size) axis.ways = 1;
  }
  return axis;
}

// The loads on the links from l to l + 1 of a ring on which from[x] x to[y] messages go from x to every y that is 1 to
// `reach` steps further on. A message crosses that link if x is less than `reach` steps before l + 1, and y is between
// there and x + reach:
//   load(l) = sum over x of from[x] (T(x + reach + 1) - T(l + 1)),  T(i) = sum of to[j], j < i
// Prefix sums over three turns around the ring give each load in O(1).
Numbers LineLoads(std::span<const std::int64_t> from, std::span<const std::int64_t> to,
                  std::int64_t reach) {
  const auto size = static_cast<std::int64_t>(from.size());
  Numbers bound(Size(3 * size) + 1), starts(Size(2 * size) + 1), ahead(Size(2 * size) + 1);
  for (std::int64_t i = 0; i < 3 * size; ++i)
    bound[Size(i) + 1] = bound[Size(i)] + to[Size(i % size)];
  for (std::int64_t i = 0; i < 2 * size; ++i) {
    const std::int64_t here = from[Size(i % size)];
    starts[Size(i) + 1] = starts[Size(i)] + here;
    ahead[Size(i) + 1] = ahead[Size(i)] + here * bound[Size(i + reach) + 1];
  }
  Numbers loads(Size(size));
  for (std::int64_t l = 0; l < size; ++l) {
    const std::size_t last = Size(l + size) + 1, first = Size(l + size - reach) + 1;
    loads[Size(l)] = ahead[last] - ahead[first] - bound[last] * (starts[last] - starts[first]);
  }
  return loads;
}

}  // namespace

TorusSteps AppendRingTraffic(const Network& network, const Network::Spot& spot,
                             std::span<const TorusPart> parts, std::vector<LinkLoad>& loads) {
  const Numbers dims = network.Dims(spot);
  Gather gather(network, spot, ProductOf(dims));
  TorusSteps steps;
  std::vector<Axis> axes;
  std::int64_t stride = 1, box = 1;
  int ways = 0;
  for (std::size_t i = dims.size(); i-- > 0; stride *= dims[i]) {
    axes.push_back(MakeAxis(dims[i], stride, parts));
    const auto used = static_cast<std::int64_t>(axes.back().used.size());
    box *= used;
    ways += axes.back().ways;
    steps.steps += used - 1;
    steps.hops += (used - 1) * axes.back().longest;
  }
  if (box == static_cast<std::int64_t>(parts.size())) {
    for (const Axis& axis : axes) {
      if (axis.ways == 0) continue;
      const double share = static_cast<double>(axis.ways) / static_cast<double>(2 * ways);
      for (const TorusPart& part : parts) {
        const std::int64_t at = part.member / axis.stride % axis.size;
        for (const Numbers* neighbours : {&axis.next, &axis.previous}) {
          const std::int64_t to = part.member + ((*neighbours)[Size(at)] - at) * axis.stride;
          gather.AddRoute(part.member, to, part.volume * share);
        }
      }
    }
  } else {
    std::int64_t longest = 0;
    const Group& group = network.cluster().group(spot.group);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const TorusPart& next = parts[(i + 1) % parts.size()];
      gather.AddRoute(parts[i].member, next.member, parts[i].volume / 2);
      gather.AddRoute(next.member, parts[i].member, next.volume / 2);
      longest = std::max(longest, HopsBetween(group, parts[i].member, next.member));
    }
    steps.steps = static_cast<std::int64_t>(parts.size()) - 1;
    steps.hops = steps.steps * longest;
  }
  gather.AppendTo(loads);
  return steps;
}

void AppendAllToAllTraffic(const Network& network, const Network::Spot& spot,
                           std::span<const TorusPart> parts, double bytes_each,
                           std::vector<LinkLoad>& loads) {
  const Numbers dims = network.Dims(spot);
  const std::int64_t members = ProductOf(dims);
  Gather gather(network, spot, members);
  // The last dimension is passed first: along dimension d a message has its sender's coordinates in the dimensions
  // before d and its receiver's coordinates in those after d.
  std::int64_t inner = 1;  // members per step along d
  for (std::size_t d = dims.size(); d-- > 0; inner *= dims[d]) {
    const std::int64_t size = dims[d];
    const std::int64_t outer = members / inner / size;
    if (size < 2) continue;
    Numbers from(Size(outer * size)), to(Size(size * inner));
    for (const TorusPart& part : parts) {
      from[Size(part.member / inner)] += part.devices;
      to[Size(part.member % (size * inner))] += part.devices;
    }
    Numbers line_from(Size(size)), line_to(Size(size));
    for (std::int64_t u = 0; u < outer; ++u) {
      for (std::int64_t v = 0; v < inner; ++v) {
        for (const bool down : {false, true}) {
          const std::int64_t reach = down ? (size - 1) / 2 : size / 2;
          if (reach == 0) continue;
          const auto place = [&](std::int64_t i) { return down ? size - 1 - i : i; };
          for (std::int64_t i = 0; i < size; ++i) {
            line_from[Size(i)] = from[Size(u * size + place(i))];
            line_to[Size(i)] = to[Size(place(i) * inner + v)];
          }
          const Numbers line = LineLoads(line_from, line_to, reach);
          for (std::int64_t i = 0; i < size; ++i) {
            if (line[Size(i)] == 0) continue;
            const std::int64_t member = (u * size + place(i)) * inner + v;
            gather.Add(network.Hop(spot, member, d, down),
                       static_cast<double>(line[Size(i)]) * bytes_each);
          }
        }
      }
    }
  }
  gather.AppendTo(loads);
}

}  // namespace heddle
