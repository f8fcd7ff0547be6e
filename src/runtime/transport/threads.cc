// Tensors of the transport `threads`; where its ranks meet is host/transport/rendezvous.h.
#include "runtime/transport/threads.h"

#include <fmt/format.h>

#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "host/transport/rendezvous.h"
#include "runtime/transport/reduce.h"

namespace heddle {
namespace {

ReduceFunction ReductionOf(at::ScalarType type) {
  switch (type) {
    case at::kBool:
      return &ReduceBytes<bool>;
    case at::kInt:
      return &ReduceBytes<int32_t>;
    case at::kLong:
      return &ReduceBytes<int64_t>;
    case at::kFloat:
      return &ReduceBytes<float>;
    case at::kDouble:
      return &ReduceBytes<double>;
    case at::kBFloat16:
      return &ReduceBytes<at::BFloat16>;
    case at::kHalf:
      return &ReduceBytes<at::Half>;
    default:
      HEDDLE_CHECK(false, "reduction of {}", c10::toString(type));
  }
}

struct ThreadTransfer : Transfer {
  std::shared_ptr<Rendezvous> meeting;
};

class ThreadTransport : public Transport {
 public:
  ThreadTransport(std::shared_ptr<MeetingPlace> place, int rank, int size,
                  const TransportOptions& options)
      : Transport(rank, size, options, place->failure()), place_(std::move(place)) {
    std::vector<int> all;
    for (int r = 0; r < size; ++r) all.push_back(r);
    world_ = Enter(all);
  }

 protected:
  void OpenGroup(GroupHandle group) override {
    memberships_.resize(group.index() + 1);
    memberships_[group.index()] = Enter(members(group));
  }

  Ticket NewTransfer() const override { return std::make_shared<ThreadTransfer>(); }

  void Begin(const Ticket& ticket) override {
    auto& transfer = static_cast<ThreadTransfer&>(*ticket);
    std::string mismatch;
    switch (transfer.role) {
      case TransferRole::kCollective:
        mismatch = place_->Join(memberships_[transfer.group.index()], ContributionOf(transfer),
                                transfer.meeting);
        break;
      case TransferRole::kBarrier:
        mismatch = place_->Join(world_, ContributionOf(transfer), transfer.meeting);
        break;
      case TransferRole::kSend:
        mismatch = place_->Post(rank(), transfer.peer, transfer.tag, ContributionOf(transfer),
                                transfer.meeting);
        break;
      case TransferRole::kReceive:
        mismatch = place_->Post(transfer.peer, rank(), transfer.tag, ContributionOf(transfer),
                                transfer.meeting);
    }
    if (!mismatch.empty()) Fail(mismatch);
  }

  bool Progress(Transfer& base) override {
    return place_->Progress(*static_cast<ThreadTransfer&>(base).meeting);
  }

  bool ProgressUntil(Transfer& base, Clock::time_point deadline) override {
    return place_->ProgressUntil(*static_cast<ThreadTransfer&>(base).meeting, rank(), deadline);
  }

  void WakeOthers() override { place_->WakeAll(); }

  std::string Missing(const Transfer& base) override {
    const std::vector<int> missing =
        place_->Missing(*static_cast<const ThreadTransfer&>(base).meeting);
    if (missing.empty()) return "";
    return fmt::format(", not started by rank{} {}", missing.size() > 1 ? "s" : "",
                       JoinRanks(missing));
  }

 private:
  MeetingPlace::Membership Enter(std::span<const int> ranks) {
    const int earlier = entered_[std::vector<int>(ranks.begin(), ranks.end())]++;
    return place_->Enter(rank(), ranks, earlier);
  }

  Contribution ContributionOf(const Transfer& transfer) const {
    Contribution mine;
    mine.role = transfer.role;
    mine.kind = transfer.kind;
    mine.reduction = transfer.reduction;
    const at::ScalarType type = TransferType(transfer);
    mine.element_type = static_cast<int>(type);
    mine.element_bytes = static_cast<int64_t>(c10::elementSize(type));
    mine.length = TransferLength(transfer);
    if (transfer.role == TransferRole::kCollective && Reduces(transfer.kind))
      mine.reduce = ReductionOf(type);
    mine.description = Describe(transfer);
    if (transfer.give.defined())
      mine.give = static_cast<const std::byte*>(transfer.give.data_ptr());
    if (transfer.get.defined()) mine.get = static_cast<std::byte*>(transfer.get.data_ptr());
    mine.owner =
        std::make_shared<const std::pair<at::Tensor, at::Tensor>>(transfer.give, transfer.get);
    return mine;
  }

  std::shared_ptr<MeetingPlace> place_;
  MeetingPlace::Membership world_;
  std::vector<MeetingPlace::Membership> memberships_;  // [group.index()]
  std::map<std::vector<int>, int> entered_;            // how many groups of these members
};

}  // namespace

std::vector<std::unique_ptr<Transport>> MakeThreadTransports(int ranks,
                                                             const TransportOptions& options) {
  HEDDLE_CHECK_GT(ranks, 0);
  auto place = std::make_shared<MeetingPlace>(ranks);
  std::vector<std::unique_ptr<Transport>> transports;
  for (int rank = 0; rank < ranks; ++rank) {
    transports.push_back(std::make_unique<ThreadTransport>(place, rank, ranks, options));
  }
  return transports;
}

void RunRanks(int ranks, const std::function<void(Transport&)>& body,
              const TransportOptions& options) {
  std::vector<std::unique_ptr<Transport>> transports = MakeThreadTransports(ranks, options);
  std::mutex mutex;
  std::exception_ptr first;
  auto fail = [&](Transport& transport, const std::string& why) {
    {
      std::lock_guard lock(mutex);
      if (first == nullptr) first = std::current_exception();
    }
    transport.Abort(why);
  };
  {
    std::vector<std::jthread> threads;
    for (std::unique_ptr<Transport>& transport : transports) {
      threads.emplace_back([&fail, &body, &transport = *transport] {
        try {
          body(transport);
        } catch (const std::exception& error) {
          fail(transport, error.what());
        } catch (...) {
          fail(transport, "an exception of unknown type");
        }
      });
    }
  }
  if (first != nullptr) std::rethrow_exception(first);
}

}  // namespace heddle
