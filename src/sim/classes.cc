#include "sim/classes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "base/check.h"
#include "base/hash.h"
#include "cluster/topology.h"
#include "sim/device_blocks.h"

namespace heddle {
namespace {

uint64_t Bits(double value) { return std::bit_cast<uint64_t>(value); }

// Rounds a share to a grid on which sums are exact, so that a folded link carries bit for bit what its copies carry.
double OnGrid(double share) {
  constexpr double kGrid = 0x1p36;
  return std::round(share * kGrid) / kGrid;
}

// One use of a link by a group or message, which has the number `comm` in Refiner::loads_.
struct Use {
  int comm = 0;
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
    own_colours_ = device_;
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
  // Collects the links in use, with new numbers, and their users. Loads are numbered by groups and then messages.
  void Gather() {
    link_index_.assign(network_.link_count(), -1);
    auto use = [&](LinkId id, int comm, double share) {
      poll_.Count();
      int& index = link_index_[id.index()];
      if (index < 0) {
        index = static_cast<int>(links_.size());
        links_.push_back(id);
        uses_.emplace_back();
      }
      uses_[static_cast<size_t>(index)].push_back({comm, share});
      loads_[static_cast<size_t>(comm)].push_back({index, share});
    };
    loads_.resize(fabric_.groups.size() + fabric_.messages.size());
    for (size_t g = 0; g < fabric_.groups.size(); ++g) {
      loads_[g].reserve(fabric_.groups[g].pattern.loads.size());
      for (const LinkLoad& load : fabric_.groups[g].pattern.loads) {
        use(load.link, static_cast<int>(g), OnGrid(load.share));
      }
    }
    for (size_t m = 0; m < fabric_.messages.size(); ++m) {
      loads_[fabric_.groups.size() + m].reserve(fabric_.messages[m].links.size());
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
      std::vector<DeviceBlocks> blocks;
      for (StageId s : run.stages) blocks.emplace_back(program_, program_.stages[s]);
      for (int64_t device : run.devices) {
        poll_.Count();
        size_t d = static_cast<size_t>(device);
        uint64_t hash = MixHashes(MixHashes(r + 1, kind[d]), Bits(slow_[d]));
        for (const DeviceBlocks& of_stage : blocks) hash = MixHashes(hash, of_stage.At(device));
        device_[d] = hash;
        run_[d] = static_cast<int>(r);
      }
    }
    for (LinkId id : links_) {
      link_.push_back(
          MixHashes(Bits(network_.capacity(id)), static_cast<uint64_t>(network_.level(id))));
    }
    for (const CommGroup& group : fabric_.groups) {
      comm_.push_back(MixHashes(static_cast<uint64_t>(group.channel), group.members.size()));
    }
    for (const CommMessage& message : fabric_.messages) {
      comm_.push_back(MixHashes(static_cast<uint64_t>(message.transfer.value) + (1u << 20),
                                MixHashes(Bits(message.bytes), Bits(message.latency))));
    }
  }

  void Separate() {
    for (size_t d = 0; d < device_.size(); ++d) device_[d] = d;
    for (size_t l = 0; l < link_.size(); ++l) link_[l] = l;
    for (size_t w = 0; w < comm_.size(); ++w) comm_[w] = w;
  }

  void Refine() {
    std::vector<uint64_t> comm(comm_.size());
    for (size_t w = 0; w < comm_.size(); ++w) {
      uint64_t sum = 0;
      poll_.Count(1 + loads_[w].size());
      for (const auto& [link, share] : loads_[w]) {
        sum += MixHashes(link_[static_cast<size_t>(link)], Bits(share));
      }
      if (w < fabric_.groups.size()) {
        for (int64_t member : fabric_.groups[w].members) {
          sum += MixHashes(device_[static_cast<size_t>(member)], 1);
        }
      } else {
        const CommMessage& message = fabric_.messages[w - fabric_.groups.size()];
        sum += MixHashes(device_[static_cast<size_t>(message.sender)], 2);
        sum += MixHashes(device_[static_cast<size_t>(message.receiver)], 3);
      }
      comm[w] = MixHashes(comm_[w], sum);
    }
    comm_ = std::move(comm);
    std::vector<uint64_t> device(device_.size(), 0);
    for (size_t g = 0; g < fabric_.groups.size(); ++g) {
      for (int64_t member : fabric_.groups[g].members) {
        device[static_cast<size_t>(member)] += MixHashes(comm_[g], 1);
      }
    }
    for (size_t m = 0; m < fabric_.messages.size(); ++m) {
      uint64_t colour = comm_[fabric_.groups.size() + m];
      device[static_cast<size_t>(fabric_.messages[m].sender)] += MixHashes(colour, 2);
      device[static_cast<size_t>(fabric_.messages[m].receiver)] += MixHashes(colour, 3);
    }
    for (size_t d = 0; d < device_.size(); ++d) device_[d] = MixHashes(device_[d], device[d]);
    for (size_t l = 0; l < link_.size(); ++l) {
      uint64_t sum = 0;
      poll_.Count(1 + uses_[l].size());
      for (const Use& use : uses_[l])
        sum += MixHashes(comm_[static_cast<size_t>(use.comm)], Bits(use.share));
      link_[l] = MixHashes(link_[l], sum);
    }
  }

  size_t Count() const { return Distinct(device_) + Distinct(link_) + Distinct(comm_); }
  static size_t Distinct(std::vector<uint64_t> colours) {
    std::sort(colours.begin(), colours.end());
    return static_cast<size_t>(std::unique(colours.begin(), colours.end()) - colours.begin());
  }

  // Numbers colours in the order in which they first occur.
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
    std::vector<size_t> devices, links, comms;
    out.class_of = Numbered(device_, devices);
    std::vector<int> link_class = Numbered(link_, links);
    std::vector<int> comm_class = Numbered(comm_, comms);
    std::map<uint64_t, int> alike;
    for (size_t d : devices) {
      int first =
          alike.try_emplace(own_colours_[d], static_cast<int>(out.devices.size())).first->second;
      out.devices.push_back({static_cast<int64_t>(d), 0, run_[d], slow_[d], first});
    }
    for (int c : out.class_of) ++out.devices[static_cast<size_t>(c)].count;
    for (size_t l : links) out.capacities.push_back(network_.capacity(links_[l]));
    for (size_t w : comms) {
      if (w < fabric_.groups.size()) {
        out.groups.push_back(GroupOf(w, out, link_class, comm_class));
      } else {
        out.messages.push_back(MessageOf(w, out, link_class, comm_class));
      }
    }
    Attach(out);
    return out;
  }

  std::vector<ClassLoad> LoadsOf(size_t w, const std::vector<int>& link_class,
                                 const std::vector<int>& comm_class, int* level) const {
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
        if (comm_class[static_cast<size_t>(use.comm)] == comm_class[w]) weight += use.share;
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
                     const std::vector<int>& comm_class) const {
    const CommGroup& group = fabric_.groups[w];
    GroupClass made;
    made.channel = group.channel;
    for (int64_t member : group.members) {
      int c = out.class_of[static_cast<size_t>(member)];
      bool known = std::find(made.members.begin(), made.members.end(), c) != made.members.end();
      if (!known) made.members.push_back(c);
    }
    std::sort(made.members.begin(), made.members.end());
    made.loads = LoadsOf(w, link_class, comm_class, &made.level);
    made.pattern = group.pattern;
    made.pattern.loads.clear();
    for (const LinkLoad& load : group.pattern.loads) {
      made.seconds_per_byte =
          std::max(made.seconds_per_byte, OnGrid(load.share) / network_.capacity(load.link));
    }
    return made;
  }

  MessageClass MessageOf(size_t w, const Classes& out, const std::vector<int>& link_class,
                         const std::vector<int>& comm_class) const {
    const CommMessage& message = fabric_.messages[w - fabric_.groups.size()];
    MessageClass made{message.transfer,
                      out.class_of[static_cast<size_t>(message.sender)],
                      out.class_of[static_cast<size_t>(message.receiver)],
                      message.bytes,
                      message.latency,
                      {},
                      0};
    made.loads = LoadsOf(w, link_class, comm_class, &made.level);
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
        HEDDLE_CHECK(slot < 0 || slot == static_cast<int>(g),
                     "a device is in two groups of one channel");
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
  std::vector<std::vector<Use>> uses_;                      // for each link in use
  std::vector<std::vector<std::pair<int, double>>> loads_;  // for each group, then for each message
  std::vector<uint64_t> device_, link_, comm_;              // colours
  std::vector<uint64_t> own_colours_;                       // colours of devices before refinement
  std::vector<double> slow_;
  std::vector<int> run_;
};

}  // namespace

Classes FindClasses(const Program& program, const Cluster& cluster, const Network& network,
                    const Fabric& fabric, const SimOptions& options) {
  return Refiner(program, cluster, network, fabric, options).Run();
}

}  // namespace heddle
