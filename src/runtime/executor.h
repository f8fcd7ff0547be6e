// Runs a program for real: one Executor is one device of it.
//
//   Executor executor(program, transport, options, weights, data);
//   for (int64_t step = 0; step < n; ++step) StepRecord record = executor.RunStep(step);
//
// libtorch gives tensors, kernels and autograd. A segment is a list of kernel calls on local shards; what comes
// into it are leaves, what goes out is detached, so that autograd never crosses communication. Communication is
// started where it stands in the list and waited for by the first instruction that touches its buffers.
//
// A second one may look at the weights of the first while it trains:
//
//   Executor held_out(forward, executor, other_data);    // LowerForward of the same plan
//   double loss = held_out.RunStep(batch).loss;
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/reader.h"
#include "program/program.h"
#include "program/step_record.h"
#include "program/trace.h"
#include "runtime/accelerator.h"
#include "runtime/allocation_meter.h"
#include "runtime/loss_scale.h"
#include "runtime/parameter_store.h"
#include "runtime/single_device.h"
#include "runtime/step_inputs.h"
#include "runtime/transport/transport.h"

namespace heddle {

struct ExecutorOptions {
  uint64_t seed = 0;  // of random ops
  OptimizerOptions optimizer;
  double clip_norm = 0;               // of the gradients of a step together; 0: as they are
  std::function<double(int64_t)> lr;  // by step; none: the optimizer's
  at::Device device = at::kCPU;
  bool keep_gradients = false;  // for tests: Gradients() works, at the price of gathering them
  bool trace = false;
  RankSlot* slot = nullptr;    // where to say which instruction it is at; null: nowhere
  bool capture = true;         // on CUDA: repeat a step as one graph, where that is possible
  const Mask* mask = nullptr;  // of what the program prunes; outlives the executor
  // Streams of the device that executors share which take turns on it; none: streams of its own.
  std::optional<c10::Stream> compute = std::nullopt, fetches = std::nullopt,
                             evictions = std::nullopt;
  HostBudget* host = nullptr;  // for what is offloaded; outlives the executor; null: no limit
};

class Executor {
 public:
  // All devices of the program construct theirs together: groups are opened. `program` outlives it.
  Executor(const Program& program, Transport& transport, ExecutorOptions options,
           const WeightSource& weights, const ConstantSource& constants, DataFn data);
  // Of a forward program (LowerForward), on the weights that `trained` holds, which it leaves as they are. Nothing is
  // dropped out. `trained` outlives it, and neither runs while the other does.
  Executor(const Program& forward, Executor& trained, DataFn data);
  ~Executor();

  // One training step; every device returns the same loss and norm. Throws RunError where the loss is not finite. Where
  // the loss is finite and a gradient is not, weights and moments stay as they are and the record says that the step was
  // skipped; groups that are updated before all gradients are there (spilled ones) stay from the first such group on.
  // Of a forward program: the loss of that step's data, finite or not.
  StepRecord RunStep(int64_t step);

  // The same in pieces: visits to shards (DeviceProgram::visits), one after the other, between which the device may do
  // something else. A visit returns when the device has done it.
  void BeginStep(int64_t step);
  void RunVisit(int visit);
  StepRecord EndStep();
  // What the visit fetches comes now; another thread may call it while no visit of this executor runs.
  void Prefetch(int visit, AllocationMeter& meter);
  // From now on a visit has on the device what it touches, and everything else is on the host, what autograd keeps for
  // backward too. What is made counts for the meter of the last RunVisit.
  void ShareDevice();
  void RunVisit(int visit, AllocationMeter& meter);
  void LeaveDevice();  // all of it goes to the host

  // Why steps are not repeated as a graph; empty where they are, or will be.
  const std::string& not_captured() const { return not_captured_; }
  LossScale* loss_scale() { return loss_scale_ ? &*loss_scale_ : nullptr; }

  // What this device holds of the weights, and of the last step's gradients.
  std::vector<ParameterPart> Weights();
  const std::vector<ParameterPart>& Gradients() const { return gradients_; }

  // What this device answers for of weights and moments: views, good until the next step.
  TrainState State();
  // Goes on from a checkpoint; weights are what the constructor was given. Throws InputError where it lacks what the
  // optimizer needs.
  void Restore(CheckpointReader& from);

  // What was copied from the host and to it since construction.
  const HostTraffic& host_traffic() const { return *host_.traffic; }

  // What the model's state takes on this device, and took in gradients at most.
  StateBytes StateMemory() const;

  // With `trace`: one event per instruction of every step so far, in the order in which they were started, and the
  // bytes of tensors at their ends; seconds since construction.
  const Trace& trace() const { return trace_; }

 private:
  struct SegmentRun;
  struct Saved;
  struct Pending;

  void OpenGroups();
  void PrepareSegments();
  void PrepareDevice();
  void GiveSign(size_t instruction);
  void LoadConstants(const ConstantSource& constants);

  void RunInstructions(size_t first, size_t last);
  void RunInstructions() { RunInstructions(0, run_.instructions.size()); }
  void RunOrReplay();
  std::pair<size_t, size_t> VisitRange(int visit) const;
  void BringAhead(const std::vector<size_t>& wanted);
  std::vector<at::Tensor> SendAway(const std::vector<size_t>& wanted);
  void Bring(const std::vector<size_t>& wanted);
  template <typename Copy>
  std::vector<at::Tensor> MoveSaved(bool to_host, const std::vector<size_t>& wanted,
                                    const Copy& copy);
  void ReleaseFetched(const Buffer& buffer);
  bool IsKeptAway(const Instruction& i) const;
  std::string WhyNotCaptured() const;
  void FinishReport(const at::Tensor& sums);
  StepRecord ReadReport();
  void ReadClock();
  void DropAll();

  void FinishOperands(const Instruction& i);
  void Execute(size_t index);
  void Free(const Instruction& i);
  void WaitForCopies() const;
  void Charge(Opcode kind);
  void OpenEvent(const Instruction& i);
  void CloseEvent(size_t event, double begin);
  bool IsInFlight(size_t instruction) const;
  void SampleMemory();
  void SampleGradients(const Instruction& i);
  [[noreturn]] void StopNotFinite();
  void Finish(size_t instruction);
  void FinishAll();
  at::Tensor& At(BufferId id) { return buffers_[id.index()]; }
  const StageProgram& stage(int s) const { return program_.stages[static_cast<size_t>(s)]; }
  GroupStore& store(int s, int g) { return *stores_.at({s, g}); }

  void Load(const Instruction& i);
  void RunForward(const Instruction& i);
  void RunBackward(const Instruction& i);
  void RunWeights(const Instruction& i);
  void Restore(const Instruction& i, const Saved& saved);
  bool IsGatheredAgain(const Buffer& buffer) const;
  void GiveGradient(const Instruction& i, const SegmentInput& input, const at::Tensor& leaf,
                    at::Tensor gradient);
  void Reshard(const Instruction& i, size_t index);
  void Sum(const Instruction& i);
  void AddGradient(const Instruction& i);
  void ComputeFactorGradient(const Instruction& i);
  void Send(const Instruction& i);
  void Recv(const Instruction& i, size_t index);
  void ReduceGradients(const Instruction& i, size_t index);
  void ReduceShards(const Instruction& i, size_t index);
  void SyncTied(const Instruction& i, size_t index);
  void Report(const Instruction& i, size_t index);
  void CountEarly(const at::Tensor& squares);
  void Update(const Instruction& i);
  void GatherWeights(const Instruction& i, size_t index);
  void KeepGradients(const Instruction& i, const at::Tensor& reduced);

  GroupHandle GroupOf(const std::vector<int64_t>& ranks) const;
  at::Tensor FinalGradients(BufferId id);
  bool IsAsAdded(BufferId id);
  void StartCollective(size_t index, const Instruction& i, Reduction reduction,
                       const at::Tensor& give, const at::Tensor& get, std::function<void()> finish);
  SegmentRun& segment(const Instruction& i);
  std::vector<Block> BlocksOf(const SegmentRun& run, size_t node, int microbatch) const;

  const Program& program_;
  Transport& transport_;
  ExecutorOptions options_;
  DataFn data_;
  int64_t device_;
  const DeviceProgram& run_;
  bool forward_only_ = false;
  int64_t step_ = 0;

  std::map<std::vector<int64_t>, GroupHandle> groups_;
  HostSide host_;  // for what is offloaded
  std::map<std::pair<int, int>, std::shared_ptr<GroupStore>> stores_;
  std::map<std::pair<int, int>, SegmentRun> segments_;  // by stage and segment
  std::set<std::pair<int, int>> again_;  // stage and Local: gathered again for backward
  std::map<std::pair<int, int>, Exchange> exchanges_;  // by stage and Local
  std::map<std::pair<int, bool>, std::vector<PeerMessage>>
      messages_;  // by transfer and whether it is sent
  std::vector<at::Tensor> buffers_;
  std::map<size_t, Saved> saved_;          // by buffer
  std::map<size_t, Pending> pending_;      // by instruction
  std::vector<size_t> pending_by_buffer_;  // the instruction that is still writing it
  struct Sent {
    const Instruction* instruction = nullptr;
    std::vector<Ticket> tickets;
    std::vector<at::Tensor> parts;
    double begin = 0;
    size_t event = 0;
  };
  std::vector<Sent> sends_;
  std::vector<at::Tensor> scratch_;  // per value
  std::map<int, Batch> batches_;     // by micro-batch: rows at hand
  double loss_ = 0;
  std::vector<char> fetched_;  // by instruction: done ahead by Prefetch
  // Of an executor that roams:
  std::vector<std::vector<size_t>> touched_;  // per visit: buffers, ascending
  std::vector<char> on_host_;                 // per buffer
  std::vector<at::Tensor> host_copies_;       // of buffers that never change
  std::set<const c10::StorageImpl*> parameter_storages_;
  std::optional<c10::Stream> leaves_;  // of copies to the host when it leaves its device
  std::atomic<bool> state_on_host_ = false;
  StreamMark brought_;                 // what came ahead of its visit
  std::vector<size_t>
      released_after_visit_;           // buffers of groups that are released when the visit is over
  std::optional<c10::Stream> stream_;  // where all work of a device but the CPU goes
  std::unique_ptr<StepInputs> inputs_;  // of such a device
  std::unique_ptr<StepClock> clock_;    // of such a device: its time, not the host's
  size_t first_event_ = 0;              // of this step in the trace
  double step_start_ = 0;
  std::unique_ptr<StepGraph> graph_;  // of a steady step
  std::string not_captured_;
  int64_t eager_steps_ = 0;
  bool look_closer_ = false;  // a step is run again to find out what is not finite
  std::optional<LossScale> loss_scale_;
  at::Tensor unscale_;  // of the gradients of this step, with a loss scale
  UpdateFactors factors_;
  bool spills_ = false;       // some group is
  at::Tensor early_squares_;  // f64: of the gradients of groups that were updated before the report
  at::Tensor report_;         // f64: loss, norm, whether the update was skipped
  std::vector<ParameterPart> gradients_;
  std::vector<size_t> gradient_buffers_;  // those that hold gradients of whole groups
  int64_t most_gradient_bytes_ = 0;
  int64_t first_step_ = -1;  // that was run
  AllocationMeter meter_;
  AllocationMeter* metered_ = &meter_;                         // that of the device it is on
  std::array<double, kOpcodeNames.size()> kind_seconds_ = {};  // of this step
  double host_seconds_ = 0;                                    // see StepRecord
  Opcode running_ = Opcode::kLoad;
  double charged_until_ = 0;  // every second of the step up to here is some kind's
  Trace trace_;
  double origin_ = 0, communication_until_ = 0;
  double sampled_bytes_ = 0, most_bytes_ = 0;
};

}  // namespace heddle
