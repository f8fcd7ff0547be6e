#include "runtime/tensor.h"

#include <cstring>

#include "base/check.h"
#include "runtime/kernels/kernel.h"

namespace heddle {
namespace {

DType FromTorch(at::ScalarType type) {
  for (const DTypeInfo& info : AllDTypes()) {
    if (ToTorch(info.dtype) == type) return info.dtype;
  }
  HEDDLE_CHECK(false, "no element type for {}", at::toString(type));
}

}  // namespace

at::Tensor ToTorchTensor(const HostTensor& tensor) {
  at::Tensor made = at::empty(tensor.shape, at::TensorOptions(ToTorch(tensor.dtype)));
  if (!tensor.data.empty()) std::memcpy(made.data_ptr(), tensor.data.data(), tensor.data.size());
  return made;
}

HostTensor ToHostTensor(const at::Tensor& tensor) {
  at::Tensor dense = tensor.detach().to(at::kCPU).contiguous();
  HostTensor made(FromTorch(dense.scalar_type()), dense.sizes().vec());
  if (!made.data.empty()) std::memcpy(made.data.data(), dense.data_ptr(), made.data.size());
  return made;
}

}  // namespace heddle
