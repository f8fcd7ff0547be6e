#include "sim/classes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <map>

#include "base/check.h"
#include "base/hash.h"
#include "cluster/topology.h"

namespace heddle {
namespace {

uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9E3779B97F4A7C15u ^ (b + 0xD1B54A32D192ED03u + (a << 6) + (a >> 2));
  x ^= x >> 31;
  x *= 0xBF58476D1CE4E5B9u;
  x ^= x >> 29;
  return x;
}
uint64_t Bits(double value) { return std::bit_cast<uint64_t>(value); }

// Shares on a grid of which sums are exact, so that a folded link carries to the bit what its many copies carry.
double OnGrid(double share) {
  constexpr double kGrid = 0x1p36;
  return std::round(share * kGrid) / kGrid;
}

bool Even(const Mesh& mesh, const Sharding& sharding) {
  for (const ShardedDim& dim : sharding.dims) {
    for (const Parts& term : dim.terms) {
      for (const Part& part : term) {
        if (part.axes != 0 && part.size % GroupSize(mesh, part.axes) != 0) return false;
        for (size_t a = 0; a < mesh.axes.size(); ++a) {
          if (Contains(part.axes, a) && !mesh.axes[a].shares.empty()) return false;
        }
      }
    }
  }
  return true;
}

// What tells the devices of a stage's mesh apart: the sizes of blocks that are not all equal.
class Blocks {
 public:
  Blocks(const Program& program, const StageProgram& stage) : stage_(stage) {
    auto add = [&](const Sharding& sharding) {
      bool known = Even(stage.mesh, sharding) ||
                   std::find(shardings_.begin(), shardings_.end(), sharding) != shardings_.end();
      if (!known) shardings_.push_back(sharding);
    };
    for (size_t n = 0; n < stage.strategies.size(); ++n) {
      const Strategy& strategy = stage.strategies[n];
      for (size_t a = 0; a < strategy.size(); ++a) {
        if (!strategy[a].is_split()) continue;
        Part part{program.micro_rules[n].factors[strategy[a].factor_index()].size, 0};
        for (size_t b = 0; b < strategy.size(); ++b) {
          if (strategy[b] == strategy[a]) part.axes |= AxisSet(b);
        }
        add({.dims = {{{{part}}}}});
      }
    }
    for (const Local& local : stage.locals) add(local.sharding);
    for (const ParameterGroup& group : stage.groups) {
      for (const ParameterSlot& slot : group.slots) add(slot.sharding);
      if (group.server >= 0) served_.push_back(&group);
      for (const ParameterSlot& slot : group.slots) {
        bool differ = std::adjacent_find(slot.kept.begin(), slot.kept.end(),
                                         std::not_equal_to<>()) != slot.kept.end();
        if (differ) pruned_.push_back(&slot);
      }
    }
  }

  uint64_t At(int64_t device) const {
    if (shardings_.empty() && served_.empty() && pruned_.empty()) return 0;
    Position position = PositionIn(stage_, device);
    uint64_t hash = 1;
    for (const Sharding& sharding : shardings_) {
      for (int64_t size : LocalShape(stage_.mesh, sharding, position)) {
        hash = Mix(hash, static_cast<uint64_t>(size));
      }
    }
    for (const ParameterGroup* group : served_) {
      hash = Mix(hash, Updates(stage_, *group, position) ? 1 : 0);
    }
    for (const ParameterSlot* slot : pruned_) {
      hash = Mix(hash, static_cast<uint64_t>(KeptElements(stage_, *slot, position)));
    }
    return hash;
  }

 private:
  const StageProgram& stage_;
  std::vector<Sharding> shardings_;
  std::vector<const ParameterGroup*> served_;  // updated by one device of several
  std::vector<const ParameterSlot*> pruned_;   // whose shards keep unlike numbers of weights
};

struct Use {  // of a link by a group or message
  int who = 0;
  double share = 0;
};

class Refiner {
 public:
  Refiner(const Program& program, const Cluster& cluster, const Network& network,
          const Fabric& fabric, const SimOptions& options)
      : program_(program),
        cluster_(cluster),
        network_(network),
        fabric_(fabric),
        options_(options),
        poll_(options) {}

  Classes Run() {
    Gather();
    ThrowIfStopped(options_);
    Start();
    alone_ = device_;
    if (options_.fold) {
      size_t count = 0;
      for (size_t now = Count(); now != count; now = Count()) {
        count = now;
        ThrowIfStopped(options_);
        Refine();
      }
    } else {
      Separate();
    }
    return Quotient();
  }

 private:
  // Links in use, numbered anew, and who uses them. Loads are those of groups, then of messages.
  void Gather() {
    link_index_.assign(network_.link_count(), -1);
    auto use = [&](LinkId id, int who, double share) {
      poll_.Count();
      int& index = link_index_[id.index()];
      if (index < 0) {
        index = static_cast<int>(links_.size());
        links_.push_back(id);
        uses_.emplace_back();
      }
      uses_[static_cast<size_t>(index)].push_back({who, share});
      loads_[static_cast<size_t>(who)].push_back({index, share});
    };
    loads_.resize(fabric_.groups.size() + fabric_.messages.size());
    for (size_t g = 0; g < fabric_.groups.size(); ++g) {
      for (const LinkLoad& load : fabric_.groups[g].pattern.loads) {
        use(load.link, static_cast<int>(g), OnGrid(load.share));
      }
    }
    for (size_t m = 0; m < fabric_.messages.size(); ++m) {
      for (LinkId id : fabric_.messages[m].links) {
        use(id, static_cast<int>(fabric_.groups.size() + m), 1);
      }
    }
  }

  void Start() {
    int64_t devices = program_.device_count();
    device_.assign(static_cast<size_t>(devices), 0);
    slow_.assign(static_cast<size_t>(devices), 1);
    run_.assign(static_cast<size_t>(devices), 0);
    for (const Slow& slow : options_.slow) {
      if (!slow.link && slow.device < devices) {
        slow_[static_cast<size_t>(slow.device)] *= slow.factor;
      }
    }
    std::vector<uint64_t> kind(static_cast<size_t>(devices), 0);
    for (const DeviceRun& run : EqualRuns(cluster_)) {
      size_t end = std::min(run.first.index() + static_cast<size_t>(run.count), kind.size());
      for (size_t d = run.first.index(); d < end; ++d) kind[d] = run.type.index();
    }
    for (size_t r = 0; r < program_.runs.size(); ++r) {
      const DeviceProgram& run = program_.runs[r];
      std::vector<Blocks> blocks;
      for (StageId s : run.stages) blocks.emplace_back(program_, program_.stages[s]);
      for (int64_t device : run.devices) {
        poll_.Count();
        size_t d = static_cast<size_t>(device);
        uint64_t hash = Mix(Mix(r + 1, kind[d]), Bits(slow_[d]));
        for (const Blocks& of_stage : blocks) hash = Mix(hash, of_stage.At(device));
        device_[d] = hash;
        run_[d] = static_cast<int>(r);
      }
    }
    for (LinkId id : links_) {
      link_.push_back(Mix(Bits(network_.capacity(id)), static_cast<uint64_t>(network_.level(id))));
    }
    for (const CommGroup& group : fabric_.groups) {
      who_.push_back(Mix(static_cast<uint64_t>(group.channel), group.members.size()));
    }
    for (const CommMessage& message : fabric_.messages) {
      who_.push_back(Mix(static_cast<uint64_t>(message.transfer.value) + (1u << 20),
                         Mix(Bits(message.bytes), Bits(message.latency))));
    }
  }

  void Separate() {
    for (size_t d = 0; d < device_.size(); ++d) device_[d] = d;
    for (size_t l = 0; l < link_.size(); ++l) link_[l] = l;
    for (size_t w = 0; w < who_.size(); ++w) who_[w] = w;
  }

  void Refine() {
    std::vector<uint64_t> who(who_.size());
    for (size_t w = 0; w < who_.size(); ++w) {
      uint64_t sum = 0;
      poll_.Count(1 + loads_[w].size());
      for (const auto& [link, share] : loads_[w]) {
        sum += Mix(link_[static_cast<size_t>(link)], Bits(share));
      }
      if (w < fabric_.groups.size()) {
        for (int64_t member : fabric_.groups[w].members) {
          sum += Mix(device_[static_cast<size_t>(member)], 1);
        }
      } else {
        const CommMessage& message = fabric_.messages[w - fabric_.groups.size()];
        sum += Mix(device_[static_cast<size_t>(message.sender)], 2);
        sum += Mix(device_[static_cast<size_t>(message.receiver)], 3);
      }
      who[w] = Mix(who_[w], sum);
    }
    who_ = std::move(who);
    std::vector<uint64_t> device(device_.size(), 0);
    for (size_t g = 0; g < fabric_.groups.size(); ++g) {
      for (int64_t member : fabric_.groups[g].members) {
        device[static_cast<size_t>(member)] += Mix(who_[g], 1);
      }
    }
    for (size_t m = 0; m < fabric_.messages.size(); ++m) {
      uint64_t colour = who_[fabric_.groups.size() + m];
      device[static_cast<size_t>(fabric_.messages[m].sender)] += Mix(colour, 2);
      device[static_cast<size_t>(fabric_.messages[m].receiver)] += Mix(colour, 3);
    }
    for (size_t d = 0; d < device_.size(); ++d) device_[d] = Mix(device_[d], device[d]);
    for (size_t l = 0; l < link_.size(); ++l) {
      uint64_t sum = 0;
      poll_.Count(1 + uses_[l].size());
      for (const Use& use : uses_[l])
        sum += Mix(who_[static_cast<size_t>(use.who)], Bits(use.share));
      link_[l] = Mix(link_[l], sum);
    }
  }

  size_t Count() const { return Distinct(device_) + Distinct(link_) + Distinct(who_); }
  static size_t Distinct(std::vector<uint64_t> colours) {
    std::sort(colours.begin(), colours.end());
    return static_cast<size_t>(std::unique(colours.begin(), colours.end()) - colours.begin());
  }

  // Numbers for colours in the order in which they first occur.
  static std::vector<int> Numbered(const std::vector<uint64_t>& colours,
                                   std::vector<size_t>& first) {
    std::map<uint64_t, int> number;
    std::vector<int> numbers;
    numbers.reserve(colours.size());
    uint64_t before = 0;
    int last = -1;
    for (size_t i = 0; i < colours.size(); ++i) {
      if (last < 0 || colours[i] != before) {
        auto [found, fresh] = number.try_emplace(colours[i], static_cast<int>(first.size()));
        if (fresh) first.push_back(i);
        before = colours[i];
        last = found->second;
      }
      numbers.push_back(last);
    }
    return numbers;
  }

  Classes Quotient() const {
    Classes out;
    std::vector<size_t> devices, links, whos;
    out.class_of = Numbered(device_, devices);
    std::vector<int> link_class = Numbered(link_, links);
    std::vector<int> who_class = Numbered(who_, whos);
    std::map<uint64_t, int> alike;
    for (size_t d : devices) {
      int first = alike.try_emplace(alone_[d], static_cast<int>(out.devices.size())).first->second;
      out.devices.push_back({static_cast<int64_t>(d), 0, run_[d], slow_[d], first});
    }
    for (int c : out.class_of) ++out.devices[static_cast<size_t>(c)].count;
    for (size_t l : links) out.capacities.push_back(network_.capacity(links_[l]));
    for (size_t w : whos) {
      if (w < fabric_.groups.size()) {
        out.groups.push_back(GroupOf(w, out, link_class, who_class));
      } else {
        out.messages.push_back(MessageOf(w, out, link_class, who_class));
      }
    }
    Attach(out);
    return out;
  }

  std::vector<ClassLoad> LoadsOf(size_t w, const std::vector<int>& link_class,
                                 const std::vector<int>& who_class, int* level) const {
    std::vector<ClassLoad> loads;
    double worst = -1;
    for (const auto& [link, own] : loads_[w]) {
      size_t l = static_cast<size_t>(link);
      int of = link_class[l];
      bool known = std::any_of(loads.begin(), loads.end(),
                               [&](const ClassLoad& load) { return load.link == of; });
      if (known) continue;
      double weight = 0;
      for (const Use& use : uses_[l]) {
        if (who_class[static_cast<size_t>(use.who)] == who_class[w]) weight += use.share;
      }
      loads.push_back({of, weight});
      double seconds = weight / network_.capacity(links_[l]);
      if (seconds > worst) {
        worst = seconds;
        *level = network_.level(links_[l]);
      }
    }
    return loads;
  }

  GroupClass GroupOf(size_t w, const Classes& out, const std::vector<int>& link_class,
                     const std::vector<int>& who_class) const {
    const CommGroup& group = fabric_.groups[w];
    GroupClass made;
    made.channel = group.channel;
    for (int64_t member : group.members) {
      int c = out.class_of[static_cast<size_t>(member)];
      bool known = std::find(made.members.begin(), made.members.end(), c) != made.members.end();
      if (!known) made.members.push_back(c);
    }
    std::sort(made.members.begin(), made.members.end());
    made.loads = LoadsOf(w, link_class, who_class, &made.level);
    made.pattern = group.pattern;
    made.pattern.loads.clear();
    for (const LinkLoad& load : group.pattern.loads) {
      made.seconds_per_byte =
          std::max(made.seconds_per_byte, OnGrid(load.share) / network_.capacity(load.link));
    }
    return made;
  }

  MessageClass MessageOf(size_t w, const Classes& out, const std::vector<int>& link_class,
                         const std::vector<int>& who_class) const {
    const CommMessage& message = fabric_.messages[w - fabric_.groups.size()];
    MessageClass made{message.transfer,
                      out.class_of[static_cast<size_t>(message.sender)],
                      out.class_of[static_cast<size_t>(message.receiver)],
                      message.bytes,
                      message.latency,
                      {},
                      0};
    made.loads = LoadsOf(w, link_class, who_class, &made.level);
    return made;
  }

  void Attach(Classes& out) const {
    size_t count = out.devices.size();
    out.group_of.assign(count, std::vector<int>(fabric_.channels.size(), -1));
    out.sends.assign(count, IdVector<TransferId, std::vector<int>>(program_.transfers.size()));
    out.receives = out.sends;
    for (size_t g = 0; g < out.groups.size(); ++g) {
      for (int c : out.groups[g].members) {
        int& slot =
            out.group_of[static_cast<size_t>(c)][static_cast<size_t>(out.groups[g].channel)];
        HEDDLE_CHECK(slot < 0 || slot == static_cast<int>(g), "a device in two groups");
        slot = static_cast<int>(g);
      }
    }
    auto add = [](std::vector<int>& list, int item) {
      if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
    };
    for (size_t m = 0; m < out.messages.size(); ++m) {
      const MessageClass& message = out.messages[m];
      TransferId t = message.transfer;
      add(out.sends[static_cast<size_t>(message.sender)][t], static_cast<int>(m));
      add(out.receives[static_cast<size_t>(message.receiver)][t], static_cast<int>(m));
    }
  }

  const Program& program_;
  const Cluster& cluster_;
  const Network& network_;
  const Fabric& fabric_;
  const SimOptions& options_;
  StopPoll poll_;
  std::vector<int> link_index_;
  std::vector<LinkId> links_;
  std::vector<std::vector<Use>> uses_;                      // per link in use
  std::vector<std::vector<std::pair<int, double>>> loads_;  // per group, then message
  std::vector<uint64_t> device_, link_, who_;               // colours
  std::vector<uint64_t> alone_;                             // of devices, without neighbours
  std::vector<double> slow_;
  std::vector<int> run_;
};

}  // namespace

Classes FindClasses(const Program& program, const Cluster& cluster, const Network& network,
                    const Fabric& fabric, const SimOptions& options) {
  return Refiner(program, cluster, network, fabric, options).Run();
}

}  // namespace heddle
