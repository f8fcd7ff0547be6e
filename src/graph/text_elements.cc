#include "graph/text_elements.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace heddle {
namespace {

template <class T>
void AppendBytes(T value, std::vector<std::byte>& out) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof(T));
}

template <class T>
void AppendInteger(LineCursor& line, DType dtype, int64_t low, int64_t high,
                   std::vector<std::byte>& out) {
  size_t at = line.Mark();
  int64_t value = line.Integer(fmt::format("an integer for {}", Name(dtype)));
  if (value < low || value > high) {
    line.FailAt(at, "{} is outside the range {} to {} of {}", value, low, high, Name(dtype));
  }
  AppendBytes(static_cast<T>(value), out);
}

void AppendElement16(LineCursor& line, DType dtype, std::vector<std::byte>& out) {
  size_t at = line.Mark();
  float value = line.Real<float>("a number");
  bool half = dtype == DType::kF16;
  uint16_t bits = half ? FloatToHalf(value) : FloatToBFloat16(value);
  if (std::isfinite(value) && !std::isfinite(half ? HalfToFloat(bits) : BFloat16ToFloat(bits))) {
    line.FailAt(at, "{} is out of the range of {}", value, Name(dtype));
  }
  AppendBytes(bits, out);
}

template <class T>
std::vector<T> RestOfList(LineCursor& line, T (*element)(LineCursor&)) {
  std::vector<T> list;
  do {
    list.push_back(element(line));
  } while (line.Accept(','));
  line.Expect(']', "or ',' in the list");
  return list;
}

int64_t IntegerElement(LineCursor& line) {
  if (line.LooksReal())
    line.Fail("{} is a float in a list of integers; write either all or none of them with a point",
              line.Found());
  return line.Integer("an integer");
}

double RealElement(LineCursor& line) {
  if (!line.LooksReal())
    line.Fail("expected a float, found {}; write it with a point, as in 1.0", line.Found());
  return line.Real<double>("a float");
}

}  // namespace

void AppendElement(LineCursor& line, DType dtype, std::vector<std::byte>& out) {
  auto integer = [&]<class T>(T) {
    AppendInteger<T>(line, dtype, std::numeric_limits<T>::min(), std::numeric_limits<T>::max(),
                     out);
  };
  switch (dtype) {
    case DType::kF32:
      return AppendBytes(line.Real<float>("a number"), out);
    case DType::kF64:
      return AppendBytes(line.Real<double>("a number"), out);
    case DType::kF16:
    case DType::kBF16:
      return AppendElement16(line, dtype, out);
    case DType::kI64:
      return integer(int64_t{});
    case DType::kI32:
      return integer(int32_t{});
    case DType::kI16:
      return integer(int16_t{});
    case DType::kI8:
      return integer(int8_t{});
    case DType::kU8:
      return integer(uint8_t{});
    case DType::kBool:
      return AppendInteger<uint8_t>(line, dtype, 0, 1, out);
  }
}

Attribute ParseAttribute(LineCursor& line) {
  if (line.Peek() == '"') return line.QuotedString();
  if (!line.Accept('[')) {
    if (line.LooksReal()) return line.Real<double>("a float");
    return line.Integer("a number, a string or a list");
  }
  if (!line.Accept(']')) {
    if (line.LooksReal()) return RestOfList<double>(line, RealElement);
    return RestOfList<int64_t>(line, IntegerElement);
  }
  if (line.Accept('i')) return std::vector<int64_t>{};
  if (line.Accept('f')) return std::vector<double>{};
  line.Fail("an empty list needs its kind, found {}; write []i for integers or []f for floats",
            line.Found());
}

}  // namespace heddle
