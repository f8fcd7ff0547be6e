#include "runtime/parameters/spilled_weights.h"

#include "runtime/torch_compat.h"

namespace heddle {

SpilledWeights::SpilledWeights(const GroupLayout& layout, PackedForm& form, const at::Tensor& flat,
                               const HostSide& host)
    : layout_(layout), form_(form), flat_(flat), host_(host) {
  auto on_host = [&](const at::Tensor& there) {
    return NewOnHost(there.sizes(), there.scalar_type(), there.device(), host_, share_)
        .copy_(there);
  };
  if (!layout_.pruned) {
    kept_ = on_host(flat_.detach());
  } else {
    kept_ = NewOnHost({layout_.kept_elements}, flat_.scalar_type(), flat_.device(), host_, share_);
    for (size_t s = 0; s < layout_.slots.size(); ++s) {
      const SlotLayout& slot = layout_.slots[s];
      kept_.narrow(0, slot.offset, slot.elements)
          .copy_(form_.Pack(s, flat_.detach().narrow(0, slot.first, slot.weights)));
      index_.push_back(form_.index(s).defined() ? on_host(form_.index(s)) : at::Tensor());
    }
  }
  if (!flat_.is_cpu()) WaitFor(CurrentStream(flat_.device()));
  Release();
}

void SpilledWeights::Fetch() {
  StreamScope copying(host_.fetches);
  evicted_.Wait(flat_.device());
  ResizeStorage(flat_, layout_.flat_elements);
  at::Tensor flat = flat_.variable_data();
  host_.traffic->fetched += static_cast<int64_t>(kept_.nbytes());
  if (!layout_.pruned) {
    flat.copy_(kept_, /*non_blocking=*/true);
    return arrived_.Set(host_.fetches);
  }
  for (size_t s = 0; s < index_.size(); ++s) {
    if (!index_[s].defined()) continue;
    host_.traffic->fetched += static_cast<int64_t>(index_[s].nbytes());
    form_.MoveIndex(s, index_[s].to(flat.device(), /*non_blocking=*/true, /*copy=*/true));
  }
  at::Tensor kept = at::empty(kept_.sizes(), flat.options());
  kept.copy_(kept_, /*non_blocking=*/true);
  flat.zero_();
  form_.Unpack(kept, flat);
  arrived_.Set(host_.fetches);
}

void SpilledWeights::Evict() {
  if (host_.evictions) OrderStreams(CurrentStream(flat_.device()), *host_.evictions);
  StreamScope copying(host_.evictions);
  at::NoGradGuard no_grad;
  at::Tensor flat = flat_.detach();
  host_.traffic->evicted += static_cast<int64_t>(kept_.nbytes());
  if (!layout_.pruned) {
    kept_.copy_(flat, /*non_blocking=*/true);
    return evicted_.Set(host_.evictions);
  }
  for (size_t s = 0; s < layout_.slots.size(); ++s) {
    const SlotLayout& slot = layout_.slots[s];
    kept_.narrow(0, slot.offset, slot.elements)
        .copy_(form_.Pack(s, flat.narrow(0, slot.first, slot.weights)), /*non_blocking=*/true);
  }
  evicted_.Set(host_.evictions);
}

void SpilledWeights::Release() {
  if (host_.fetches) OrderStreams(CurrentStream(flat_.device()), *host_.fetches);
  StreamScope copying(host_.fetches);
  evicted_.Wait(flat_.device());
  for (size_t s = 0; s < index_.size(); ++s) {
    if (index_[s].defined()) form_.MoveIndex(s, index_[s]);
  }
  ResizeStorage(flat_, 0);
}

void SpilledWeights::LeaveFetched() {
  if (flat_.storage().nbytes() == 0) return;
  returns_ = true;
  Release();
}

void SpilledWeights::ReturnFetched() {
  if (returns_) Fetch();
  returns_ = false;
}

}  // namespace heddle
