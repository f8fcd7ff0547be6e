#include "runtime/host_tensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/units.h"
#include "runtime/accelerator.h"

namespace heddle {
namespace {

// An open file in `folder` that has no name: nobody else finds it, and it is removed with its last user.
int NamelessFile(const std::string& folder) {
  int file = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)) return file;
  std::string path = folder + "/heddle-spilled-XXXXXX";  // file systems without such files
  file = mkostemp(path.data(), O_CLOEXEC);
  if (file >= 0) unlink(path.c_str());
  return file;
}

// Zeros in a file. Its room on the disk is taken now: a store into a page that a full disk has no room for would kill
// the process.
at::Tensor MappedTensor(at::IntArrayRef sizes, at::ScalarType type, int64_t bytes,
                        const std::string& folder) {
  auto fail = [&](int error) {
    ThrowRun(
        "{}: no file of {} for spilled tensors: {}; free some room, or "
        "give another folder",
        folder, FormatBytes({bytes}), std::strerror(error));
  };
  int file = NamelessFile(folder);
  if (file < 0) fail(errno);
  // A size that clearly does not fit is not tried: the disk would be full for a moment, for everybody.
  struct statvfs disk {};
  bool fits = fstatvfs(file, &disk) != 0 ||
              bytes / static_cast<int64_t>(disk.f_frsize) < static_cast<int64_t>(disk.f_bavail);
  int error = fits ? posix_fallocate(file, 0, bytes) : ENOSPC;
  void* memory = MAP_FAILED;
  if (error == 0) {
    memory = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) error = errno;
  }
  close(file);  // the mapping keeps it
  if (error != 0) fail(error);
  auto unmap = [bytes](void* at) { munmap(at, static_cast<size_t>(bytes)); };
  return at::from_blob(memory, sizes, unmap, at::TensorOptions(type));
}

}  // namespace

bool HostShare::Take(HostBudget& budget, int64_t bytes) {
  HEDDLE_CHECK(budget_ == nullptr || budget_ == &budget);
  if (budget.left.fetch_sub(bytes) < bytes) {
    budget.left.fetch_add(bytes);
    return false;
  }
  budget_ = &budget;
  bytes_ += bytes;
  return true;
}

void HostShare::GiveBack() {
  if (budget_ != nullptr) budget_->left.fetch_add(std::exchange(bytes_, 0));
}

at::Tensor NewOnHost(at::IntArrayRef sizes, at::ScalarType type, at::Device device,
                     const HostSide& host, HostShare& share) {
  if (host.budget != nullptr) {
    auto bytes = static_cast<int64_t>(c10::elementSize(type));
    for (int64_t size : sizes) bytes *= size;
    bool taken = share.Take(*host.budget, bytes);
    if (!taken && bytes > 0) return MappedTensor(sizes, type, bytes, host.budget->folder);
  }
  if (!device.is_cpu()) return PinnedZeros(sizes, type);
  AllocationMeter::Scope counted(host.meter);
  return at::zeros(sizes, type);
}

at::Tensor ToHost(const at::Tensor& there, const AllocationMeter& meter) {
  AllocationMeter::Scope counted(meter);
  at::TensorOptions options = there.options().device(at::kCPU);
  if (!there.is_cpu()) options = options.pinned_memory(true);
  return at::empty(there.sizes(), options).copy_(there, /*non_blocking=*/true);
}

at::Tensor FromHost(const at::Tensor& host, at::Device device) {
  at::TensorOptions options = host.options().device(device).pinned_memory(false);
  return at::empty(host.sizes(), options).copy_(host, /*non_blocking=*/true);
}

}  // namespace heddle
