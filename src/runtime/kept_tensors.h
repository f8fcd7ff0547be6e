// What autograd keeps for backward, so that it can be moved: from a device to its host and back.
//
//   KeptTensors kept;
//   {
//     NoteKept noting(kept);                // what this thread's operations save is noted
//     y = f(x);
//   }
//   TensorMover away([](const at::Tensor& bytes) { return ToHost(bytes, meter); });
//   for (const auto& tensor : kept) away.Move(tensor);      before backward they are to be back
//
// libtorch asks its engine for hooks whenever an operation saves a tensor; ours gives some where there is a NoteKept, and none
// elsewhere. Lists do not keep tensors alive: backward lets them go as always.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

namespace heddle {

using KeptTensors = std::vector<std::weak_ptr<at::Tensor>>;

// Once, before anything is noted. Further calls do nothing.
void MakeKeptMovable();

// Of the calling thread; they do not nest.
class NoteKept {
 public:
  explicit NoteKept(KeptTensors& list);
  ~NoteKept();
  NoteKept(const NoteKept&) = delete;
  NoteKept& operator=(const NoteKept&) = delete;
};

// Moves tensors with their storages; those that share one share one again.
class TensorMover {
 public:
  // `copy` makes another tensor of some bytes, somewhere. Storages in `stay` are left alone: parameters.
  using Copy = std::function<at::Tensor(const at::Tensor& bytes)>;
  TensorMover(Copy copy, const std::set<const c10::StorageImpl*>& stay)
      : copy_(std::move(copy)), stay_(stay) {}

  void Move(const std::weak_ptr<at::Tensor>& kept);
  // As they were; whoever still reads them keeps them by this.
  std::vector<at::Tensor> TakeMoved() { return std::move(moved_); }

 private:
  Copy copy_;
  const std::set<const c10::StorageImpl*>& stay_;
  std::map<const c10::StorageImpl*, at::Tensor> copies_;
  std::vector<at::Tensor> moved_;
};

}  // namespace heddle
