// Ops along dimensions: reductions, ArgMax, CumSum, TopK. A reduction over a repeated dimension is computed once: a sum
// is multiplied by the number of repeats, a product is raised to it.
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "frontend/const_eval_internal.h"

namespace heddle::const_eval {
namespace {

// A reduction of a storage: the storage of the result, and how often the stored elements repeat.
struct Reduction {
  std::vector<bool> reduced;
  Shape kept;           // storage of the result, with the reduced dimensions
  Shape result;         // storage of the result
  int64_t stored = 1;   // stored elements that are reduced to one element of the result
  int64_t repeats = 1;  // how often each of them counts
};

Reduction MakeReduction(const Call& call) {
  const ConstTensor& x = call.operand();
  Reduction reduction;
  reduction.reduced.resize(x.shape.size());
  for (const int64_t axis : IntsAttr(call.attributes, "axes")) {
    if (axis < 0 || axis >= static_cast<int64_t>(x.shape.size())) {
      ThrowInput("{}: axis {} is out of range for rank {}", call.op, axis, x.shape.size());
    }
    reduction.reduced[static_cast<size_t>(axis)] = true;
  }
  const bool keep = IntAttr(call.attributes, "keepdims", 1) != 0;
  for (size_t d = 0; d < x.shape.size(); ++d) {
    const int64_t stored = x.storage->shape[d];
    const bool reduced = reduction.reduced[d];
    reduction.kept.push_back(reduced ? 1 : stored);
    if (!reduced || keep) reduction.result.push_back(reduction.kept.back());
    if (!reduced) continue;
    reduction.stored = WrapMul(reduction.stored, stored);  // wraps only where another size is 0
    if (stored == 1) reduction.repeats *= x.shape[d];
  }
  return reduction;
}

// Folds the elements of every group with f(accumulator, element), starting from `initial`, then applies `finish`.
template <class T, class Fold, class Finish>
HostTensor ReduceStorage(const HostTensor& x, const Reduction& reduction, Accumulator<T> initial,
                         Fold fold, Finish finish) {
  using A = Accumulator<T>;
  HostTensor out(kDTypeOf<T>, reduction.result);
  const std::span<T> results = out.as<T>();
  std::vector<A> sums(results.size(), initial);
  ForEachRow<2>(x.shape, {BroadcastStrides(x.shape), BroadcastStrides(reduction.kept)},
                [&](auto& at, int64_t n, auto& step) {
                  const T* from = x.as<T>().data() + at[0];
                  A* to = sums.data() + at[1];
                  if (step[1] == 0) {
                    A sum = *to;
                    for (int64_t i = 0; i < n; ++i) sum = fold(sum, static_cast<A>(from[i]));
                    *to = sum;
                  } else {
                    for (int64_t i = 0; i < n; ++i) to[i] = fold(to[i], static_cast<A>(from[i]));
                  }
                });
  for (size_t i = 0; i < sums.size(); ++i) results[i] = static_cast<T>(finish(sums[i]));
  return out;
}

// The functions of a reduction; each is used in every domain.
struct Sum {
  static constexpr bool kOfNothing = true;  // has a value for no elements
  template <class A>
  static A Initial() {
    return 0;
  }
  template <class A>
  static A Fold(A sum, A x) {
    return WrapAdd(sum, x);
  }
  template <class A>
  static A Finish(A sum, const Reduction& reduction) {
    return WrapMul(sum, static_cast<A>(reduction.repeats));
  }
};

struct Mean : Sum {
  static constexpr bool kOfNothing = false;
  template <class A>
  static A Finish(A sum, const Reduction& reduction) {
    return sum / static_cast<A>(reduction.stored);
  }
};

struct Prod {
  static constexpr bool kOfNothing = true;
  template <class A>
  static A Initial() {
    return 1;
  }
  template <class A>
  static A Fold(A product, A x) {
    return WrapMul(product, x);
  }
  static double Finish(double product, const Reduction& reduction) {
    return std::pow(product, static_cast<double>(reduction.repeats));
  }
  static int64_t Finish(int64_t product, const Reduction& reduction) {
    return WrapPow(product, reduction.repeats);
  }
};

// NaN counts as the maximum.
struct Max {
  static constexpr bool kOfNothing = false;
  template <class A>
  static A Initial() {
    if constexpr (std::is_floating_point_v<A>) return -std::numeric_limits<A>::infinity();
    return std::numeric_limits<A>::lowest();
  }
  template <class A>
  static A Fold(A max, A x) {
    return x > max || x != x ? x : max;
  }
  template <class A>
  static A Finish(A max, const Reduction&) {
    return max;
  }
};

struct Min : Max {
  template <class A>
  static A Initial() {
    if constexpr (std::is_floating_point_v<A>) return std::numeric_limits<A>::infinity();
    return std::numeric_limits<A>::max();
  }
  template <class A>
  static A Fold(A min, A x) {
    return x < min || x != x ? x : min;
  }
};

template <class How>
Results Reduce(const Call& call) {
  const ConstTensor& x = call.operand();
  if (ExceedsCap(x.dtype(), x.storage->shape)) return std::nullopt;
  const Reduction reduction = MakeReduction(call);
  if (reduction.stored == 0 && !How::kOfNothing) return std::nullopt;
  const DType domain = Domain(x.dtype());
  const auto storage = InType(x.storage, domain);
  return VisitDomain(domain, [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulator<T>;
    return One(call, ReduceStorage<T>(
                         *storage, reduction, How::template Initial<A>(),
                         [](A a, A b) { return How::Fold(a, b); },
                         [&](A a) { return How::Finish(a, reduction); }));
  });
}

// --- Along one axis ------------------------------------------------------------------------------

// A storage seen as [outer, size, inner] around an axis.
struct AxisView {
  int64_t outer = 1;
  int64_t size = 1;
  int64_t inner = 1;
};

AxisView ViewAround(const Shape& shape, size_t axis) {
  AxisView view;
  for (size_t d = 0; d < shape.size(); ++d) {
    (d < axis ? view.outer : d == axis ? view.size : view.inner) *= shape[d];
  }
  return view;
}

// Whether a comes before b when the largest (or smallest) is wanted. NaN comes first in both cases.
template <class T>
bool Before(T a, T b, bool largest) {
  if (a != a || b != b) return a != a && b == b;
  return largest ? a > b : a < b;
}

// The first index of the maximum or minimum along an axis.
Results ArgExtreme(const Call& call, bool largest) {
  const ConstTensor& x = call.operand();
  const size_t axis = AxisAttr(call, x.shape.size());
  if (ExceedsCap(x.dtype(), x.storage->shape)) return std::nullopt;
  if (x.shape[axis] == 0) return std::nullopt;
  const AxisView view = ViewAround(x.storage->shape, axis);
  Shape shape = x.storage->shape;
  if (IntAttr(call.attributes, "keepdims", 1) != 0) {
    shape[axis] = 1;
  } else {
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  }
  std::optional<HostTensor> out = Allocate(DType::kI64, shape);
  if (!out) return std::nullopt;
  const DType domain = Domain(x.dtype());
  const auto storage = InType(x.storage, domain);
  VisitDomain(domain, [&](auto zero) {
    using T = decltype(zero);
    int64_t* to = out->as<int64_t>().data();
    for (int64_t o = 0; o < view.outer; ++o) {
      for (int64_t j = 0; j < view.inner; ++j) {
        const T* from = storage->as<T>().data() + o * view.size * view.inner + j;
        int64_t best = 0;
        for (int64_t i = 1; i < view.size; ++i) {
          if (Before(from[i * view.inner], from[best * view.inner], largest)) best = i;
        }
        *to++ = best;
      }
    }
  });
  return One(call, *std::move(out), Compression::kTry);
}

Results ArgMax(const Call& call) { return ArgExtreme(call, true); }
Results ArgMin(const Call& call) { return ArgExtreme(call, false); }

Results TopK(const Call& call) {
  const size_t axis = AxisAttr(call, call.shape().size());
  const int64_t k = IntAttr(call.attributes, "k");
  const bool largest = IntAttr(call.attributes, "largest", 1) != 0;
  if (k < 0 || k > call.shape()[axis])
    ThrowInput("TopK: k={} is out of range for a dimension of {}", k, call.shape()[axis]);
  if (call.result_types.size() != 2) ThrowInput("TopK: {} results", call.result_types.size());
  const std::optional<ConstTensor> x = Unrepeat(call.operand(), axis);
  if (!x || ExceedsCap(DType::kI64, x->storage->shape)) return std::nullopt;
  const AxisView view = ViewAround(x->storage->shape, axis);
  Shape shape = x->storage->shape;
  shape[axis] = k;
  const DType domain = Domain(x->dtype());
  const auto storage = InType(x->storage, domain);
  HostTensor values(domain, shape);
  HostTensor indices(DType::kI64, shape);
  VisitDomain(domain, [&](auto zero) {
    using T = decltype(zero);
    std::vector<int64_t> order(static_cast<size_t>(view.size));
    for (int64_t row = 0; row < view.outer * view.inner; ++row) {
      const int64_t o = row / view.inner;
      const int64_t j = row % view.inner;
      const T* from = storage->as<T>().data() + o * view.size * view.inner + j;
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        return Before(from[a * view.inner], from[b * view.inner], largest);
      });
      for (int64_t i = 0; i < k; ++i) {
        const auto to = static_cast<size_t>((o * k + i) * view.inner + j);
        const int64_t chosen = order[static_cast<size_t>(i)];
        values.as<T>()[to] = from[chosen * view.inner];
        indices.as<int64_t>()[to] = chosen;
      }
    }
  });
  return std::vector{MakeResult(call, 0, std::move(values), Compression::kTry),
                     MakeResult(call, 1, std::move(indices), Compression::kTry)};
}

template <class T>
void CumSumStorage(const HostTensor& x, const AxisView& view, bool exclusive, bool reverse,
                   HostTensor& out) {
  std::vector<Accumulator<T>> sums(static_cast<size_t>(view.inner));
  for (int64_t o = 0; o < view.outer; ++o) {
    std::ranges::fill(sums, 0);
    for (int64_t i = 0; i < view.size; ++i) {
      const int64_t at = (o * view.size + (reverse ? view.size - 1 - i : i)) * view.inner;
      const T* from = x.as<T>().data() + at;
      T* to = out.as<T>().data() + at;
      for (size_t j = 0; j < sums.size(); ++j) {
        const Accumulator<T> sum = WrapAdd(sums[j], static_cast<Accumulator<T>>(from[j]));
        to[j] = static_cast<T>(exclusive ? sums[j] : sum);
        sums[j] = sum;
      }
    }
  }
}

Results CumSum(const Call& call) {
  const size_t axis = AxisAttr(call, call.shape().size());
  const bool exclusive = IntAttr(call.attributes, "exclusive", 0) != 0;
  const bool reverse = IntAttr(call.attributes, "reverse", 0) != 0;
  const std::optional<ConstTensor> x = Unrepeat(call.operand(), axis);
  if (!x || ExceedsCap(x->dtype(), x->storage->shape)) return std::nullopt;
  const DType domain = Domain(x->dtype());
  const auto storage = InType(x->storage, domain);
  HostTensor out(domain, storage->shape);
  const AxisView view = ViewAround(storage->shape, axis);
  VisitDomain(domain, [&](auto zero) {
    CumSumStorage<decltype(zero)>(*storage, view, exclusive, reverse, out);
  });
  return One(call, std::move(out), Compression::kTry);
}

}  // namespace

std::span<const Entry> ReduceEntries() {
  static const Entry kEntries[] = {
      {"ReduceSum", 1, Reduce<Sum>},   {"ReduceMean", 1, Reduce<Mean>},
      {"ReduceProd", 1, Reduce<Prod>}, {"ReduceMax", 1, Reduce<Max>},
      {"ReduceMin", 1, Reduce<Min>},   {"ArgMax", 1, ArgMax},
      {"ArgMin", 1, ArgMin},           {"TopK", 1, TopK},
      {"CumSum", 1, CumSum},
  };
  return kEntries;
}

}  // namespace heddle::const_eval
