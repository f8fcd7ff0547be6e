// Elementwise functions of several operands, and MatMul. The loops run only over the broadcast of the operands'
// storage: what repeats in all operands repeats in the result.
#include <algorithm>

#include "base/error.h"
#include "frontend/const_eval_internal.h"

namespace heddle::const_eval {
namespace {

// The storage of the result: the broadcast of the operands' storages.
Shape BroadcastStorage(const Call& call, size_t dims_dropped = 0) {
  Shape out;
  for (const ConstTensor& operand : call.operands) {
    const Shape& storage = operand.storage->shape;
    const size_t rank = storage.size() - dims_dropped;
    if (rank > out.size()) out.insert(out.begin(), rank - out.size(), 1);
    for (size_t i = 0; i < rank; ++i) {
      int64_t& size = out[out.size() - 1 - i];
      const int64_t other = storage[rank - 1 - i];
      if (size == 1) {
        size = other;
      } else if (other != 1 && other != size) {
        ThrowInput("{}: sizes {} and {} do not broadcast", call.op, size, other);
      }
    }
  }
  return out;
}

// Computes out = f(a, b) with the given element types.
template <class R, class T, class F>
void Zip(const HostTensor& a, const HostTensor& b, HostTensor& out, F f) {
  const size_t rank = out.shape.size();
  const T* as = a.as<T>().data();
  const T* bs = b.as<T>().data();
  R* outs = out.as<R>().data();
  ForEachRow<3>(out.shape,
                {BroadcastStrides(out.shape), BroadcastStrides(a.shape, rank),
                 BroadcastStrides(b.shape, rank)},
                [&](auto& at, int64_t n, auto& step) {
                  R* to = outs + at[0];
                  const T* x = as + at[1];
                  const T* y = bs + at[2];
                  WithStep(step[1], [&](auto dx) {
                    WithStep(step[2], [&](auto dy) {
                      for (int64_t i = 0; i < n; ++i)
                        to[i] = static_cast<R>(f(x[i * dx()], y[i * dy()]));
                    });
                  });
                });
}

// Applies f to both operands in `domain`, which must be the type T of F's parameters. The result has type `out_type`
// with elements of type R.
template <class R, class T, class F>
Results Combine(const Call& call, DType domain, DType out_type, F f) {
  std::optional<HostTensor> out = Allocate(out_type, BroadcastStorage(call));
  if (!out) return std::nullopt;
  const auto a = InType(call.operand(0).storage, domain);
  const auto b = InType(call.operand(1).storage, domain);
  Zip<R, T>(*a, *b, *out, f);
  return One(call, *std::move(out));
}

// Applies f in the domain of the operands, whose types must be equal.
template <class F>
Results Arithmetic(const Call& call, F f) {
  if (call.storage(0).dtype != call.storage(1).dtype) return std::nullopt;
  const DType domain = Domain(call.storage(0).dtype);
  return VisitDomain(domain, [&](auto zero) {
    using T = decltype(zero);
    return Combine<T, T>(call, domain, domain, f);
  });
}

bool HasZero(const HostTensor& tensor) {
  const HostTensor ints = CastStorage(tensor, DType::kI64);
  return std::ranges::find(ints.as<int64_t>(), 0) != ints.as<int64_t>().end();
}

bool DividesByZero(const Call& call) {
  return !IsFloat(call.storage(1).dtype) && HasZero(call.storage(1));
}

template <class F>
constexpr Entry ArithmeticOp(std::string_view op, F) {
  return {op, 2, [](const Call& call) { return Arithmetic(call, F{}); }};
}

template <class F>
constexpr Entry ComparisonOp(std::string_view op, F) {
  return {op, 2, [](const Call& call) -> Results {
            if (call.storage(0).dtype != call.storage(1).dtype) return std::nullopt;
            const DType domain = Domain(call.storage(0).dtype);
            return VisitDomain(domain, [&](auto zero) {
              return Combine<uint8_t, decltype(zero)>(call, domain, DType::kBool, F{});
            });
          }};
}

// Elements of a bool are 0 or 1.
template <class F>
constexpr Entry LogicalOp(std::string_view op, F) {
  return {op, 2, [](const Call& call) {
            return Combine<uint8_t, uint8_t>(call, DType::kBool, DType::kBool, F{});
          }};
}

template <class F>
constexpr Entry BitwiseOp(std::string_view op, F) {
  return {op, 2, [](const Call& call) -> Results {
            if (IsFloat(call.storage(0).dtype) || IsFloat(call.storage(1).dtype))
              return std::nullopt;
            return Combine<int64_t, int64_t>(call, DType::kI64, DType::kI64, F{});
          }};
}

Results Div(const Call& call) {
  if (DividesByZero(call)) return std::nullopt;
  return Arithmetic(call, [](auto a, auto b) {
    using T = decltype(a);
    if constexpr (std::is_integral_v<T>) {
      return b == -1 ? WrapSub(T{0}, a) : a / b;
    } else {
      return a / b;
    }
  });
}

// The remainder with the sign of a.
template <class T>
T TruncatedMod(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return b == -1 ? T{0} : a % b;
  } else {
    return std::fmod(a, b);
  }
}

Results Mod(const Call& call) {
  if (DividesByZero(call)) return std::nullopt;
  if (IntAttr(call.attributes, "fmod", 0) != 0) {
    return Arithmetic(call, [](auto a, auto b) { return TruncatedMod(a, b); });
  }
  return Arithmetic(call, [](auto a, auto b) {
    const auto rest = TruncatedMod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  });
}

// The power of two integers. Negative exponents truncate towards zero.
int64_t IntPow(int64_t base, int64_t exponent) {
  if (exponent >= 0) return WrapPow(base, exponent);
  if (base == 1) return 1;
  if (base == -1) return exponent % 2 == 0 ? 1 : -1;
  return 0;
}

// The result has the type of the base, whatever the type of the exponent.
Results Pow(const Call& call) {
  const DType base = Domain(call.storage(0).dtype);
  const DType exponent = Domain(call.storage(1).dtype);
  const auto real = [](auto a, auto b) { return std::pow(a, b); };
  if (base == DType::kF32) return Combine<float, float>(call, base, base, real);
  if (base == DType::kF64 || exponent != DType::kI64) {
    return Combine<double, double>(call, DType::kF64, DType::kF64, real);
  }
  const auto exponents = InType(call.operand(1).storage, DType::kI64);
  const bool negative =
      std::ranges::any_of(exponents->as<int64_t>(), [](int64_t e) { return e < 0; });
  if (negative && HasZero(call.storage(0))) return std::nullopt;
  return Combine<int64_t, int64_t>(call, base, base, IntPow);
}

Results Where(const Call& call) {
  const DType dtype = call.storage(1).dtype;
  if (dtype != call.storage(2).dtype) return std::nullopt;
  std::optional<HostTensor> out = Allocate(dtype, BroadcastStorage(call));
  if (!out) return std::nullopt;
  const auto condition = InType(call.operand(0).storage, DType::kBool);
  const size_t rank = out->shape.size();
  const std::array<Shape, 4> strides = {
      BroadcastStrides(out->shape), BroadcastStrides(condition->shape, rank),
      BroadcastStrides(call.storage(1).shape, rank), BroadcastStrides(call.storage(2).shape, rank)};
  VisitBits(dtype, [&](auto zero) {
    using T = decltype(zero);
    const uint8_t* conditions = condition->as<uint8_t>().data();
    const T* as = call.storage(1).as<T>().data();
    const T* bs = call.storage(2).as<T>().data();
    T* outs = out->as<T>().data();
    ForEachRow<4>(out->shape, strides, [&](auto& at, int64_t n, auto& step) {
      const uint8_t* c = conditions + at[1];
      const T* x = as + at[2];
      const T* y = bs + at[3];
      T* to = outs + at[0];
      WithStep(step[1], [&](auto dc) {
        WithStep(step[2], [&](auto dx) {
          WithStep(step[3], [&](auto dy) {
            for (int64_t i = 0; i < n; ++i) {
              const T chosen = x[i * dx()];
              const T other = y[i * dy()];
              to[i] = c[i * dc()] != 0 ? chosen : other;
            }
          });
        });
      });
    });
  });
  return One(call, *std::move(out));
}

// --- MatMul --------------------------------------------------------------------------------------

// One matrix, whose elements are at data[row * row_stride + column * column_stride].
template <class T>
struct Matrix {
  const T* data;
  int64_t row_stride;
  int64_t column_stride;
};

template <class T>
void Multiply(const Matrix<T>& a, const Matrix<T>& b, int64_t rows, int64_t depth, int64_t columns,
              T* out) {
  std::vector<Accumulator<T>> sums(static_cast<size_t>(columns));
  for (int64_t i = 0; i < rows; ++i) {
    std::ranges::fill(sums, 0);
    for (int64_t k = 0; k < depth; ++k) {
      const Accumulator<T> factor = a.data[i * a.row_stride + k * a.column_stride];
      const T* row = b.data + k * b.row_stride;
      for (int64_t j = 0; j < columns; ++j) {
        const Accumulator<T> other = row[j * b.column_stride];
        sums[static_cast<size_t>(j)] =
            WrapAdd(sums[static_cast<size_t>(j)], WrapMul(factor, other));
      }
    }
    for (int64_t j = 0; j < columns; ++j) {
      out[i * columns + j] = static_cast<T>(sums[static_cast<size_t>(j)]);
    }
  }
}

Results MatMul(const Call& call) {
  constexpr double kMaxProducts = 1 << 28;
  if (call.shape(0).size() < 2 || call.shape(1).size() < 2) {
    ThrowInput("MatMul: operands {} and {} need two dimensions or more", ToString(call.shape(0)),
               ToString(call.shape(1)));
  }
  const int64_t depth = call.shape(0).back();
  if (call.shape(1)[call.shape(1).size() - 2] != depth) {
    ThrowInput("MatMul: inner sizes of {} and {} differ", ToString(call.shape(0)),
               ToString(call.shape(1)));
  }
  if (call.storage(0).dtype != call.storage(1).dtype) return std::nullopt;
  const Shape batch = BroadcastStorage(call, 2);
  const int64_t rows = call.storage(0).shape[call.storage(0).shape.size() - 2];
  const int64_t columns = call.storage(1).shape.back();
  Shape shape = batch;
  shape.insert(shape.end(), {rows, columns});
  const DType domain = Domain(call.storage(0).dtype);
  std::optional<HostTensor> out = Allocate(domain, shape);
  if (!out || static_cast<double>(out->size()) * static_cast<double>(depth) > kMaxProducts) {
    return std::nullopt;
  }
  const auto a = InType(call.operand(0).storage, domain);
  const auto b = InType(call.operand(1).storage, domain);
  Shape sa = BroadcastStrides(a->shape, shape.size());
  Shape sb = BroadcastStrides(b->shape, shape.size());
  Shape so = BroadcastStrides(shape);
  const size_t row = batch.size();
  const size_t column = row + 1;
  VisitDomain(domain, [&](auto zero) {
    using T = decltype(zero);
    const std::array<Shape, 3> strides = {Shape(sa.begin(), sa.end() - 2),
                                          Shape(sb.begin(), sb.end() - 2),
                                          Shape(so.begin(), so.end() - 2)};
    ForEachRow<3>(batch, strides, [&](auto& at, int64_t n, auto& step) {
      for (int64_t i = 0; i < n; ++i) {
        Multiply<T>({a->as<T>().data() + at[0] + i * step[0], sa[row], sa[column]},
                    {b->as<T>().data() + at[1] + i * step[1], sb[row], sb[column]}, rows, depth,
                    columns, out->as<T>().data() + at[2] + i * step[2]);
      }
    });
  });
  return One(call, *std::move(out));
}

}  // namespace

std::span<const Entry> BinaryEntries() {
  static const Entry kEntries[] = {
      {"Div", 2, Div},
      {"Mod", 2, Mod},
      {"Pow", 2, Pow},
      {"Where", 3, Where},
      {"MatMul", 2, MatMul},
      ArithmeticOp("Add", [](auto a, auto b) { return WrapAdd(a, b); }),
      ArithmeticOp("Sub", [](auto a, auto b) { return WrapSub(a, b); }),
      ArithmeticOp("Mul", [](auto a, auto b) { return WrapMul(a, b); }),
      // Where either operand is NaN, the result is NaN.
      ArithmeticOp("Maximum", [](auto a, auto b) { return a > b || a != a ? a : b; }),
      ArithmeticOp("Minimum", [](auto a, auto b) { return a < b || a != a ? a : b; }),
      ArithmeticOp("PRelu", [](auto x, auto slope) { return x > 0 ? x : WrapMul(x, slope); }),
      ComparisonOp("Equal", [](auto a, auto b) { return a == b; }),
      ComparisonOp("Less", [](auto a, auto b) { return a < b; }),
      ComparisonOp("LessOrEqual", [](auto a, auto b) { return a <= b; }),
      ComparisonOp("Greater", [](auto a, auto b) { return a > b; }),
      ComparisonOp("GreaterOrEqual", [](auto a, auto b) { return a >= b; }),
      LogicalOp("And", [](uint8_t a, uint8_t b) { return a & b; }),
      LogicalOp("Or", [](uint8_t a, uint8_t b) { return a | b; }),
      LogicalOp("Xor", [](uint8_t a, uint8_t b) { return a ^ b; }),
      BitwiseOp("BitwiseAnd", [](int64_t a, int64_t b) { return a & b; }),
      BitwiseOp("BitwiseOr", [](int64_t a, int64_t b) { return a | b; }),
      BitwiseOp("BitwiseXor", [](int64_t a, int64_t b) { return a ^ b; }),
  };
  return kEntries;
}

}  // namespace heddle::const_eval
