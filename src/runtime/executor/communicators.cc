#include "runtime/executor/communicators.h"

#include <algorithm>
#include <set>

#include "base/check.h"

namespace heddle {

Communicators::Communicators(const Program& program, int64_t device, Transport& transport)
    : transport_(transport) {
  std::set<std::vector<int64_t>> all;
  for (const DeviceProgram& run : program.runs) {
    for (const Instruction& instruction : run.instructions) {
      for (int64_t member : run.devices) {
        std::vector<int64_t> ranks = CollectiveOf(program, instruction, member).ranks;
        if (std::find(ranks.begin(), ranks.end(), device) != ranks.end())
          all.insert(std::move(ranks));
      }
    }
  }
  for (const std::vector<int64_t>& ranks : all) {
    std::vector<int> members(ranks.begin(), ranks.end());
    groups_[ranks] = transport.AddGroup(members);
  }
}

Ticket Communicators::Start(const Program& program, const Instruction& i, int64_t device,
                            Reduction reduction, const at::Tensor& give,
                            const at::Tensor& get) const {
  Payload payload = CollectiveOf(program, i, device);
  HEDDLE_CHECK_EQ(payload.bytes, give.numel() * static_cast<int64_t>(give.element_size()));
  return transport_.Start(payload.kind, reduction, groups_.at(payload.ranks), give, get);
}

at::Tensor Communicators::GatherWhole(const Program& program, StageId stage, ParameterGroupId group,
                                      int64_t device, const at::Tensor& chunk,
                                      int64_t elements) const {
  Instruction gather;
  gather.op = Opcode::kGatherWeights;
  gather.stage = stage;
  gather.target = group;
  at::Tensor whole = at::empty({elements}, chunk.options());
  Ticket ticket =
      transport_.Start(CollectiveKind::kAllGather, Reduction::kSum,
                       groups_.at(CollectiveOf(program, gather, device).ranks), chunk, whole);
  transport_.Wait(ticket);
  return whole;
}

void Communicators::MaximumOverAll(const Program& program, at::Tensor& numbers) const {
  std::vector<int64_t> all;
  for (int64_t rank = 0; rank < program.device_count(); ++rank) all.push_back(rank);
  Ticket ticket = transport_.Start(CollectiveKind::kAllReduce, Reduction::kMax, groups_.at(all),
                                   numbers, numbers);
  transport_.Wait(ticket);
}

}  // namespace heddle
