// The parameters a device holds of a stage: flat weights, gradients and optimizer state of each group.
//
// A group's parameters lie one after the other in one flat tensor; what nodes read are views of it, leaves of
// autograd. With ZeRO the state is a chunk of that tensor: 1 and 2 keep whole weights, 3 keeps a chunk of them and
// fills the whole for a while. Where a server has the state, the chunk is all of it there and empty elsewhere.
//
// Of pruned parameters (plan/pruning.h) the flat tensor of weights is dense, with zeros where nothing is kept. Gradients,
// state and what is sent are another flat tensor, of what is kept alone; its chunks are those of ZeRO.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "program/program.h"
#include "runtime/checkpoint/state.h"
#include "runtime/host_rows.h"
#include "runtime/optimizer.h"
#include "runtime/weights.h"

namespace heddle {

// A part of a parameter (or its gradient): where it lies, and its elements.
struct ParameterPart {
  std::string name;
  Shape shape;  // of the whole
  Tile tile;
  at::Tensor values;
};

// What the state of a model takes on a device, by the storages that hold it. Gradients are counted at their most.
struct StateBytes {
  int64_t weights = 0;  // as they are computed with
  int64_t gradients = 0;
  int64_t master = 0;  // fp32 weights, where they are others
  int64_t moments = 0;
  int64_t index = 0;  // of what is kept of pruned parameters
  int64_t total() const { return weights + gradients + master + moments + index; }
};

// The bytes of the storages of some tensors on a device, each storage counted once. Undefined tensors have none.
int64_t StorageBytes(const std::vector<at::Tensor>& tensors, at::Device on);

class GroupStore {
 public:
  // `host` outlives it.
  GroupStore(const Program& program, StageId stage, ParameterGroupId group, int64_t device,
             at::Device on, const OptimizerOptions& optimizer, const WeightSource& weights,
             const HostSide& host, const Mask* mask = nullptr);

  // The leaf that nodes read as slot `slot`.
  const at::Tensor& leaf(size_t slot) const { return leaves_[slot]; }

  // Adds a gradient of a slot.
  void AddGradient(size_t slot, const at::Tensor& gradient);
  // Everything added since the last call, flat; slots that nothing was added to are zero.
  at::Tensor TakeGradients();
  void DropGradients() { std::fill(added_.begin(), added_.end(), at::Tensor()); }

  // What the transport sums, and where the result goes: the chunk this device updates.
  int64_t chunk_elements() const { return chunk_; }
  int64_t kept_elements() const { return kept_elements_; }

  // The sum of squares of a reduced gradient, of those elements that this device answers for.
  // An f64 tensor of one number, on the device.
  at::Tensor SquaredNorm(const at::Tensor& reduced) const;
  void Update(const at::Tensor& reduced, const UpdateFactors& factors);
  // The same for gradients that need no reduction: as they were added, without a flat copy.
  at::Tensor SquaredNormOfAdded() const;
  void UpdateFromAdded(const UpdateFactors& factors);

  // Of a group that is offloaded: its moments and master weights come for an update, go back, and are given up on the
  // device.
  void Fetch() { rows_->Fetch(); }
  void Evict();
  void ReleaseRows() { rows_->Release(); }

  // Of a group that is spilled: its weights come, are there for what the current stream does next, and go back. Its copy
  // on the device is given up by ReleaseWhole.
  void FetchWeights();
  void WeightsArrived();
  void EvictWeights();

  // Where weights that are not spilled, and what there is of gradients, are to be: on the device, or on the host.
  void Place(bool weights_here, bool gradients_here);
  // Spilled weights that were fetched and are needed again are given up, and fetched once more.
  void LeaveFetched();
  void ReturnFetched();

  // ZeRO: this device's chunk of the weights; a whole flat tensor to fill (a server's is full); once it is; and afterwards.
  at::Tensor Chunk() const;
  at::Tensor WholeToFill();
  void Filled(const at::Tensor& whole);
  void ReleaseWhole();

  // What this device holds of each parameter, in fp32 (the master weights, of chunks too).
  std::vector<ParameterPart> Parts(const at::Tensor& whole_flat) const;
  // Where they are when no update is going on: of a group that is spilled, or away, on the host.
  at::Tensor MasterFlat() const {
    return same_ && (group_.spilled || !weights_here_) ? host_weights_ : master_;
  }
  // The master weights; where the server has them, the weights that it sent, or nothing if they are narrower.
  at::Tensor HeldFlat() const;

  // Is what a flat tensor (whole, or this device's chunk) holds of a slot finite?
  bool IsFinite(size_t slot, const at::Tensor& flat) const;
  bool IsFiniteAsAdded(size_t slot) const;

  bool trained() const { return group_.trained; }

  // On the device, between steps; gradients are 0 then.
  StateBytes Memory() const;
  // What was added and not taken yet, per slot.
  const std::vector<at::Tensor>& added() const { return added_; }

  // What this device answers for of weights and moments: views, good until the next update.
  std::vector<StatePart> State() const;
  int64_t updates() const { return optimizer_->state().steps; }
  // Goes on from moments saved earlier; weights are what the constructor was given. Sources may be null: none.
  void Restore(int64_t updates, const WeightSource& first, const WeightSource& second);

 private:
  struct Slot {
    int64_t offset = 0, elements = 0;  // of gradients and state
    int64_t first = 0, weights = 0;    // of weights: the same, but for what is pruned
    at::Tensor index;                  // of those weights, what is kept; undefined: all
    Block covered;                     // of those weights, what this device answers for
    Shape local;
    Tile tile;           // of the whole parameter
    bool counts = true;  // in the norm: no other device holds the same
  };

  at::Tensor KeptOf(const Slot& slot, const at::Tensor& dense) const;
  void Expand(const at::Tensor& whole);
  void FindCovered();
  void Spill();
  Block InChunk(const Slot& slot) const;
  at::Tensor ChunkOf(const WeightSource& source) const;
  at::Tensor Moment(const std::vector<at::Tensor>& moments, size_t slot, Block flat) const;
  void KeepMomentsBySlot();
  void UseRows(const at::Tensor& rows);
  void Step(std::vector<at::Tensor> weights, std::vector<at::Tensor> gradients,
            const UpdateFactors& factors);

  const ParameterGroup& group_;
  std::vector<std::string> names_;
  std::vector<Shape> shapes_;
  std::vector<Slot> slots_;
  int64_t flat_elements_ = 0;                          // of weights
  int64_t kept_elements_ = 0, chunk_ = 0, begin_ = 0;  // the chunk is [begin_, begin_ + chunk_)
  bool pruned_ = false;
  at::ScalarType compute_ = at::kFloat;
  at::Tensor flat_;    // weights as nodes read them; empty storage between uses with ZeRO 3
  at::Tensor shard_;   // ZeRO 3: the chunk of them that stays
  at::Tensor master_;  // fp32 weights of the chunk
  bool same_ = false;  // master_ is shard_, or a part of flat_: what nodes read is fp32, too
  std::vector<at::Tensor> leaves_;
  // Per slot, what was added; `owned_` where it is a tensor of our own that may be added to in place.
  std::vector<at::Tensor> added_;
  std::vector<bool> owned_;
  std::unique_ptr<Optimizer> optimizer_;
  bool by_slot_ = false;            // its moments are per slot, not one of the chunk
  std::unique_ptr<HostRows> rows_;  // offloaded: master weights (unless `same_`), then moments
  const HostSide& host_;
  // Spilled: the weights that are kept, and of pruned ones the index of each slot.
  HostShare host_share_;
  at::Tensor host_weights_;
  std::vector<at::Tensor> host_index_;
  StreamMark arrived_;    // the weights that were fetched last
  StreamMark evicted_;    // those that were evicted last
  bool was_fetched_ = false;  // fetched, and sent away with the rest
  bool weights_here_ = true, gradients_here_ = true;
};

}  // namespace heddle
