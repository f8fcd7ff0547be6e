#include "runtime/transport/nccl.h"

#include "base/error.h"

#ifndef HEDDLE_WITH_NCCL

namespace heddle {

bool HasNccl() { return false; }

std::unique_ptr<Transport> MakeNcclTransport(Transport&, at::Device, const NcclOptions&) {
  ThrowRun("this heddle was built without NCCL");
}

}  // namespace heddle

#else

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/cuda/CUDAStream.h>
#include <fmt/format.h>
#include <nccl.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "base/check.h"
#include "runtime/accelerator.h"

namespace heddle {
namespace {

// Floats as integers in the same order, a NaN above all; and back.
at::Tensor ToOrdered(const at::Tensor& x) {
  const bool wide = x.scalar_type() == at::kDouble;
  const at::Tensor bits = x.view(wide ? at::kLong : at::kInt);
  const int64_t most =
      wide ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int32_t>::max();
  const at::Tensor flips = bits.lt(0).to(bits.scalar_type()).mul(most);
  return at::bitwise_xor(bits, flips).masked_fill(at::isnan(x), most);
}
at::Tensor FromOrdered(const at::Tensor& ordered) {
  const bool wide = ordered.scalar_type() == at::kLong;
  const int64_t most =
      wide ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int32_t>::max();
  const at::Tensor flips = ordered.lt(0).to(ordered.scalar_type()).mul(most);
  return at::bitwise_xor(ordered, flips).view(wide ? at::kDouble : at::kFloat);
}

ncclDataType_t TypeToReduce(at::ScalarType type) {
  switch (type) {
    case at::kByte:
      return ncclUint8;
    case at::kInt:
      return ncclInt32;
    case at::kLong:
      return ncclInt64;
    case at::kFloat:
      return ncclFloat32;
    case at::kDouble:
      return ncclFloat64;
    default:
      HEDDLE_CHECK(false, "reduction of {}", c10::toString(type));
  }
}

struct NcclTransfer : Transfer {
  Ticket host;                            // where another transport does it
  std::unique_ptr<c10::Event> completed;  // on the group's stream
  at::Tensor in, out;                     // what NCCL works on, where that is not give and get
};

class NcclTransport : public Transport {
 public:
  NcclTransport(Transport& host, at::Device device, const NcclOptions& options)
      : Transport(host.rank(), host.size(),
                  {.deadline_seconds = options.deadline_seconds, .slot = options.slot},
                  std::make_shared<TransportFailure>()),
        host_(host),
        device_(device) {
    device_tensors_ = true;
    lone_groups_ = options.lone_groups;
  }

  ~NcclTransport() override {
    for (Group& group : groups_) {
      if (group.comm == nullptr) continue;
      // After a failure somebody may wait for ever inside.
      failure().set() ? ncclCommAbort(group.comm) : ncclCommDestroy(group.comm);
    }
  }

  void Abort(const std::string& why) override {
    Transport::Abort(why);
    host_.Abort(why);
  }

 protected:
  void OpenGroup(GroupHandle handle) override {
    const std::span<const int> ranks = members(handle);
    groups_.resize(handle.index() + 1);
    Group& group = groups_.back();
    group.host = host_.AddGroup(ranks);
    group.stream = NewStream(device_);
    at::Tensor word = at::zeros({NCCL_UNIQUE_ID_BYTES}, at::kByte);
    ncclUniqueId id;
    if (ranks.front() == rank()) {
      Try("ncclGetUniqueId", ncclGetUniqueId(&id));
      std::memcpy(word.data_ptr(), &id, sizeof id);
    }
    Ticket told = host_.Start(CollectiveKind::kBroadcast, Reduction::kSum, group.host, word, word);
    host_.Wait(told);
    std::memcpy(&id, word.data_ptr(), sizeof id);
    const auto place = std::find(ranks.begin(), ranks.end(), rank()) - ranks.begin();
    StreamScope streamed(group.stream);
    Try("ncclCommInitRank",
        ncclCommInitRank(&group.comm, static_cast<int>(ranks.size()), id, static_cast<int>(place)));
  }

  Ticket NewTransfer() const override { return std::make_shared<NcclTransfer>(); }

  void Begin(const Ticket& ticket) override {
    auto& transfer = static_cast<NcclTransfer&>(*ticket);
    const at::Tensor& any = transfer.get.defined() ? transfer.get : transfer.give;
    switch (transfer.role) {
      case TransferRole::kBarrier:
        return host_.Barrier();
      case TransferRole::kSend:
        transfer.host = host_.Send(transfer.peer, transfer.tag, transfer.give);
        return;
      case TransferRole::kReceive:
        transfer.host = host_.Recv(transfer.peer, transfer.tag, transfer.get);
        return;
      case TransferRole::kCollective:
        if (any.is_cpu()) {
          transfer.host =
              host_.Start(transfer.kind, transfer.reduction, groups_[transfer.group.index()].host,
                          transfer.give, transfer.get);
        } else {
          BeginOnDevice(transfer, groups_[transfer.group.index()]);
        }
    }
  }

  bool Progress(Transfer& base) override {
    auto& transfer = static_cast<NcclTransfer&>(base);
    if (!transfer.completed) return host_.Done(transfer.host);
    ncclResult_t state = ncclSuccess;
    Try("ncclCommGetAsyncError",
        ncclCommGetAsyncError(groups_[transfer.group.index()].comm, &state));
    Try(Describe(transfer).c_str(), state);
    if (!transfer.completed->query()) return false;
    transfer.in = transfer.out = at::Tensor();
    return true;
  }

  bool ProgressUntil(Transfer& transfer, Clock::time_point deadline) override {
    while (!Progress(transfer)) {
      if (Clock::now() >= deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }

 private:
  struct Group {
    GroupHandle host;
    ncclComm_t comm = nullptr;
    std::optional<c10::Stream> stream;
  };

  void Try(const char* what, ncclResult_t result) {
    if (result == ncclSuccess || result == ncclInProgress) return;
    Fail(fmt::format("rank {}: {}: {} (NCCL wants a GPU for every rank; --transport mpi does not)",
                     rank(), what, ncclGetErrorString(result)));
  }

  // The group's stream waits for what was started before, and later work for the host that waits for it.
  void BeginOnDevice(NcclTransfer& transfer, Group& group) {
    c10::Event before(device_.type());
    before.record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
    before.block(*group.stream);
    StreamScope streamed(group.stream);
    at::NoGradGuard no_grad;
    transfer.completed = std::make_unique<c10::Event>(device_.type());
    const cudaStream_t stream = c10::cuda::CUDAStream(*group.stream).stream();
    if (transfer.kind == CollectiveKind::kAllReduce ||
        transfer.kind == CollectiveKind::kReduceScatter ||
        transfer.kind == CollectiveKind::kReduce) {
      Reduce(transfer, group.comm, stream);
    } else {
      Move(transfer, group.comm, stream);
    }
    transfer.completed->record(*group.stream);
  }

  void Reduce(NcclTransfer& transfer, ncclComm_t comm, cudaStream_t stream) {
    at::Tensor in = transfer.give.detach().view({-1});
    const at::ScalarType type = in.scalar_type();
    const bool ordered = transfer.reduction == Reduction::kMax && in.is_floating_point();
    const bool either = type == at::kBool;
    if (type == at::kBFloat16 || type == at::kHalf) in = in.to(at::kFloat);
    if (ordered) in = ToOrdered(in);
    if (either) in = in.to(at::kByte);
    const bool gets = transfer.get.defined();  // of a reduce, the first member alone
    at::Tensor out = gets ? transfer.get.detach().view({-1}) : in;
    const bool direct = in.scalar_type() == type || !gets;
    if (!direct) out = at::empty({out.numel()}, in.options());
    const ncclRedOp_t op = transfer.reduction == Reduction::kMax || either ? ncclMax : ncclSum;
    const auto count = static_cast<size_t>(out.numel());
    const std::string what = Describe(transfer);
    if (transfer.kind == CollectiveKind::kReduce) {
      Try(what.c_str(), ncclReduce(in.data_ptr(), out.data_ptr(), count,
                                   TypeToReduce(in.scalar_type()), op, 0, comm, stream));
    } else if (transfer.kind == CollectiveKind::kAllReduce) {
      Try(what.c_str(), ncclAllReduce(in.data_ptr(), out.data_ptr(), count,
                                      TypeToReduce(in.scalar_type()), op, comm, stream));
    } else {
      Try(what.c_str(), ncclReduceScatter(in.data_ptr(), out.data_ptr(), count,
                                          TypeToReduce(in.scalar_type()), op, comm, stream));
    }
    transfer.in = in;
    transfer.out = out;
    if (!direct) transfer.get.view({-1}).copy_(ordered ? FromOrdered(out) : out);
  }

  void Move(NcclTransfer& transfer, ncclComm_t comm, cudaStream_t stream) {
    const std::string what = Describe(transfer);
    auto* get = static_cast<char*>(transfer.get.data_ptr());
    const size_t bytes = transfer.get.nbytes();
    if (transfer.kind == CollectiveKind::kBroadcast) {
      const void* give = transfer.give.defined() ? transfer.give.data_ptr() : get;
      Try(what.c_str(), ncclBroadcast(give, get, bytes, ncclUint8, 0, comm, stream));
      return;
    }
    const auto* give = static_cast<const char*>(transfer.give.data_ptr());
    if (transfer.kind == CollectiveKind::kAllGather) {
      Try(what.c_str(), ncclAllGather(give, get, transfer.give.nbytes(), ncclUint8, comm, stream));
      return;
    }
    const size_t ranks = members(transfer.group).size(), chunk = bytes / ranks;
    Try("ncclGroupStart", ncclGroupStart());
    for (size_t peer = 0; peer < ranks; ++peer) {
      Try(what.c_str(),
          ncclSend(give + peer * chunk, chunk, ncclUint8, static_cast<int>(peer), comm, stream));
      Try(what.c_str(),
          ncclRecv(get + peer * chunk, chunk, ncclUint8, static_cast<int>(peer), comm, stream));
    }
    Try("ncclGroupEnd", ncclGroupEnd());
  }

  Transport& host_;
  at::Device device_;
  std::vector<Group> groups_;  // [group.index()]; without a communicator for groups of one
};

}  // namespace

bool HasNccl() { return true; }

std::unique_ptr<Transport> MakeNcclTransport(Transport& host, at::Device device,
                                             const NcclOptions& options) {
  HEDDLE_CHECK(device.is_cuda(), "NCCL on {}", device.str());
  return std::make_unique<NcclTransport>(host, device, options);
}

}  // namespace heddle

#endif
