// Common to all transports: checks of what the caller guarantees, traffic counts, groups of one, host memory for device
// tensors, deadlines.
#include "runtime/transport/transport.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "base/check.h"
#include "base/error.h"
#include "host/supervisor/rank_table.h"
#include "runtime/accelerator.h"

namespace heddle {
namespace {

bool Overlap(const at::Tensor& a, const at::Tensor& b) {
  const auto* a_begin = static_cast<const std::byte*>(a.data_ptr());
  const auto* b_begin = static_cast<const std::byte*>(b.data_ptr());
  return a.device() == b.device() && a_begin < b_begin + b.nbytes() &&
         b_begin < a_begin + a.nbytes();
}

bool CanReduce(at::ScalarType type) {
  switch (type) {
    case at::kBool:
    case at::kInt:
    case at::kLong:
    case at::kFloat:
    case at::kDouble:
    case at::kBFloat16:
    case at::kHalf:
      return true;
    default:
      return false;
  }
}

void CheckTensors(CollectiveKind kind, int64_t members, const at::Tensor& give,
                  const at::Tensor& get) {
  HEDDLE_CHECK(give.is_contiguous() && get.is_contiguous());
  HEDDLE_CHECK(give.scalar_type() == get.scalar_type() && give.device() == get.device());
  HEDDLE_CHECK(!Reduces(kind) || CanReduce(give.scalar_type()), "{} of {}", Name(kind),
               c10::toString(give.scalar_type()));
  CheckSizes(kind, members, give.numel(), get.numel());
  bool same = give.data_ptr() == get.data_ptr() && CanBeInPlace(kind);
  HEDDLE_CHECK(same || !Overlap(give, get), "give and get of {} overlap", Name(kind));
}

at::Tensor PinnedLike(const at::Tensor& tensor) {
  return at::empty(tensor.sizes(), tensor.options().device(at::kCPU).pinned_memory(true));
}

void CopyFlat(const at::Tensor& from, const at::Tensor& to) {
  if (from.data_ptr() == to.data_ptr()) return;
  at::NoGradGuard no_grad;
  to.view({to.numel()}).copy_(from.view({from.numel()}));
}

void Add(TrafficCount::Count& count, const at::Tensor& tensor) {
  count.Add(tensor.defined() ? static_cast<int64_t>(tensor.nbytes()) : 0);
}

}  // namespace

int64_t TransferLength(const Transfer& transfer) {
  if (transfer.role == TransferRole::kBarrier) return 0;
  bool takes =
      transfer.role == TransferRole::kReceive ||
      (transfer.role == TransferRole::kCollective && transfer.kind == CollectiveKind::kBroadcast);
  return takes ? transfer.get.numel() : transfer.give.numel();
}

at::ScalarType TransferType(const Transfer& transfer) {
  if (transfer.get.defined()) return transfer.get.scalar_type();
  return transfer.give.defined() ? transfer.give.scalar_type() : at::kByte;
}

Transport::Transport(int rank, int size, const TransportOptions& options,
                     std::shared_ptr<TransportFailure> failure)
    : rank_(rank), size_(size), options_(options), failure_(std::move(failure)) {
  HEDDLE_CHECK(rank >= 0 && rank < size, "rank {} of {}", rank, size);
  HEDDLE_CHECK(options.deadline_seconds > 0 && std::isfinite(options.deadline_seconds), "{}",
               options.deadline_seconds);
  traffic_.sent.resize(static_cast<size_t>(size));
  traffic_.received.resize(static_cast<size_t>(size));
}

GroupHandle Transport::AddGroup(std::span<const int> ranks) {
  failure_->ThrowIfSet();
  std::vector<int> sorted(ranks.begin(), ranks.end());
  std::sort(sorted.begin(), sorted.end());
  HEDDLE_CHECK(std::binary_search(sorted.begin(), sorted.end(), rank_),
               "rank {} adds a group of {}", rank_, JoinRanks(ranks));
  HEDDLE_CHECK(sorted.front() >= 0 && sorted.back() < size_ &&
                   std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(),
               "a group of {} among {} ranks", JoinRanks(ranks), size_);
  GroupHandle group = GroupHandle::FromIndex(groups_.size());
  groups_.emplace_back(ranks.begin(), ranks.end());
  traffic_.groups.emplace_back();
  if (ranks.size() > 1 || lone_groups_) OpenGroup(group);
  return group;
}

Ticket Transport::Start(CollectiveKind kind, Reduction reduction, GroupHandle group,
                        const at::Tensor& give, at::Tensor get) {
  failure_->ThrowIfSet();
  std::span<const int> ranks = members(group);
  bool gives = kind != CollectiveKind::kBroadcast || ranks.front() == rank_;
  bool gets = kind != CollectiveKind::kReduce || ranks.front() == rank_;
  CheckTensors(kind, static_cast<int64_t>(ranks.size()), gives ? give : get, gets ? get : give);
  Add(traffic_.groups[group.index()][static_cast<size_t>(kind)], gives ? give : at::Tensor());

  if (ranks.size() == 1 && !lone_groups_) {
    CopyFlat(give, get);
    return nullptr;
  }
  Ticket ticket = NewTransfer();
  ticket->role = TransferRole::kCollective;
  ticket->kind = kind;
  if (Reduces(kind)) ticket->reduction = reduction;
  ticket->group = group;
  ticket =
      Launch(std::move(ticket), gives ? give : at::Tensor(), gets ? std::move(get) : at::Tensor());
  if (ranks.size() == 1) Wait(ticket);
  return ticket;
}

Ticket Transport::Send(int peer, int tag, const at::Tensor& give) {
  return StartMessage(TransferRole::kSend, peer, tag, give);
}

Ticket Transport::Recv(int peer, int tag, at::Tensor get) {
  return StartMessage(TransferRole::kReceive, peer, tag, get);
}

Ticket Transport::StartMessage(TransferRole role, int peer, int tag, const at::Tensor& tensor) {
  failure_->ThrowIfSet();
  HEDDLE_CHECK(peer >= 0 && peer < size_, "peer {} of {}", peer, size_);
  HEDDLE_CHECK_GE(tag, 0);
  HEDDLE_CHECK(tensor.is_contiguous());
  bool sends = role == TransferRole::kSend;
  Add((sends ? traffic_.sent : traffic_.received)[static_cast<size_t>(peer)], tensor);

  Ticket ticket = NewTransfer();
  ticket->role = role;
  ticket->peer = peer;
  ticket->tag = tag;
  return Launch(std::move(ticket), sends ? tensor : at::Tensor(), sends ? at::Tensor() : tensor);
}

Ticket Transport::Launch(Ticket ticket, const at::Tensor& give, const at::Tensor& get) {
  ticket->give = give;
  ticket->get = get;
  if (give.defined() && !give.device().is_cpu() && !device_tensors_) CopyToHost(*ticket, give);
  if (get.defined() && !get.device().is_cpu() && !device_tensors_) {
    bool in_place = give.defined() && give.data_ptr() == get.data_ptr();
    ticket->get = in_place ? ticket->give : PinnedLike(get);
    ticket->device_get = get;
  }
  waiting_.push_back(ticket);
  BeginCopied();
  return ticket;
}

void Transport::CopyToHost(Transfer& transfer, const at::Tensor& give) {
  c10::impl::VirtualGuardImpl guard(give.device().type());
  c10::Stream current = guard.getStream(give.device());
  if (!copies_) copies_ = guard.getStreamFromGlobalPool(give.device());
  transfer.give = PinnedLike(give);
  transfer.device_give = give;
  c10::Event made(give.device().type());
  made.record(current);
  made.block(*copies_);
  StreamScope copying(copies_);
  at::NoGradGuard no_grad;
  transfer.give.view({-1}).copy_(give.view({-1}), /*non_blocking=*/true);
  transfer.copied = std::make_unique<c10::Event>(give.device().type());
  transfer.copied->record(*copies_);
}

// Begins transfers in the order in which they were started: the library underneath matches collectives by that order.
void Transport::BeginCopied() {
  while (!waiting_.empty() && (!waiting_.front()->copied || waiting_.front()->copied->query())) {
    Ticket ticket = std::move(waiting_.front());
    waiting_.pop_front();
    ticket->copied.reset();
    ticket->device_give.reset();
    ticket->begun = true;
    Begin(ticket);
  }
}

// Waits only for copies of this rank's device, never for other ranks.
void Transport::BeginAll() {
  const Clock::time_point deadline = Deadline();
  for (BeginCopied(); !waiting_.empty(); BeginCopied()) {
    if (Clock::now() >= deadline) {
      Fail(fmt::format("rank {} waited {:g} s for its device to give {}", rank_,
                       options_.deadline_seconds, Describe(*waiting_.front())));
    }
    std::this_thread::yield();
  }
}

void Transport::Finish(Transfer& transfer) {
  if (transfer.device_get.defined()) {
    at::NoGradGuard no_grad;
    // Later work of the current stream runs after this copy. The allocator keeps the pinned memory until then.
    transfer.device_get.view({-1}).copy_(transfer.get.view({-1}), /*non_blocking=*/true);
  }
  transfer.give = transfer.get = transfer.device_get = at::Tensor();
  transfer.done = true;
}

bool Transport::Done(Ticket& ticket) {
  if (ticket == nullptr || ticket->done) return true;
  failure_->ThrowIfSet();
  BeginCopied();
  if (!ticket->begun || !Progress(*ticket)) return false;
  Finish(*ticket);
  return true;
}

void Transport::Wait(Ticket& ticket) {
  if (ticket == nullptr || ticket->done) return;
  failure_->ThrowIfSet();
  // Other ranks may wait for transfers that were started after this one.
  BeginAll();
  if (!ProgressUntil(*ticket, Deadline())) {
    failure_->ThrowIfSet();
    Fail(fmt::format("rank {} waited {:g} s for {}{}", rank_, options_.deadline_seconds,
                     Describe(*ticket), Missing(*ticket)));
  }
  Finish(*ticket);
}

void Transport::Barrier() {
  failure_->ThrowIfSet();
  if (size_ == 1) return;
  Ticket ticket = Launch(NewTransfer(), {}, {});
  Wait(ticket);
}

void Transport::Abort(const std::string& why) {
  failure_->Set(fmt::format("rank {} ended the run: {}", rank_, why));
  WakeOthers();
}

void Transport::Fail(const std::string& cause) {
  failure_->Set(cause);
  WakeOthers();
  failure_->ThrowIfSet();
  HEDDLE_CHECK(false, "a failure that is set throws");
}

void Transport::Beat() const {
  if (options_.slot != nullptr) options_.slot->Beat();
}

Transport::Clock::time_point Transport::Deadline() const {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(options_.deadline_seconds));
}

std::string Transport::Describe(const Transfer& transfer) const {
  if (transfer.role == TransferRole::kBarrier)
    return fmt::format("the barrier of all {} ranks", size_);
  std::string payload =
      fmt::format("{} {}", TransferLength(transfer), c10::toString(TransferType(transfer)));
  switch (transfer.role) {
    case TransferRole::kSend:
      return fmt::format("rank {} to take {} with tag {}", transfer.peer, payload, transfer.tag);
    case TransferRole::kReceive:
      return fmt::format("{} from rank {} with tag {}", payload, transfer.peer, transfer.tag);
    default:
      return fmt::format("{} of {} among ranks {}", Name(transfer.kind), payload,
                         JoinRanks(members(transfer.group)));
  }
}

}  // namespace heddle
