// The conformance suite of transports: bodies that each rank runs; a body throws where a result is wrong. It needs no
// test framework, so that the same bodies run in threads and under mpirun.
//
// Values are small integers whose sums over 8 ranks are exact in every dtype: results do not depend on the order of
// summation and are compared for equality.
#pragma once

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/transport/transport.h"

namespace heddle::conformance {

template <class... Args>
void Expect(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) throw std::logic_error(fmt::format(format, std::forward<Args>(args)...));
}

// The device on which the calling thread makes its tensors.
inline at::Device& TestDevice() {
  static thread_local at::Device device = at::kCPU;
  return device;
}
inline at::TensorOptions Of(at::ScalarType type) {
  return at::TensorOptions(type).device(TestDevice());
}

inline std::vector<int> AllRanks(const Transport& transport) {
  std::vector<int> ranks;
  for (int r = 0; r < transport.size(); ++r) ranks.push_back(r);
  return ranks;
}

// Calls with different `salt` give different values.
inline at::Tensor Values(int rank, int64_t elements, at::ScalarType type, int64_t salt = 0) {
  at::Tensor values =
      at::arange(elements, Of(at::kLong)).mul(3).add(7 * rank + 5 * salt).remainder(11).sub(3);
  return type == at::kBool ? values.gt(4) : values.to(type);
}

// A collective of n elements (in the sense of plan/collective.h) as one member sees it, and its expected result.
struct Case {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  Reduction reduction = Reduction::kSum;
  int64_t elements = 1;
  at::ScalarType type = at::kFloat;
  int64_t salt = 0;

  bool Shared() const {
    return kind == CollectiveKind::kReduceScatter || kind == CollectiveKind::kAllToAll;
  }

  at::Tensor Give(int rank, int64_t members) const {
    return Values(rank, Shared() ? members * elements : elements, type, salt);
  }

  at::Tensor Get(int64_t members) const {
    bool wide = kind == CollectiveKind::kAllGather || kind == CollectiveKind::kAllToAll;
    return Values(99, wide ? members * elements : elements, type, salt);  // must be overwritten
  }

  at::Tensor Reduced(std::span<const int> ranks) const {
    at::Tensor result;
    for (int rank : ranks) {
      at::Tensor give = Give(rank, static_cast<int64_t>(ranks.size()));
      if (!result.defined()) {
        result = give;
      } else if (reduction == Reduction::kMax) {
        result = at::maximum(result, give);
      } else {
        result = type == at::kBool ? at::logical_or(result, give) : at::add(result, give);
      }
    }
    return result;
  }

  at::Tensor Want(std::span<const int> ranks, int rank) const {
    const auto members = static_cast<int64_t>(ranks.size());
    const int64_t place = std::find(ranks.begin(), ranks.end(), rank) - ranks.begin();
    std::vector<at::Tensor> parts;
    switch (kind) {
      case CollectiveKind::kAllReduce:
        return Reduced(ranks);
      case CollectiveKind::kReduceScatter:
        return Reduced(ranks).slice(0, place * elements, (place + 1) * elements);
      case CollectiveKind::kReduce:
        return place == 0 ? Reduced(ranks) : Get(members);  // the others' stays as it is
      case CollectiveKind::kBroadcast:
        return Give(ranks[0], members);
      case CollectiveKind::kAllGather:
        for (int giver : ranks) parts.push_back(Give(giver, members));
        return at::cat(parts);
      case CollectiveKind::kAllToAll:
        for (int giver : ranks) {
          parts.push_back(Give(giver, members).slice(0, place * elements, (place + 1) * elements));
        }
        return at::cat(parts);
    }
    return {};
  }

  std::string Text() const {
    return fmt::format("{}{} of {} {}", Name(kind), reduction == Reduction::kMax ? " (max)" : "",
                       elements, c10::toString(type));
  }
};

// A case that one rank has started.
struct Running {
  Running(Transport& transport, GroupHandle group, const Case& c) : what(c), group(group) {
    const auto members = static_cast<int64_t>(transport.members(group).size());
    give = c.Give(transport.rank(), members);
    get = c.Get(members);
    ticket = transport.Start(c.kind, c.reduction, group, give, get);
  }

  void Finish(Transport& transport) {
    transport.Wait(ticket);
    std::span<const int> ranks = transport.members(group);
    Expect(at::equal(get, what.Want(ranks, transport.rank())),
           "{} among ranks {}: rank {} got something else", what.Text(), JoinRanks(ranks),
           transport.rank());
    Expect(at::equal(give, what.Give(transport.rank(), static_cast<int64_t>(ranks.size()))),
           "{}: what rank {} gave has changed", what.Text(), transport.rank());
  }

  Case what;
  GroupHandle group;
  at::Tensor give, get;
  Ticket ticket;
};

constexpr std::array kKinds = {CollectiveKind::kAllReduce,     CollectiveKind::kAllGather,
                               CollectiveKind::kReduceScatter, CollectiveKind::kAllToAll,
                               CollectiveKind::kBroadcast,     CollectiveKind::kReduce};

inline void EveryKindSizeAndType(Transport& transport) {
  std::vector<int> ranks = AllRanks(transport);
  std::rotate(ranks.begin(), ranks.begin() + transport.size() / 2, ranks.end());
  GroupHandle group = transport.AddGroup(ranks);
  const std::array types = {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf,
                            at::kLong,  at::kInt,    at::kBool};
  for (at::ScalarType type : types) {
    for (int64_t elements : {0, 1, 2, 7, 1000, 65536 + 3}) {
      if (elements > 1000 && type != at::kFloat && type != at::kBFloat16) continue;
      for (CollectiveKind kind : kKinds) {
        if (elements * transport.size() > 300'000 && kind != CollectiveKind::kAllReduce) continue;
        for (Reduction reduction : {Reduction::kSum, Reduction::kMax}) {
          if (reduction == Reduction::kMax && kind != CollectiveKind::kAllReduce &&
              kind != CollectiveKind::kReduceScatter && kind != CollectiveKind::kReduce) {
            continue;
          }
          Running(transport, group, {kind, reduction, elements, type}).Finish(transport);
        }
      }
    }
  }
}

// All ranks, reversed; the even ones; a ring of overlapping pairs; twice the same list; every rank alone.
inline std::vector<GroupHandle> AddManyGroups(Transport& transport) {
  std::vector<std::vector<int>> lists;
  std::vector<int> all = AllRanks(transport), even;
  std::reverse(all.begin(), all.end());
  lists.insert(lists.end(), {all, all});
  for (int r = 0; r < transport.size(); ++r) {
    if (r % 2 == 0) even.push_back(r);
    lists.push_back({r});
    if (transport.size() > 1) lists.push_back({(r + 1) % transport.size(), r});
  }
  lists.push_back(even);
  std::vector<GroupHandle> groups;
  for (const std::vector<int>& list : lists) {
    if (std::find(list.begin(), list.end(), transport.rank()) == list.end()) continue;
    groups.push_back(transport.AddGroup(list));
    Expect(JoinRanks(transport.members(groups.back())) == JoinRanks(list), "members of {}",
           JoinRanks(list));
  }
  return groups;
}

// Ranks take the groups in different orders and wait in different orders.
inline void ManyGroupsInFlight(Transport& transport) {
  std::vector<GroupHandle> groups = AddManyGroups(transport);
  std::mt19937 random(static_cast<unsigned>(transport.rank()) + 1);
  for (int round = 0; round < 4; ++round) {
    std::vector<Running> running;
    std::shuffle(groups.begin(), groups.end(), random);
    for (int64_t number = 0; number < 6; ++number) {
      for (GroupHandle group : groups) {
        const CollectiveKind kind = kKinds[static_cast<size_t>(number + round) % kKinds.size()];
        running.emplace_back(
            transport, group,
            Case{.kind = kind, .elements = 1 + 50 * number, .type = at::kFloat, .salt = number});
      }
    }
    std::shuffle(running.begin(), running.end(), random);
    for (Running& one : running) one.Finish(transport);
  }
}

inline void InPlace(Transport& transport) {
  std::vector<int> ranks = AllRanks(transport);
  GroupHandle group = transport.AddGroup(ranks);
  GroupHandle alone = transport.AddGroup(std::vector<int>{transport.rank()});
  for (at::ScalarType type : {at::kFloat, at::kBFloat16, at::kLong}) {
    for (CollectiveKind kind :
         {CollectiveKind::kAllReduce, CollectiveKind::kBroadcast, CollectiveKind::kReduce}) {
      const Case what = {.kind = kind, .elements = 40'001, .type = type};
      at::Tensor x = what.Give(transport.rank(), transport.size()).view({1, -1, 1});
      Ticket ticket = transport.Start(kind, Reduction::kSum, group, x, x);
      transport.Wait(ticket);
      transport.Wait(ticket);  // again is harmless
      const bool keeps = kind == CollectiveKind::kReduce && transport.rank() != ranks[0];
      Expect(at::equal(x.view({-1}), keeps ? what.Give(transport.rank(), transport.size())
                                           : what.Want(ranks, transport.rank())),
             "{} in place", what.Text());
      at::Tensor before = x.clone();
      ticket = transport.Start(kind, Reduction::kSum, alone, x, x);
      Expect(transport.Done(ticket) && at::equal(x, before), "{} in place, alone", what.Text());
    }
  }
}

// bf16 and f16 are rounded once; the largest of NaN and numbers is NaN.
inline void Rounding(Transport& transport) {
  GroupHandle group = transport.AddGroup(AllRanks(transport));
  for (at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const double large = type == at::kBFloat16 ? 256 : 2048;
    at::Tensor x = at::full({33}, transport.rank() == 0 ? large : 1, Of(type));
    Ticket ticket = transport.Start(CollectiveKind::kAllReduce, Reduction::kSum, group, x, x);
    transport.Wait(ticket);
    Expect(at::equal(x, at::full({33}, large + transport.size() - 1, Of(at::kDouble)).to(type)),
           "{} and ones sum to {}", large, x[0].item<double>());
  }
  for (at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    for (int who = 0; who < transport.size(); ++who) {
      at::Tensor x = at::full({3}, transport.rank(), Of(type));
      if (who == transport.rank()) x[1] = std::numeric_limits<double>::quiet_NaN();
      Ticket ticket = transport.Start(CollectiveKind::kAllReduce, Reduction::kMax, group, x, x);
      transport.Wait(ticket);
      Expect(x[0].item<double>() == transport.size() - 1 && std::isnan(x[1].item<double>()),
             "maximum of {} with NaN from rank {}", c10::toString(type), who);
    }
  }
}

// Sums that depend on their order have the same bits on every rank and at every time.
inline void SameBits(Transport& transport) {
  GroupHandle group = transport.AddGroup(AllRanks(transport));
  const auto members = static_cast<int64_t>(transport.size());
  for (int64_t elements : {5, 70'000}) {
    at::Tensor give = at::sin(at::arange(elements, Of(at::kDouble)).add(1000.0 * transport.rank()))
                          .to(at::kFloat);
    at::Tensor get = at::empty_like(give), all = at::empty({2 * members, elements}, Of(at::kFloat));
    for (int64_t time = 0; time < 2; ++time) {
      Ticket sum = transport.Start(CollectiveKind::kAllReduce, Reduction::kSum, group, give, get);
      transport.Wait(sum);
      at::Tensor half = all.slice(0, time * members, (time + 1) * members);
      Ticket gather =
          transport.Start(CollectiveKind::kAllGather, Reduction::kSum, group, get, half);
      transport.Wait(gather);
    }
    for (int64_t row = 1; row < 2 * members; ++row) {
      Expect(at::equal(all[row], all[0]), "the sum of rank {} differs from that of rank 0",
             row % members);
    }
    at::Tensor want = at::zeros({elements}, Of(at::kDouble));
    for (int64_t r = 0; r < members; ++r) {
      want += at::sin(at::arange(elements, Of(at::kDouble)).add(1000.0 * static_cast<double>(r)));
    }
    Expect(at::allclose(all[0].to(at::kDouble), want, 1e-5, 1e-5), "the sum of {} floats is off",
           elements);
  }
}

// Every rank with every rank, itself included, both ways at once; tags received in another order than sent; two
// messages with one tag, in order.
inline void Messages(Transport& transport) {
  struct Arriving {
    at::Tensor get, want;
    Ticket ticket;
  };
  const std::array<int64_t, 4> sizes = {0, 3, 50'000, 1};
  std::vector<at::Tensor> kept;
  std::vector<Ticket> sent;
  std::vector<Arriving> arriving;
  auto message = [&](int from, int to, int tag, int64_t number) {
    const at::ScalarType type = tag % 2 == 0 ? at::kFloat : at::kBFloat16;
    return Values(from, sizes[static_cast<size_t>(tag)], type, 10 * to + number);
  };
  for (int peer = 0; peer < transport.size(); ++peer) {
    for (int step = 0; step < 8; ++step) {
      const int tag = step % 4, number = step / 4;
      kept.push_back(message(transport.rank(), peer, tag, number));
      sent.push_back(transport.Send(peer, tag, kept.back()));
    }
  }
  for (int peer = transport.size() - 1; peer >= 0; --peer) {
    for (int step = 0; step < 8; ++step) {
      const int tag = 3 - step % 4, number = step / 4;
      at::Tensor want = message(peer, transport.rank(), tag, number);
      at::Tensor get = at::zeros_like(want);
      arriving.push_back({get, want, transport.Recv(peer, tag, get)});
    }
  }
  for (Ticket& ticket : sent) transport.Wait(ticket);
  std::reverse(arriving.begin(), arriving.end());
  for (Arriving& one : arriving) {
    transport.Wait(one.ticket);
    Expect(at::equal(one.get, one.want), "rank {} got a wrong message", transport.rank());
  }
}

// A rank that waits for something else, or polls, holds up no collective it has started.
inline void ProgressElsewhere(Transport& transport) {
  GroupHandle group = transport.AddGroup(AllRanks(transport));
  Running sum(transport, group, {.elements = 70'001});
  at::Tensor word = at::ones({1}, Of(at::kFloat));
  if (transport.rank() == 0) {
    for (int peer = 1; peer < transport.size(); ++peer) {
      Ticket ticket = transport.Recv(peer, 0, word);
      transport.Wait(ticket);
    }
    sum.Finish(transport);
  } else {
    while (!transport.Done(sum.ticket)) {
    }
    sum.Finish(transport);
    Ticket ticket = transport.Send(0, 0, word);
    transport.Wait(ticket);
  }
  for (int i = 0; i < 10; ++i) transport.Barrier();
}

inline void CountsTraffic(Transport& transport) {
  std::vector<int> ranks = AllRanks(transport);
  std::reverse(ranks.begin(), ranks.end());
  const auto members = static_cast<int64_t>(ranks.size());
  TrafficCount want = transport.traffic();
  GroupHandle group = transport.AddGroup(ranks);
  GroupHandle alone = transport.AddGroup(std::vector<int>{transport.rank()});
  want.groups.resize(want.groups.size() + 2);
  for (CollectiveKind kind : kKinds) {
    for (int64_t elements : {0, 10, 3}) {
      const Case what = {.kind = kind, .elements = elements, .type = at::kBFloat16};
      Running(transport, group, what).Finish(transport);
      Running(transport, alone, what).Finish(transport);
    }
    const size_t index = static_cast<size_t>(kind);
    const bool shared = Case{.kind = kind}.Shared();
    const bool gives = kind != CollectiveKind::kBroadcast || transport.rank() == ranks[0];
    want.groups[group.index()][index] = {3, gives ? 26 * (shared ? members : 1) : 0};
    want.groups[alone.index()][index] = {3, 26};
  }
  const int next = (transport.rank() + 1) % transport.size();
  const int previous = (transport.rank() + transport.size() - 1) % transport.size();
  at::Tensor give = at::ones({6}, Of(at::kDouble)), get = at::zeros({6}, Of(at::kDouble));
  Ticket send = transport.Send(next, 1, give), receive = transport.Recv(previous, 1, get);
  transport.Wait(send);
  transport.Wait(receive);
  ++want.sent[static_cast<size_t>(next)].calls;
  want.sent[static_cast<size_t>(next)].bytes += 48;
  ++want.received[static_cast<size_t>(previous)].calls;
  want.received[static_cast<size_t>(previous)].bytes += 48;
  transport.Barrier();  // counts nothing
  Expect(transport.traffic() == want, "traffic of rank {} is counted wrongly", transport.rank());
}

struct Body {
  std::string_view name;
  void (*run)(Transport&);
};
constexpr std::array kBodies = {
    Body{"EveryKindSizeAndType", EveryKindSizeAndType},
    Body{"ManyGroupsInFlight", ManyGroupsInFlight},
    Body{"InPlace", InPlace},
    Body{"Rounding", Rounding},
    Body{"SameBits", SameBits},
    Body{"Messages", Messages},
    Body{"ProgressElsewhere", ProgressElsewhere},
    Body{"CountsTraffic", CountsTraffic},
};

}  // namespace heddle::conformance
