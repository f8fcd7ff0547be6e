#include "runtime/calibrate/calibrate.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

#include "base/error.h"
#include "cluster/machine.h"
#include "cluster/quota.h"
#include "runtime/calibrate/sample.h"
#include "runtime/calibrate/together.h"
#include "runtime/kernel_threads.h"
#include "runtime/transport/mpi.h"

namespace heddle {
namespace {

constexpr int kMostSweeps = 9;

double Median(std::vector<double> times) {
  auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

class Calibrator {
 public:
  Calibrator(const CalibrateOptions& options, const std::vector<Graph>& graphs,
             Transport& transport, const CalibrateProgress& progress)
      : options_(options),
        transport_(transport),
        progress_(progress),
        together_(transport),
        stopwatch_(options.device, options.threads) {
    SetKernelThreads(options.threads);
    AddBasicSamples(options.device, options.small, kernels_);
    for (DType dtype : options.dtypes)
      AddProductSamples(options.device, dtype, options.small, kernels_);
    SeenOps seen;
    for (const Graph& graph : graphs) AddOpSamples(options.device, graph, seen, kernels_);
    if (transport.size() > 1) AddTransfers();
  }

  std::vector<std::vector<LoadTimes>> Run() {
    std::vector<Shift> shifts = ShiftsOf(options_.kinds);
    std::vector<std::vector<LoadTimes>> loads;
    for (size_t s = 0; s < shifts.size(); ++s) {
      double part = static_cast<double>(s + 1) / static_cast<double>(shifts.size());
      Measure(shifts[s], begin_ + 0.85 * options_.seconds * part, loads);
    }
    return loads;
  }

 private:
  using Times = std::vector<std::vector<double>>;  // by sample

  // Sweeps until the deadline, as far as one more is likely to end before it. Gives the kinds at work another load.
  void Measure(const Shift& shift, double deadline, std::vector<std::vector<LoadTimes>>& loads) {
    const size_t ranks = shift.size();
    const bool works = std::count(shift.begin(), shift.end(), transport_.rank()) > 0;
    const bool captured = options_.device.is_cuda() && ranks == 1;  // as steps are (docs/gpu.md)
    Times times(kernels_.size()), transfer_times(transfers_.size());
    auto time_kernel = [&](size_t s, double share) {
      times[s].push_back(stopwatch_.TimeOf(kernels_[s].prepare(), captured) / share);
    };
    transport_.Barrier();
    const double share = works ? Share(ranks) : 1;
    for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
      double begin = SecondsNow(Clock::kWall);
      transport_.Barrier();
      for (size_t s = 0; works && s < kernels_.size(); ++s) {
        time_kernel(s, share);
        Report(s, kernels_[s].what, ranks, sweep);
      }
      // Who is done goes on until all are: kernels are to be measured beside others that work.
      at::Tensor done = at::zeros({1});
      Ticket all = transport_.Start(CollectiveKind::kAllReduce, Reduction::kSum, together_.all(),
                                    done, done);
      for (size_t s = 0; works && !transport_.Done(all); ++s)
        time_kernel(s % kernels_.size(), share);
      transport_.Wait(all);
      for (size_t s = 0; ranks > 1 && s < transfers_.size(); ++s) {
        transfer_times[s].push_back(TimeTransfer(transfers_[s], share));
        Report(kernels_.size() + s, transfers_[s].what, ranks, sweep);
      }
      double now = SecondsNow(Clock::kWall);
      at::Tensor late = at::tensor({now + (now - begin) < deadline ? 0.0 : 1.0}, at::kDouble);
      together_.Max(late);
      if (late.item<double>() > 0) break;
    }
    Store(shift, captured, share, times, transfer_times, loads);
  }

  // Of a kernel the mean of the ranks of a kind, of a transfer what the last rank took.
  void Store(const Shift& shift, bool captured, double share, const Times& times,
             const Times& transfer_times, std::vector<std::vector<LoadTimes>>& loads) {
    at::Tensor transfers = at::zeros({static_cast<int64_t>(transfers_.size())}, at::kDouble);
    for (size_t s = 0; s < transfers_.size() && !transfer_times[s].empty(); ++s)
      transfers[static_cast<int64_t>(s)] = Median(transfer_times[s]);
    together_.Max(transfers);
    for (size_t kind = 0; kind <= *std::max_element(options_.kinds.begin(), options_.kinds.end());
         ++kind) {
      auto of_kind = [&](int rank) { return options_.kinds[static_cast<size_t>(rank)] == kind; };
      double count = static_cast<double>(std::count_if(shift.begin(), shift.end(), of_kind));
      if (count == 0) continue;
      at::Tensor means = at::zeros({static_cast<int64_t>(kernels_.size()) + 1}, at::kDouble);
      if (of_kind(transport_.rank()) && !times[0].empty()) {
        for (size_t s = 0; s < kernels_.size(); ++s)
          means[static_cast<int64_t>(s)] = Median(times[s]) / count;
        means[-1] = share / count;
      }
      together_.Sum(means);
      RawTimes raw;
      raw.load.ranks = static_cast<int64_t>(shift.size());
      raw.load.captured = captured;
      raw.load.share = std::min(1.0, means[-1].item<double>());
      for (size_t s = 0; s < kernels_.size(); ++s)
        kernels_[s].store(raw, std::max(kLeast, means[static_cast<int64_t>(s)].item<double>()));
      for (size_t s = 0; shift.size() > 1 && s < transfers_.size(); ++s)
        transfers_[s].store(raw,
                            std::max(kLeast, transfers[static_cast<int64_t>(s)].item<double>()));
      loads.resize(std::max(loads.size(), kind + 1));
      loads[kind].push_back(Finish(std::move(raw)));
    }
  }

  void Report(size_t done, std::string_view what, size_t ranks, int sweep) const {
    if (transport_.rank() != 0) return;
    progress_(static_cast<int64_t>(done), static_cast<int64_t>(kernels_.size() + transfers_.size()),
              fmt::format("{}, {} at work, round {}", what,
                          ranks == 1 ? "one rank" : fmt::format("{} ranks", ranks), sweep + 1));
  }

  // The clock of a thread stands while the thread does not run: what it gets of a core must be known, where a quota
  // holds it down or ranks share cores. What others take from it for a while does not count. Of several threads, and of
  // accelerators, the wall clock tells.
  double Share(size_t ranks) const {
    if (ClockOf(options_.device, options_.threads) == Clock::kWall) return 1;
    std::optional<int64_t> before = TimesThrottled();
    double share = ShareOfCore(options_.small ? 0.1 : 1.5);
    bool crowded = static_cast<int64_t>(ranks) > ThisProcessor().cores;
    return crowded || !before || TimesThrottled() != before ? share : 1;
  }

  // Every rank makes the same number of calls. The shortest counts: in any other a rank may have come late. A rank that
  // gets less than a core is the one that others wait for: its own work is what counts, as long as it takes there.
  double TimeTransfer(const Sample& sample, double share) {
    constexpr int kCalls = 7;
    const Clock clock = share < 1 ? Clock::kThread : Clock::kWall;
    std::function<void()> body = sample.prepare();
    body();
    transport_.Barrier();
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < kCalls; ++i) {
      double begin = SecondsNow(clock);
      body();
      best = std::min(best, SecondsNow(clock) - begin);
    }
    return best / share;
  }

  void AddTransfers() {
    for (int64_t bytes : {int64_t{1} << 10, int64_t{1} << 14, int64_t{1} << 17, int64_t{1} << 20,
                          int64_t{1} << 22, int64_t{1} << 24}) {
      if (options_.small && bytes > 1 << 17) break;
      for (CollectiveKind kind :
           {CollectiveKind::kAllReduce, CollectiveKind::kAllGather, CollectiveKind::kReduceScatter,
            CollectiveKind::kAllToAll, CollectiveKind::kBroadcast, CollectiveKind::kReduce}) {
        AddTransfer(Name(kind), bytes, [=, this] { return CollectiveBody(kind, bytes); });
      }
      AddTransfer("message", bytes, [=, this] { return MessageBody(bytes); });
    }
  }

  void AddTransfer(std::string_view kind, int64_t bytes,
                   std::function<std::function<void()>()> prepare) {
    double part = kind == "message" ? 0.5 : 1;  // there and back
    transfers_.push_back({"transfers", std::move(prepare), [=](RawTimes& times, double seconds) {
                            times.load.transfers[std::string(kind)].points.push_back(
                                {static_cast<double>(bytes), seconds * part});
                          }});
  }

  std::function<void()> CollectiveBody(CollectiveKind kind, int64_t bytes) {
    auto options = at::TensorOptions(at::kFloat).device(options_.device);
    int64_t given = std::max<int64_t>(1, bytes / 4 / transport_.size()) * transport_.size();
    at::Tensor give = at::ones({given}, options), get = give;
    if (kind == CollectiveKind::kAllGather) get = at::empty({given * transport_.size()}, options);
    if (kind == CollectiveKind::kReduceScatter)
      get = at::empty({given / transport_.size()}, options);
    if (kind == CollectiveKind::kAllToAll) get = at::empty({given}, options);
    return [=, this] {
      Ticket ticket = transport_.Start(kind, Reduction::kSum, together_.all(), give, get);
      transport_.Wait(ticket);
    };
  }

  // From the first rank to the second and back.
  std::function<void()> MessageBody(int64_t bytes) {
    if (transport_.rank() > 1) return [] {};
    at::Tensor tensor =
        at::ones({bytes / 4}, at::TensorOptions(at::kFloat).device(options_.device));
    int peer = 1 - transport_.rank();
    return [=, this] {
      for (bool sends : {transport_.rank() == 0, transport_.rank() != 0}) {
        Ticket ticket = sends ? transport_.Send(peer, 0, tensor) : transport_.Recv(peer, 0, tensor);
        transport_.Wait(ticket);
      }
    };
  }

  const double begin_ = SecondsNow(Clock::kWall);
  const CalibrateOptions& options_;
  Transport& transport_;
  const CalibrateProgress& progress_;
  Together together_;
  Stopwatch stopwatch_;
  std::vector<Sample> kernels_, transfers_;
};

}  // namespace

std::vector<Shift> ShiftsOf(const std::vector<size_t>& kinds) {
  std::vector<Shift> shifts;
  Shift all(kinds.size());
  std::iota(all.begin(), all.end(), 0);
  std::set<size_t> seen;
  for (int rank : all) {
    if (seen.insert(kinds[static_cast<size_t>(rank)]).second) shifts.push_back({rank});
  }
  if (all.size() > 1) shifts.push_back(std::move(all));
  return shifts;
}

std::vector<std::vector<LoadTimes>> Calibrate(const CalibrateOptions& options,
                                              const std::vector<Graph>& graphs,
                                              Transport& transport,
                                              const CalibrateProgress& progress) {
  try {
    return Calibrator(options, graphs, transport, progress).Run();
  } catch (const c10::Error& error) {
    ThrowRun("libtorch: {}", OneLine(error.what_without_backtrace()));
  }
}

std::map<std::string, std::string, std::less<>> SoftwareFacts(int threads, at::Device device) {
  std::map<std::string, std::string, std::less<>> facts = {
      {"libtorch", TORCH_VERSION}, {"mpi", MpiVersion()}, {"threads", std::to_string(threads)}};
  if (device.is_cuda()) {
    facts["gpu"] = CudaDeviceName(0);
    facts["cuda"] = CudaVersion();
  }
  using Config = const char* (*)();
  auto config = reinterpret_cast<Config>(dlsym(RTLD_DEFAULT, "openblas_get_config"));
  if (config != nullptr) facts["blas"] = config();
  return facts;
}

}  // namespace heddle
