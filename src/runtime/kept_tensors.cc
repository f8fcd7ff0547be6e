#include "runtime/kept_tensors.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include "base/check.h"

namespace heddle {
namespace {

thread_local KeptTensors* noted = nullptr;

class NotedVariable : public torch::autograd::SavedVariableHooks {
 public:
  explicit NotedVariable(KeptTensors& list) { list.push_back(tensor_); }
  void call_pack_hook(const at::Tensor& tensor) override { *tensor_ = tensor; }
  at::Tensor call_unpack_hook() override { return *tensor_; }

 private:
  std::shared_ptr<at::Tensor> tensor_ = std::make_shared<at::Tensor>();
};

class NotingEngine : public torch::autograd::Engine {
 public:
  ~NotingEngine() override { stop(); }
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    return noted == nullptr ? nullptr : std::make_unique<NotedVariable>(*noted);
  }
};

torch::autograd::Engine& TheEngine() {
  static NotingEngine engine;
  return engine;
}

}  // namespace

void MakeKeptMovable() {
  static const bool done = [] {
    torch::autograd::set_default_engine_stub(&TheEngine);
    return true;
  }();
  (void)done;
}

NoteKept::NoteKept(KeptTensors& list) {
  HEDDLE_CHECK(noted == nullptr, "what is kept is noted elsewhere");
  noted = &list;
}

NoteKept::~NoteKept() { noted = nullptr; }

void TensorMover::Move(const std::weak_ptr<at::Tensor>& kept) {
  std::shared_ptr<at::Tensor> held = kept.lock();
  if (!held || !held->defined()) return;
  at::Tensor& tensor = *held;
  const at::Storage& storage = tensor.storage();
  const c10::StorageImpl* from = storage.unsafeGetStorageImpl();
  if (stay_.count(from) != 0 || storage.nbytes() == 0) return;
  auto [found, fresh] = copies_.try_emplace(from);
  if (fresh) {
    at::Tensor bytes = at::empty({0}, tensor.options().dtype(at::kByte));
    bytes.set_(storage, 0, {static_cast<int64_t>(storage.nbytes())}, {1});
    found->second = copy_(bytes);
  }
  const at::Tensor& copy = found->second;
  at::Tensor there = at::empty({0}, tensor.options().device(copy.device()));
  there.set_(copy.storage(), tensor.storage_offset(), tensor.sizes(), tensor.strides());
  moved_.push_back(std::move(tensor));
  tensor = std::move(there);
}

}  // namespace heddle
