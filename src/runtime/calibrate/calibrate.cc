#include "runtime/calibrate/calibrate.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "runtime/calibrate/sample.h"
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
        stopwatch_(options.device, options.threads) {
    SetKernelThreads(options.threads);
    std::vector<int> ranks(static_cast<size_t>(transport.size()));
    std::iota(ranks.begin(), ranks.end(), 0);
    all_ = transport.AddGroup(ranks);
    AddBasicSamples(options.device, options.small, kernels_);
    for (DType dtype : options.dtypes)
      AddProductSamples(options.device, dtype, options.small, kernels_);
    SeenOps seen;
    for (const Graph& graph : graphs) AddOpSamples(options.device, graph, seen, kernels_);
    if (transport.size() > 1) AddTransfers();
  }

  std::vector<LoadTimes> Run() {
    double whole = options_.seconds;
    std::vector<LoadTimes> loads;
    bool several = transport_.size() > 1;
    loads.push_back(Measure(1, begin_ + whole * (several ? 0.45 : 0.95)));
    if (several) loads.push_back(Measure(transport_.size(), begin_ + whole * 0.95));
    return loads;
  }

 private:
  // Sums over ranks, into all of them.
  void Share(at::Tensor& numbers) {
    Ticket ticket =
        transport_.Start(CollectiveKind::kAllReduce, Reduction::kSum, all_, numbers, numbers);
    transport_.Wait(ticket);
  }

  // Sweeps until the deadline, as far as one more is likely to end before it.
  LoadTimes Measure(int ranks, double deadline) {
    bool works = transport_.rank() < ranks;
    bool captured = options_.device.is_cuda() && ranks == 1;  // as steps are (docs/gpu.md)
    std::vector<Sample> samples = kernels_;
    if (ranks > 1) samples.insert(samples.end(), transfers_.begin(), transfers_.end());
    std::vector<std::vector<double>> times(samples.size());
    for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
      double begin = SecondsNow(Clock::kWall);
      transport_.Barrier();
      for (size_t s = 0; works && s < samples.size(); ++s) {
        // Transfers are measured together; anything else goes its own pace.
        double seconds = s < kernels_.size() ? stopwatch_.TimeOf(samples[s].prepare(), captured)
                                             : TimeTransfer(samples[s]);
        times[s].push_back(std::max(seconds, 1e-9));
        if (transport_.rank() == 0)
          progress_(
              static_cast<int64_t>(s), static_cast<int64_t>(samples.size()),
              fmt::format("{}, {} at work, round {}", samples[s].what,
                          ranks == 1 ? "one rank" : fmt::format("{} ranks", ranks), sweep + 1));
      }
      double took = SecondsNow(Clock::kWall) - begin;
      bool more = SecondsNow(Clock::kWall) + took < deadline;
      at::Tensor votes = at::tensor({transport_.rank() == 0 && more ? 1.0 : 0.0}, at::kDouble);
      Share(votes);
      if (votes[0].item<double>() == 0) break;
    }
    at::Tensor table = at::zeros({static_cast<int64_t>(samples.size())}, at::kDouble);
    for (size_t s = 0; works && s < samples.size(); ++s)
      table[static_cast<int64_t>(s)] = Median(times[s]) / ranks;
    Share(table);
    RawTimes raw;
    raw.load.ranks = ranks;
    raw.load.captured = captured;
    for (size_t s = 0; s < samples.size(); ++s)
      samples[s].store(raw, table[static_cast<int64_t>(s)].item<double>());
    return Finish(std::move(raw));
  }

  // Every rank makes the same number of calls. The shortest counts: in any other a rank may have come late.
  double TimeTransfer(const Sample& sample) {
    constexpr int kCalls = 7;
    std::function<void()> body = sample.prepare();
    body();
    transport_.Barrier();
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < kCalls; ++i) {
      double begin = SecondsNow(Clock::kWall);
      body();
      best = std::min(best, SecondsNow(Clock::kWall) - begin);
    }
    return best;
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
      Ticket ticket = transport_.Start(kind, Reduction::kSum, all_, give, get);
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
  GroupHandle all_;
  Stopwatch stopwatch_;
  std::vector<Sample> kernels_, transfers_;
};

}  // namespace

std::vector<LoadTimes> Calibrate(const CalibrateOptions& options, const std::vector<Graph>& graphs,
                                 Transport& transport, const CalibrateProgress& progress) {
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
