// Checks of invariants that only a bug can break. They are always on: a failing check prints its place, the condition
// and the operands on standard error and aborts. Bad input must never reach a check; it is an InputError.
//
//   HEDDLE_CHECK(stage.valid(), "stage of node {}", node);     // the message is optional
//   HEDDLE_CHECK_EQ(shape.size(), parts.size());               // signed and unsigned integers compare by value
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>

namespace heddle::internal {

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              const std::string& message = "");

template <class T>
concept StreamPrintable = requires(std::ostream& out, const T& value) {
  out << value;
};

template <class T>
std::string PrintOperand(const T& value) {
  if constexpr (fmt::is_formattable<T>::value) {
    return fmt::format("{}", value);
  } else if constexpr (std::is_enum_v<T>) {
    return fmt::format("{}", static_cast<long long>(value));
  } else if constexpr (StreamPrintable<T>) {
    std::ostringstream out;
    out << value;
    return out.str();
  } else {
    return "?";
  }
}

// The integers that std::cmp_equal and its relatives accept: neither bool nor characters.
template <class T>
concept PlainInteger = std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char> &&
                       !std::same_as<T, wchar_t> && !std::same_as<T, char8_t> &&
                       !std::same_as<T, char16_t> && !std::same_as<T, char32_t>;

#define HEDDLE_INTERNAL_COMPARISON(Name, integer_function, op) \
  struct Name {                                                \
    template <class A, class B>                                \
    static constexpr bool Holds(const A& a, const B& b) {      \
      if constexpr (PlainInteger<A> && PlainInteger<B>) {      \
        return integer_function(a, b);                         \
      } else {                                                 \
        return static_cast<bool>(a op b);                      \
      }                                                        \
    }                                                          \
  }
HEDDLE_INTERNAL_COMPARISON(Equal, std::cmp_equal, ==);
HEDDLE_INTERNAL_COMPARISON(NotEqual, std::cmp_not_equal, !=);
HEDDLE_INTERNAL_COMPARISON(Less, std::cmp_less, <);
HEDDLE_INTERNAL_COMPARISON(LessEqual, std::cmp_less_equal, <=);
HEDDLE_INTERNAL_COMPARISON(Greater, std::cmp_greater, >);
HEDDLE_INTERNAL_COMPARISON(GreaterEqual, std::cmp_greater_equal, >=);
#undef HEDDLE_INTERNAL_COMPARISON

template <class Comparison, class A, class B>
void CheckComparison(const A& a, const B& b, const char* file, int line, const char* condition) {
  if (!Comparison::Holds(a, b)) [[unlikely]] {
    CheckFailed(file, line, condition, PrintOperand(a) + " against " + PrintOperand(b));
  }
}

}  // namespace heddle::internal

#define HEDDLE_CHECK(condition, ...)                         \
  (static_cast<bool>(condition)                              \
       ? static_cast<void>(0)                                \
       : ::heddle::internal::CheckFailed(__FILE__, __LINE__, \
                                         #condition __VA_OPT__(, ::fmt::format(__VA_ARGS__))))

#define HEDDLE_INTERNAL_CHECK(Comparison, op, a, b)                                             \
  ::heddle::internal::CheckComparison<::heddle::internal::Comparison>(a, b, __FILE__, __LINE__, \
                                                                      #a " " #op " " #b)
#define HEDDLE_CHECK_EQ(a, b) HEDDLE_INTERNAL_CHECK(Equal, ==, a, b)
#define HEDDLE_CHECK_NE(a, b) HEDDLE_INTERNAL_CHECK(NotEqual, !=, a, b)
#define HEDDLE_CHECK_LT(a, b) HEDDLE_INTERNAL_CHECK(Less, <, a, b)
#define HEDDLE_CHECK_LE(a, b) HEDDLE_INTERNAL_CHECK(LessEqual, <=, a, b)
#define HEDDLE_CHECK_GT(a, b) HEDDLE_INTERNAL_CHECK(Greater, >, a, b)
#define HEDDLE_CHECK_GE(a, b) HEDDLE_INTERNAL_CHECK(GreaterEqual, >=, a, b)
