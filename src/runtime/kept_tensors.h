// Moves what autograd keeps for backward from a device to its host and back.
//
//   KeptTensors kept;
//   {
//     NoteKept noting(kept);                // records what this thread's operations save
//     y = f(x);
//   }
//   TensorMover away([](const at::Tensor& bytes) { return ToHost(bytes, meter); });
//   for (const auto& tensor : kept) away.Move(tensor);      they must be back before backward
//
// libtorch asks for hooks whenever an operation saves a tensor. Ours returns some while there is a NoteKept, and none
// otherwise. Lists do not keep tensors alive: backward releases them as always.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

namespace heddle {

using KeptTensors = std::vector<std::weak_ptr<at::Tensor>>;

// Installs the hooks. To be called before the first NoteKept; further calls do nothing.
void MakeKeptMovable();

// Applies to the calling thread. Objects do not nest.
class NoteKept {
 public:
  explicit NoteKept(KeptTensors& list);
  ~NoteKept();
  NoteKept(const NoteKept&) = delete;
  NoteKept& operator=(const NoteKept&) = delete;
};

// Moves tensors with their storages. Tensors that share a storage share one again.
class TensorMover {
 public:
  // `copy` makes a tensor of the same bytes elsewhere. Storages in `stay`, those of parameters, are not moved.
  using Copy = std::function<at::Tensor(const at::Tensor& bytes)>;
  TensorMover(Copy copy, const std::set<const c10::StorageImpl*>& stay)
      : copy_(std::move(copy)), stay_(stay) {}

  void Move(const std::weak_ptr<at::Tensor>& kept);
  // The tensors as they were before. The caller keeps them until nothing reads them any more.
  std::vector<at::Tensor> TakeMoved() { return std::move(moved_); }

 private:
  Copy copy_;
  const std::set<const c10::StorageImpl*>& stay_;
  std::map<const c10::StorageImpl*, at::Tensor> copies_;
  std::vector<at::Tensor> moved_;
};

}  // namespace heddle
