#include "runtime/transport/mpi.h"

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <limits>
#include <thread>
#include <unordered_map>

#include "base/check.h"
#include "base/error.h"
#include "runtime/transport/reduce.h"

namespace heddle {
namespace {

// Tags of control messages.
constexpr int kListTag = 1;   // a member sends its list of a new group to the first member
constexpr int kReadyTag = 2;  // the first member confirms that all lists agree

// With MPI_MAX it depends on the order of members whether a NaN survives.
template <class T>
void MaxOf(void* in, void* in_out, int* length, MPI_Datatype*) {
  const T* from = static_cast<const T*>(in);
  T* to = static_cast<T*>(in_out);
  for (int i = 0; i < *length; ++i) to[i] = Combine<T>(Reduction::kMax, to[i], from[i]);
}

struct MpiTransfer : Transfer {
  MPI_Request request = MPI_REQUEST_NULL;
  at::Tensor wide_give, wide_get;  // f32, while bf16 or f16 are reduced
};

MPI_Datatype TypeOfSize(const at::Tensor& tensor) {
  switch (tensor.element_size()) {
    case 1:
      return MPI_UINT8_T;
    case 2:
      return MPI_UINT16_T;
    case 4:
      return MPI_UINT32_T;
    case 8:
      return MPI_UINT64_T;
    default:
      HEDDLE_CHECK(false, "elements of {} bytes", tensor.element_size());
  }
}

MPI_Datatype TypeToReduce(at::ScalarType type) {
  switch (type) {
    case at::kBool:
      return MPI_C_BOOL;
    case at::kInt:
      return MPI_INT32_T;
    case at::kLong:
      return MPI_INT64_T;
    case at::kFloat:
      return MPI_FLOAT;
    case at::kDouble:
      return MPI_DOUBLE;
    default:
      HEDDLE_CHECK(false, "reduction of {}", c10::toString(type));
  }
}

// Pauses between two polls, so that a rank that waits leaves the core to others.
class Patience {
 public:
  void Pause() {
    if (++pauses_ < 2000) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

 private:
  int pauses_ = 0;
};

class MpiTransport : public Transport {
 public:
  MpiTransport(const MpiSession& session, const TransportOptions& options)
      : Transport(session.rank(), session.size(), options, std::make_shared<TransportFailure>()),
        session_(session) {
    for (MPI_Comm* comm : {&control_, &messages_}) {
      MPI_Request request = MPI_REQUEST_NULL;
      Try("MPI_Comm_idup", MPI_Comm_idup(MPI_COMM_WORLD, comm, &request));
      Poll(request, Deadline(), "all ranks to start");
      Try("MPI_Comm_set_errhandler", MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN));
    }
    Try("MPI_Op_create", MPI_Op_create(&MaxOf<float>, 1, &float_max_));
    Try("MPI_Op_create", MPI_Op_create(&MaxOf<double>, 1, &double_max_));
  }

  ~MpiTransport() override {
    if (failure().set() || !in_flight_.empty()) {
      // The library may still read and write these tensors: they stay allocated until the process ends.
      static auto* kept = new std::vector<std::unordered_map<const Transfer*, Ticket>>;
      kept->push_back(std::move(in_flight_));
      return;
    }
    for (MPI_Comm& comm : comms_) {
      if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
    }
    MPI_Comm_free(&messages_);
    MPI_Comm_free(&control_);
    MPI_Op_free(&float_max_);
    MPI_Op_free(&double_max_);
  }

  void Abort(const std::string& why) override { session_.Abort(why); }

 protected:
  void OpenGroup(GroupHandle group) override {
    const std::span<const int> ranks = members(group);
    MeetMembers(ranks);
    MPI_Group world = MPI_GROUP_NULL, subset = MPI_GROUP_NULL;
    comms_.resize(group.index() + 1, MPI_COMM_NULL);
    MPI_Comm& comm = comms_.back();
    Try("MPI_Comm_group", MPI_Comm_group(control_, &world));
    Try("MPI_Group_incl",
        MPI_Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &subset));
    Try("MPI_Comm_create_group", MPI_Comm_create_group(control_, subset, kListTag, &comm));
    Try("MPI_Comm_set_errhandler", MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    MPI_Group_free(&subset);
    MPI_Group_free(&world);
  }

  Ticket NewTransfer() const override { return std::make_shared<MpiTransfer>(); }

  void Begin(const Ticket& ticket) override {
    auto& transfer = static_cast<MpiTransfer&>(*ticket);
    switch (transfer.role) {
      case TransferRole::kBarrier:
        Try("MPI_Ibarrier", MPI_Ibarrier(control_, &transfer.request));
        break;
      case TransferRole::kSend:
        Try("MPI_Isend", MPI_Isend(transfer.give.data_ptr(), Count(transfer, transfer.give.numel()),
                                   TypeOfSize(transfer.give), transfer.peer, transfer.tag,
                                   messages_, &transfer.request));
        break;
      case TransferRole::kReceive:
        Try("MPI_Irecv", MPI_Irecv(transfer.get.data_ptr(), Count(transfer, transfer.get.numel()),
                                   TypeOfSize(transfer.get), transfer.peer, transfer.tag, messages_,
                                   &transfer.request));
        break;
      case TransferRole::kCollective:
        if (transfer.kind == CollectiveKind::kAllReduce ||
            transfer.kind == CollectiveKind::kReduceScatter ||
            transfer.kind == CollectiveKind::kReduce) {
          BeginReduction(transfer);
        } else {
          BeginMovement(transfer);
        }
    }
    in_flight_.emplace(ticket.get(), ticket);
  }

  bool Progress(Transfer& base) override {
    auto& transfer = static_cast<MpiTransfer&>(base);
    int done = 0;
    MPI_Status status;
    Try(transfer, MPI_Test(&transfer.request, &done, &status));
    if (!done) return false;
    if (transfer.role == TransferRole::kReceive) {
      int count = 0;
      Try("MPI_Get_count", MPI_Get_count(&status, TypeOfSize(transfer.get), &count));
      if (count != transfer.get.numel()) {
        Fail(fmt::format("ranks disagree: rank {} waits for {}, which sent {} elements", rank(),
                         Describe(transfer), count));
      }
    }
    if (transfer.wide_get.defined()) {
      at::NoGradGuard no_grad;
      transfer.get.view({transfer.get.numel()}).copy_(transfer.wide_get);
      transfer.wide_give = transfer.wide_get = at::Tensor();
    }
    in_flight_.erase(&transfer);
    return true;
  }

  bool ProgressUntil(Transfer& transfer, Clock::time_point deadline) override {
    Patience patience;
    while (!Progress(transfer)) {
      if (Clock::now() >= deadline) return false;
      Beat();
      patience.Pause();
    }
    return true;
  }

 private:
  // Throws where `code` is an error of MPI.
  void Try(const char* what, int code) {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    Fail(fmt::format("rank {}: {}: {}", rank(), what, text));
  }
  void Try(const Transfer& transfer, int code) {
    if (code != MPI_SUCCESS) Try(Describe(transfer).c_str(), code);
  }

  int Count(const Transfer& transfer, int64_t elements) {
    constexpr int kMost = std::numeric_limits<int>::max();
    if (elements > kMost) {
      Fail(fmt::format("rank {}: {}: more than {} elements at once, the most that MPI takes",
                       rank(), Describe(transfer), kMost));
    }
    return static_cast<int>(elements);
  }

  // The call that makes a communicator blocks. Before it, members exchange messages within the deadline and compare
  // their lists.
  void MeetMembers(std::span<const int> ranks) {
    const std::vector<int> list(ranks.begin(), ranks.end());
    const Clock::time_point deadline = Deadline();
    char word = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    auto poll = [&](int member) {
      Poll(request, deadline, fmt::format("rank {} to add the group {}", member, JoinRanks(ranks)));
    };
    if (rank() != ranks.front()) {
      Try("MPI_Isend", MPI_Isend(list.data(), static_cast<int>(list.size()), MPI_INT, ranks.front(),
                                 kListTag, control_, &request));
      poll(ranks.front());
      Try("MPI_Irecv", MPI_Irecv(&word, 1, MPI_CHAR, ranks.front(), kReadyTag, control_, &request));
      poll(ranks.front());
      return;
    }
    for (int member : ranks.subspan(1)) {
      std::vector<int> theirs(static_cast<size_t>(size()), -1);
      Try("MPI_Irecv",
          MPI_Irecv(theirs.data(), size(), MPI_INT, member, kListTag, control_, &request));
      poll(member);
      theirs.erase(std::find(theirs.begin(), theirs.end(), -1), theirs.end());
      if (theirs != list) {
        Fail(fmt::format("ranks disagree: rank {} adds the group {}, rank {} the group {}", rank(),
                         JoinRanks(list), member, JoinRanks(theirs)));
      }
    }
    for (int member : ranks.subspan(1)) {
      Try("MPI_Isend", MPI_Isend(&word, 1, MPI_CHAR, member, kReadyTag, control_, &request));
      poll(member);
    }
  }

  void Poll(MPI_Request& request, Clock::time_point deadline, std::string_view what) {
    Patience patience;
    int done = 0;
    while (true) {
      Try("MPI_Test", MPI_Test(&request, &done, MPI_STATUS_IGNORE));
      if (done) return;
      if (Clock::now() >= deadline)
        Fail(fmt::format("rank {} waited {:g} s for {}", rank(), deadline_seconds(), what));
      Beat();
      patience.Pause();
    }
  }

  MPI_Op OpFor(Reduction reduction, at::ScalarType type) const {
    if (type == at::kBool) return MPI_LOR;
    if (reduction == Reduction::kSum) return MPI_SUM;
    if (type == at::kFloat) return float_max_;
    return type == at::kDouble ? double_max_ : MPI_MAX;
  }

  void BeginReduction(MpiTransfer& transfer) {
    at::Tensor give = transfer.give, get = transfer.get;
    if (give.scalar_type() == at::kBFloat16 || give.scalar_type() == at::kHalf) {
      give = transfer.wide_give = give.detach().view({give.numel()}).to(at::kFloat);
      if (get.defined()) {
        bool scatters = transfer.kind == CollectiveKind::kReduceScatter;
        get = transfer.wide_get = scatters ? at::empty({get.numel()}, give.options()) : give;
      }
    }
    const MPI_Comm comm = comms_[transfer.group.index()];
    const MPI_Datatype type = TypeToReduce(give.scalar_type());
    const MPI_Op op = OpFor(transfer.reduction, give.scalar_type());
    if (transfer.kind == CollectiveKind::kReduce) return BeginReduce(transfer, give, get);
    const int count = Count(transfer, get.numel());
    const void* from = give.data_ptr() == get.data_ptr() ? MPI_IN_PLACE : give.data_ptr();
    if (transfer.kind == CollectiveKind::kAllReduce) {
      Try(transfer, MPI_Iallreduce(from, get.data_ptr(), count, type, op, comm, &transfer.request));
    } else {
      Try(transfer, MPI_Ireduce_scatter_block(give.data_ptr(), get.data_ptr(), count, type, op,
                                              comm, &transfer.request));
    }
  }

  // Reduces to the first member, which alone has `get`.
  void BeginReduce(MpiTransfer& transfer, const at::Tensor& give, const at::Tensor& get) {
    bool in_place = get.defined() && give.data_ptr() == get.data_ptr();
    Try(transfer,
        MPI_Ireduce(in_place ? MPI_IN_PLACE : give.data_ptr(),
                    get.defined() ? get.data_ptr() : nullptr, Count(transfer, give.numel()),
                    TypeToReduce(give.scalar_type()), OpFor(transfer.reduction, give.scalar_type()),
                    0, comms_[transfer.group.index()], &transfer.request));
  }

  void BeginMovement(MpiTransfer& transfer) {
    const at::Tensor& give = transfer.give;
    const at::Tensor& get = transfer.get;
    const MPI_Comm comm = comms_[transfer.group.index()];
    const MPI_Datatype type = TypeOfSize(get);
    const auto members_count = static_cast<int64_t>(members(transfer.group).size());
    if (transfer.kind == CollectiveKind::kAllGather) {
      const int count = Count(transfer, give.numel());
      Try(transfer, MPI_Iallgather(give.data_ptr(), count, type, get.data_ptr(), count, type, comm,
                                   &transfer.request));
    } else if (transfer.kind == CollectiveKind::kAllToAll) {
      const int count = Count(transfer, give.numel() / members_count);
      Try(transfer, MPI_Ialltoall(give.data_ptr(), count, type, get.data_ptr(), count, type, comm,
                                  &transfer.request));
    } else {
      const int count = Count(transfer, get.numel());
      if (give.defined() && give.data_ptr() != get.data_ptr()) {
        std::memcpy(get.data_ptr(), give.data_ptr(), give.nbytes());
      }
      Try(transfer, MPI_Ibcast(get.data_ptr(), count, type, 0, comm, &transfer.request));
    }
  }

  const MpiSession& session_;
  MPI_Comm control_ = MPI_COMM_NULL;
  MPI_Comm messages_ = MPI_COMM_NULL;
  std::vector<MPI_Comm> comms_;  // [group.index()]; null for groups of one
  MPI_Op float_max_ = MPI_OP_NULL;
  MPI_Op double_max_ = MPI_OP_NULL;
  std::unordered_map<const Transfer*, Ticket>
      in_flight_;  // keeps tensors alive while the library works on them
};

}  // namespace

MpiSession::MpiSession() : exceptions_(std::uncaught_exceptions()) {
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED,
                  &provided);  // ends the process on errors
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  if (provided < MPI_THREAD_SERIALIZED)
    Abort("this MPI library does not allow calls from more than one thread");
}

std::string MpiVersion() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string version(text, static_cast<size_t>(length));
  return OneLine(version.substr(0, version.find(',')));
}

MpiSession::~MpiSession() {
  if (std::uncaught_exceptions() > exceptions_) Abort("failed");
  MPI_Finalize();
}

void MpiSession::Abort(const std::string& why, int code) const {
  fmt::print(stderr, "heddle: rank {} of {}: {}\n", rank_, size_, OneLine(why));
  std::fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, code);
  std::abort();
}

std::unique_ptr<Transport> MakeMpiTransport(const MpiSession& session,
                                            const TransportOptions& options) {
  return std::make_unique<MpiTransport>(session, options);
}

int RunMpi(const std::function<void(Transport&)>& body, const TransportOptions& options) {
  MpiSession session;
  try {
    std::unique_ptr<Transport> transport = MakeMpiTransport(session, options);
    body(*transport);
  } catch (const InputError& error) {
    session.Abort(error.what(), 2);
  } catch (const std::exception& error) {
    session.Abort(error.what());
  } catch (...) {
    session.Abort("an exception of unknown type");
  }
  return 0;
}

}  // namespace heddle
