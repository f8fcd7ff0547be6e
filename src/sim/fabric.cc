#include "sim/fabric.h"

#include <algorithm>
#include <map>
#include <utility>

#include "plan/message_sizes.h"

namespace heddle {
namespace {

class Finder {
 public:
  Finder(const Program& program, const Network& network, const SimOptions& options)
      : program_(program), network_(network), poll_(options) {}

  Fabric Run() {
    by_stage_.resize(program_.stages.size());
    for (const DeviceProgram& run : program_.runs) {
      std::vector<int> channels;
      channels.reserve(run.instructions.size());
      for (const Instruction& at : run.instructions) channels.push_back(ChannelOf(at));
      fabric_.channel_of.push_back(std::move(channels));
    }
    for (TransferId id : program_.transfers.ids()) AddMessages(id);
    return std::move(fabric_);
  }

 private:
  const StageProgram& stage(StageId s) const { return program_.stages[s]; }

  int ChannelOf(const Instruction& at) {
    switch (at.op) {
      case Opcode::kReport:
        return ReportChannel();
      case Opcode::kSyncTied:
        return TiedChannel(at.tied());
      case Opcode::kReshard: {
        const StageProgram& on = stage(at.stage);
        const ReshardStep& step = on.steps[on.locals[at.local()].As<FromReshard>().step];
        if (IsLocal(step.kind)) return -1;
        return AxesChannel(at.stage, step.axes, step.kind == StepKind::kAllToAll);
      }
      case Opcode::kReduceGradients: {
        const ParameterGroup& group = stage(at.stage).groups[at.group()];
        return AxesChannel(at.stage, group.zero == 0 ? group.reduce_axes : group.zero_axes, false);
      }
      case Opcode::kReduceShards: {
        const ParameterGroup& group = stage(at.stage).groups[at.group()];
        return AxesChannel(at.stage, group.reduce_axes & ~group.zero_axes, false);
      }
      case Opcode::kGatherWeights: {
        const ParameterGroup& group = stage(at.stage).groups[at.group()];
        return AxesChannel(at.stage, group.zero == 0 ? group.reduce_axes : group.zero_axes, false);
      }
      default:
        return -1;
    }
  }

  int AddChannel(Channel channel) {
    fabric_.channels.push_back(channel);
    return static_cast<int>(fabric_.channels.size()) - 1;
  }

  void AddGroup(int channel, std::vector<int64_t> members) {
    poll_.Count(members.size());
    std::vector<DeviceId> devices;
    devices.reserve(members.size());
    for (int64_t member : members) devices.push_back(DeviceId{static_cast<int>(member)});
    bool all_to_all = fabric_.channels[static_cast<size_t>(channel)].all_to_all;
    Pattern pattern =
        all_to_all ? AllToAllPattern(network_, devices) : RingPattern(network_, devices);
    fabric_.groups.push_back({channel, std::move(members), std::move(pattern)});
  }

  // Stages on one mesh share their communicators.
  int AxesChannel(StageId s, AxisMask axes, bool all_to_all) {
    size_t slot = axes * 2 + (all_to_all ? 1 : 0);
    std::vector<int>& table = by_stage_[s];
    if (table.empty()) table.assign(size_t{2} << kMaxAxes, kUnknown);
    if (table[slot] != kUnknown) return table[slot];
    // The last chunk of a device reduces its gradients first, so any stage may have created the communicator.
    for (StageId other : by_stage_.ids()) {
      if (table[slot] != kUnknown) break;
      const std::vector<int>& known = by_stage_[other];
      if (!known.empty() && program_.stages[other].mesh == stage(s).mesh) table[slot] = known[slot];
    }
    if (table[slot] != kUnknown) return table[slot];
    const Mesh& mesh = stage(s).mesh;
    if (GroupSize(mesh, axes) == 1) return table[slot] = -1;
    int channel = AddChannel({.all_to_all = all_to_all});
    for (int64_t index = 0; index < mesh.size(); ++index) {
      if (!IsFirstOfGroup(mesh, index, axes)) continue;
      std::vector<int64_t> members = AxisGroup(mesh, index, axes);
      for (int64_t& member : members) member = DeviceAt(mesh, member);
      AddGroup(channel, std::move(members));
    }
    return table[slot] = channel;
  }

  int ReportChannel() {
    if (report_ != kUnknown) return report_;
    int64_t devices = program_.device_count();
    if (devices == 1) return report_ = -1;
    report_ = AddChannel({.report = true});
    std::vector<int64_t> members;
    for (int64_t device = 0; device < devices; ++device) members.push_back(device);
    AddGroup(report_, std::move(members));
    return report_;
  }

  // Joins place i of every mesh that holds the parameter with places i of the others.
  int TiedChannel(TiedGroupId tied) {
    auto found = tied_.find(tied);
    if (found != tied_.end()) return found->second;
    const TiedGroup& group = program_.tied[tied];
    std::map<std::vector<int64_t>, StageId> firsts;  // by devices
    for (const auto& [holder, held] : group.holders) {
      firsts[DevicesOf(stage(holder).mesh)] = holder;
    }
    if (firsts.size() == 1) return tied_[tied] = -1;
    int channel = AddChannel({.tied = tied});
    int64_t size = stage(group.holders.front().first).mesh.size();
    for (int64_t index = 0; index < size; ++index) {
      std::vector<int64_t> members;
      for (const auto& [devices, holder] : firsts) {
        members.push_back(devices[static_cast<size_t>(index)]);
      }
      std::sort(members.begin(), members.end());
      AddGroup(channel, std::move(members));
    }
    return tied_[tied] = channel;
  }

  // Stages of the same shape exchange values of the same sharding in the same way.
  const std::vector<MessageSize>& SizesOf(MeshTransfer transfer) {
    transfer.from_mesh.first = transfer.to_mesh.first = 0;
    transfer.from_mesh.named.clear();
    transfer.to_mesh.named.clear();
    for (const auto& [known, sizes] : sizes_) {
      if (known == transfer) return sizes;
    }
    sizes_.push_back({transfer, MessageSizes(transfer, [this] { poll_.Count(); })});
    return sizes_.back().second;
  }

  void AddMessages(TransferId id) {
    const StageTransfer& transfer = program_.transfers[id];
    const StageProgram& from = stage(transfer.from_stage);
    const StageProgram& to = stage(transfer.to_stage);
    const Local& local = from.locals[transfer.from_local];
    double size = static_cast<double>(SizeOf(local.dtype));
    for (const MessageSize& message :
         SizesOf({from.mesh, to.mesh, local.sharding, to.locals[transfer.to_local].sharding})) {
      poll_.Count();
      CommMessage sent{id,
                       DeviceAt(from.mesh, message.from),
                       DeviceAt(to.mesh, message.to),
                       size * static_cast<double>(message.elements),
                       {},
                       0};
      if (sent.sender != sent.receiver) {
        Network::Route route = network_.RouteBetween(DeviceId{static_cast<int>(sent.sender)},
                                                     DeviceId{static_cast<int>(sent.receiver)});
        sent.links = std::move(route.links);
        sent.latency = route.latency;
      }
      fabric_.messages.push_back(std::move(sent));
    }
  }

  static constexpr int kUnknown = -2;

  const Program& program_;
  const Network& network_;
  StopPoll poll_;
  Fabric fabric_;
  IdVector<StageId, std::vector<int>> by_stage_;  // per stage, by axes and pattern
  std::map<TiedGroupId, int> tied_;
  std::vector<std::pair<MeshTransfer, std::vector<MessageSize>>> sizes_;
  int report_ = kUnknown;
};

}  // namespace

Fabric FindFabric(const Program& program, const Network& network, const SimOptions& options) {
  return Finder(program, network, options).Run();
}

}  // namespace heddle
