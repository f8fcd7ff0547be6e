// What groups have in the memory of the host: weights that are spilled, state that is offloaded.
//
// Copies to the device are on one stream, copies from it on another. Three things hold them apart:
//
//   - evictions begin once the current stream has passed, which updated what they read
//   - what is fetched again waits for its own eviction: the numbers on the host are whole then
//   - memory on the device is that of the stream of fetches, and goes back to it once that stream has been told to wait for
//     what still reads it: the current stream, and the eviction. Who frees it when is the program's to say
#include <array>

#include "runtime/accelerator.h"
#include "runtime/parameter_store.h"
#include "runtime/torch_compat.h"

namespace heddle {

// Weights go to the host, where they are unless they are fetched.
void GroupStore::Spill() {
  auto on_host = [&](const at::Tensor& there) {
    return NewOnHost(there.sizes(), there.scalar_type(), there.device(), host_, host_share_)
        .copy_(there);
  };
  if (!pruned_) {
    host_weights_ = on_host(flat_.detach());
  } else {
    host_weights_ = NewOnHost({kept_elements_}, compute_, flat_.device(), host_, host_share_);
    for (Slot& slot : slots_) {
      host_weights_.narrow(0, slot.offset, slot.elements)
          .copy_(KeptOf(slot, flat_.detach().narrow(0, slot.first, slot.weights)));
      host_index_.push_back(slot.index.defined() ? on_host(slot.index) : at::Tensor());
    }
  }
  if (!flat_.is_cpu()) WaitFor(CurrentStream(flat_.device()));
  ReleaseWhole();
}

void GroupStore::FetchWeights() {
  StreamScope copying(host_.fetches);
  evicted_.Wait(flat_.device());
  ResizeStorage(flat_, flat_elements_);
  at::Tensor flat = flat_.variable_data();
  host_.traffic->fetched += static_cast<int64_t>(host_weights_.nbytes());
  if (!pruned_) {
    flat.copy_(host_weights_, /*non_blocking=*/true);
    return arrived_.Set(host_.fetches);
  }
  for (size_t s = 0; s < slots_.size(); ++s) {
    if (!host_index_[s].defined()) continue;
    host_.traffic->fetched += static_cast<int64_t>(host_index_[s].nbytes());
    slots_[s].index = host_index_[s].to(flat.device(), /*non_blocking=*/true, /*copy=*/true);
  }
  at::Tensor kept = at::empty(host_weights_.sizes(), flat.options());
  kept.copy_(host_weights_, /*non_blocking=*/true);
  flat.zero_();
  Expand(kept);
  arrived_.Set(host_.fetches);
}

void GroupStore::WeightsArrived() { arrived_.Wait(flat_.device()); }

void GroupStore::EvictWeights() {
  if (host_.evictions) OrderStreams(CurrentStream(flat_.device()), *host_.evictions);
  StreamScope copying(host_.evictions);
  at::NoGradGuard no_grad;
  at::Tensor flat = flat_.detach();
  host_.traffic->evicted += static_cast<int64_t>(host_weights_.nbytes());
  if (!pruned_) {
    host_weights_.copy_(flat, /*non_blocking=*/true);
    return evicted_.Set(host_.evictions);
  }
  for (const Slot& slot : slots_) {
    host_weights_.narrow(0, slot.offset, slot.elements)
        .copy_(KeptOf(slot, flat.narrow(0, slot.first, slot.weights)), /*non_blocking=*/true);
  }
  evicted_.Set(host_.evictions);
}

void GroupStore::ReleaseWhole() {
  if (group_.spilled) {
    if (host_.fetches) OrderStreams(CurrentStream(flat_.device()), *host_.fetches);
    StreamScope copying(host_.fetches);
    evicted_.Wait(flat_.device());
    for (size_t s = 0; s < host_index_.size(); ++s) {
      if (host_index_[s].defined()) slots_[s].index = host_index_[s];
    }
  }
  ResizeStorage(flat_, 0);
}

void GroupStore::Place(bool weights_here, bool gradients_here) {
  // The current stream need not be the one that memory was taken for.
  auto wait = [&] {
    if (!flat_.is_cpu()) WaitFor(CurrentStream(flat_.device()));
  };
  if (gradients_here != gradients_here_) {
    gradients_here_ = gradients_here;
    std::vector<at::Tensor> leaving = added_;
    for (at::Tensor& gradient : added_) {
      if (!gradient.defined()) continue;
      gradient =
          gradients_here ? FromHost(gradient, flat_.device()) : ToHost(gradient, host_.meter);
    }
    if (!gradients_here) wait();
  }
  if (group_.spilled || weights_here == weights_here_) return;
  weights_here_ = weights_here;
  if (weights_here) {
    ResizeStorage(flat_, flat_elements_);
    flat_.variable_data().copy_(host_weights_, /*non_blocking=*/true);
    host_weights_.reset();
  } else {
    host_weights_ = ToHost(flat_.variable_data(), host_.meter);
    wait();
    ResizeStorage(flat_, 0);
  }
}

void GroupStore::LeaveFetched() {
  if (!group_.spilled || flat_.storage().nbytes() == 0) return;
  was_fetched_ = true;
  ReleaseWhole();
}

void GroupStore::ReturnFetched() {
  if (was_fetched_) FetchWeights();
  was_fetched_ = false;
}

// Master weights and moments are these from now on.
void GroupStore::UseRows(const at::Tensor& rows) {
  int64_t row = 0;
  if (!same_) master_ = rows[row++];
  std::array<std::vector<at::Tensor>, 2> moments;
  for (int64_t m = 0; m < 2; ++m) {
    moments[static_cast<size_t>(m)] = {m < optimizer_->moments() ? rows[row++] : at::Tensor()};
  }
  optimizer_->UseMoments(std::move(moments[0]), std::move(moments[1]));
  by_slot_ = false;
}

void GroupStore::Evict() {
  rows_->Evict();
  UseRows(rows_->host());
}

}  // namespace heddle
