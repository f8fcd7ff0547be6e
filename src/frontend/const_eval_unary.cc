// Elementwise functions of one operand, and Cast: one pass over the operand's storage.
#include <algorithm>
#include <numbers>

#include "frontend/const_eval_internal.h"

namespace heddle::const_eval {
namespace {

// --- Cast ----------------------------------------------------------------------------------------

struct HalfCodec {
  using Bits = uint16_t;
  static float Load(Bits bits) { return HalfToFloat(bits); }
  template <class T>
  static Bits Store(T value) {
    return FloatToHalf(static_cast<float>(value));
  }
};

struct BFloat16Codec {
  using Bits = uint16_t;
  static float Load(Bits bits) { return BFloat16ToFloat(bits); }
  template <class T>
  static Bits Store(T value) {
    return FloatToBFloat16(static_cast<float>(value));
  }
};

struct BoolCodec {
  using Bits = uint8_t;
  static Bits Load(Bits bits) { return bits; }
  template <class T>
  static Bits Store(T value) {
    return value != T{0} ? 1 : 0;
  }
};

template <class Number>
struct NumberCodec {
  using Bits = Number;
  static Number Load(Number value) { return value; }
  template <class T>
  static Number Store(T value) {
    if constexpr (std::is_integral_v<Number> && std::is_floating_point_v<T>) {
      return SaturatingCast<Number>(value);
    } else {
      return static_cast<Number>(value);
    }
  }
};

template <class F>
void VisitCodec(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kF32:
      return f(NumberCodec<float>{});
    case DType::kF64:
      return f(NumberCodec<double>{});
    case DType::kF16:
      return f(HalfCodec{});
    case DType::kBF16:
      return f(BFloat16Codec{});
    case DType::kI64:
      return f(NumberCodec<int64_t>{});
    case DType::kI32:
      return f(NumberCodec<int32_t>{});
    case DType::kI16:
      return f(NumberCodec<int16_t>{});
    case DType::kI8:
      return f(NumberCodec<int8_t>{});
    case DType::kU8:
      return f(NumberCodec<uint8_t>{});
    case DType::kBool:
      return f(BoolCodec{});
  }
}

Results Cast(const Call& call) {
  const DType to = call.result_types[0].dtype;
  if (to != call.storage().dtype && ExceedsCap(to, call.storage().shape)) return std::nullopt;
  return std::vector{MakeResult(call, 0, call.operand().storage)};
}

Results Identity(const Call& call) {
  return std::vector{MakeResult(call, 0, call.operand().storage)};
}

// --- Functions -----------------------------------------------------------------------------------

// R(f(x)) for every element, in the domain of the operand.
template <class R, class T, class F>
HostTensor Map(const HostTensor& x, DType dtype, F f) {
  HostTensor out(dtype, x.shape);
  const std::span<const T> from = x.as<T>();
  const std::span<R> to = out.as<R>();
  for (size_t i = 0; i < from.size(); ++i) to[i] = static_cast<R>(f(from[i]));
  return out;
}

// Applies f to every element in its domain. With kFloatOnly, integers are not evaluated.
template <bool kFloatOnly, class F>
Results Apply(const Call& call, F f) {
  const DType domain = Domain(call.storage().dtype);
  if (ExceedsCap(call.storage().dtype, call.storage().shape)) return std::nullopt;
  if (kFloatOnly && domain == DType::kI64) return std::nullopt;
  const auto x = InType(call.operand().storage, domain);
  return VisitDomain(domain, [&](auto zero) -> Results {
    using T = decltype(zero);
    if constexpr (kFloatOnly && std::is_integral_v<T>) {
      return std::nullopt;
    } else {
      return One(call, Map<T, T>(*x, domain, f));
    }
  });
}

// F is the type of a lambda without captures, so that an entry is a plain function.
template <class F>
constexpr Entry FloatOp(std::string_view op, F) {
  return {op, 1, [](const Call& call) { return Apply<true>(call, F{}); }};
}

template <class F>
constexpr Entry NumberOp(std::string_view op, F) {
  return {op, 1, [](const Call& call) { return Apply<false>(call, F{}); }};
}

// Rounding leaves integers unchanged.
template <class F>
constexpr Entry RoundingOp(std::string_view op, F) {
  return {op, 1, [](const Call& call) {
            return IsFloat(call.storage().dtype) ? Apply<true>(call, F{}) : Identity(call);
          }};
}

// Tests of a float that give a bool; always false for integers.
template <class F>
constexpr Entry FloatTest(std::string_view op, F) {
  return {op, 1, [](const Call& call) -> Results {
            const DType domain = Domain(call.storage().dtype);
            if (ExceedsCap(domain, call.storage().shape)) return std::nullopt;
            const auto x = InType(call.operand().storage, domain);
            return VisitDomain(domain, [&](auto zero) {
              using T = decltype(zero);
              return One(call, Map<uint8_t, T>(*x, DType::kBool, [](T value) {
                           return F{}(static_cast<double>(value));
                         }));
            });
          }};
}

Results Not(const Call& call) {
  if (ExceedsCap(DType::kBool, call.storage().shape)) return std::nullopt;
  const auto x = InType(call.operand().storage, DType::kBool);
  return One(call, Map<uint8_t, uint8_t>(*x, DType::kBool, [](uint8_t b) { return b == 0; }));
}

Results BitwiseNot(const Call& call) {
  const DType dtype = call.storage().dtype;
  if (dtype == DType::kBool) return Not(call);
  if (IsFloat(dtype) || ExceedsCap(dtype, call.storage().shape)) return std::nullopt;
  const auto x = InType(call.operand().storage, DType::kI64);
  return One(call, Map<int64_t, int64_t>(*x, DType::kI64, [](int64_t v) { return ~v; }));
}

// --- Functions with attributes -------------------------------------------------------------------

constexpr auto kSigmoid = [](auto x) {
  using T = decltype(x);
  return T{1} / (T{1} + std::exp(-x));
};

constexpr auto kSoftplus = [](auto x) {
  using T = decltype(x);
  return std::max(x, T{0}) + std::log1p(std::exp(-std::abs(x)));
};

Results Gelu(const Call& call) {
  if (StringAttr(call.attributes, "approximate", "none") == "tanh") {
    return Apply<true>(call, [](auto x) {
      using T = decltype(x);
      const T scale = static_cast<T>(std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
      return T(0.5) * x * (T{1} + std::tanh(scale * (x + T(0.044715) * x * x * x)));
    });
  }
  return Apply<true>(call, [](auto x) {
    using T = decltype(x);
    return T(0.5) * x * (T{1} + std::erf(x * static_cast<T>(1 / std::numbers::sqrt2)));
  });
}

Results LeakyRelu(const Call& call) {
  const double alpha = FloatAttr(call.attributes, "alpha", 0.01);
  return Apply<true>(call, [=](auto x) { return x < 0 ? static_cast<decltype(x)>(alpha) * x : x; });
}

Results Elu(const Call& call) {
  const double alpha = FloatAttr(call.attributes, "alpha", 1.0);
  return Apply<true>(
      call, [=](auto x) { return x < 0 ? static_cast<decltype(x)>(alpha) * std::expm1(x) : x; });
}

Results Celu(const Call& call) {
  const double alpha = FloatAttr(call.attributes, "alpha", 1.0);
  return Apply<true>(call, [=](auto x) {
    const auto a = static_cast<decltype(x)>(alpha);
    return x < 0 ? a * std::expm1(x / a) : x;
  });
}

Results ThresholdedRelu(const Call& call) {
  const double alpha = FloatAttr(call.attributes, "alpha", 1.0);
  return Apply<true>(call, [=](auto x) {
    using T = decltype(x);
    return x <= static_cast<T>(alpha) ? T{0} : x;  // NaN stays NaN
  });
}

Results HardSigmoid(const Call& call) {
  const double alpha = FloatAttr(call.attributes, "alpha", 0.2);
  const double beta = FloatAttr(call.attributes, "beta", 0.5);
  return Apply<true>(call, [=](auto x) {
    using T = decltype(x);
    return std::clamp(static_cast<T>(alpha) * x + static_cast<T>(beta), T{0}, T{1});
  });
}

Results Clip(const Call& call) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double min = FloatAttr(call.attributes, "min", -kInfinity);
  const double max = FloatAttr(call.attributes, "max", kInfinity);
  return Apply<false>(call, [=](auto x) {
    using T = decltype(x);
    const T low = NumberCodec<T>::Store(min);
    const T high = NumberCodec<T>::Store(max);
    const T raised = x < low ? low : x;
    return raised > high ? high : raised;
  });
}

}  // namespace

HostTensor CastStorage(const HostTensor& tensor, DType dtype) {
  HostTensor out(dtype, tensor.shape);
  VisitCodec(tensor.dtype, [&](auto from) {
    VisitCodec(dtype, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      const auto read = tensor.as<typename From::Bits>();
      const auto write = out.as<typename To::Bits>();
      for (size_t i = 0; i < read.size(); ++i) write[i] = To::Store(From::Load(read[i]));
    });
  });
  return out;
}

std::span<const Entry> UnaryEntries() {
  static const Entry kEntries[] = {
      {"Identity", 1, Identity},
      {"Cast", 1, Cast},
      {"Not", 1, Not},
      {"BitwiseNot", 1, BitwiseNot},
      {"Clip", 1, Clip},
      {"Gelu", 1, Gelu},
      {"LeakyRelu", 1, LeakyRelu},
      {"Elu", 1, Elu},
      {"Celu", 1, Celu},
      {"ThresholdedRelu", 1, ThresholdedRelu},
      {"HardSigmoid", 1, HardSigmoid},
      NumberOp("Neg", [](auto x) { return WrapMul(x, static_cast<decltype(x)>(-1)); }),
      NumberOp("Abs",
               [](auto x) {
                 using T = decltype(x);
                 if constexpr (std::is_integral_v<T>) return x < 0 ? WrapSub(T{0}, x) : x;
                 return static_cast<T>(std::abs(x));
               }),
      NumberOp("Relu", [](auto x) { return x < 0 ? decltype(x){0} : x; }),
      NumberOp("Sign", [](auto x) { return (x > 0 ? 1 : 0) - (x < 0 ? 1 : 0); }),
      RoundingOp("Floor", [](auto x) { return std::floor(x); }),
      RoundingOp("Ceil", [](auto x) { return std::ceil(x); }),
      RoundingOp("Round", [](auto x) { return std::nearbyint(x); }),
      FloatTest("IsNaN", [](double x) { return std::isnan(x); }),
      FloatTest("IsInf", [](double x) { return std::isinf(x); }),
      FloatOp("Exp", [](auto x) { return std::exp(x); }),
      FloatOp("Log", [](auto x) { return std::log(x); }),
      FloatOp("Sqrt", [](auto x) { return std::sqrt(x); }),
      FloatOp("Reciprocal", [](auto x) { return 1 / x; }),
      FloatOp("Sin", [](auto x) { return std::sin(x); }),
      FloatOp("Cos", [](auto x) { return std::cos(x); }),
      FloatOp("Tan", [](auto x) { return std::tan(x); }),
      FloatOp("Asin", [](auto x) { return std::asin(x); }),
      FloatOp("Acos", [](auto x) { return std::acos(x); }),
      FloatOp("Atan", [](auto x) { return std::atan(x); }),
      FloatOp("Sinh", [](auto x) { return std::sinh(x); }),
      FloatOp("Cosh", [](auto x) { return std::cosh(x); }),
      FloatOp("Asinh", [](auto x) { return std::asinh(x); }),
      FloatOp("Acosh", [](auto x) { return std::acosh(x); }),
      FloatOp("Atanh", [](auto x) { return std::atanh(x); }),
      FloatOp("Tanh", [](auto x) { return std::tanh(x); }),
      FloatOp("Sigmoid", kSigmoid),
      FloatOp("Erf", [](auto x) { return std::erf(x); }),
      FloatOp("Silu", [](auto x) { return x * kSigmoid(x); }),
      FloatOp("Softplus", kSoftplus),
      FloatOp("Softsign", [](auto x) { return x / (1 + std::abs(x)); }),
      FloatOp("Mish", [](auto x) { return x * std::tanh(kSoftplus(x)); }),
      FloatOp("HardSwish",
              [](auto x) {
                using T = decltype(x);
                return x * std::clamp(x / T{6} + T(0.5), T{0}, T{1});
              }),
      FloatOp("Selu",
              [](auto x) {
                using T = decltype(x);
                const T alpha = static_cast<T>(1.67326319217681884765625);
                const T gamma = static_cast<T>(1.05070102214813232421875);
                return gamma * (x > 0 ? x : alpha * std::expm1(x));
              }),
  };
  return kEntries;
}

}  // namespace heddle::const_eval
