#include "cli/quantity_args.h"

#include "base/error.h"
#include "cluster/quantity.h"

namespace heddle {
namespace {

constexpr double kMostBytes = 0x1p60;

using ParsedQuantity = std::variant<double, QuantityError>;

ParsedQuantity ReadAmount(const std::string& text) {
  ParsedQuantity parsed = ParseQuantity(text, Unit::kMemory, "16 GiB");
  const double* bytes = std::get_if<double>(&parsed);
  if (bytes != nullptr && *bytes < 1) return QuantityError{"expected at least 1 B"};
  if (bytes != nullptr && *bytes > kMostBytes) return QuantityError{"expected at most 1024 PiB"};
  return parsed;
}

ParsedQuantity ReadDuration(const std::string& text) {
  ParsedQuantity parsed = ParseQuantity(text, Unit::kTime, "12 h");
  const double* seconds = std::get_if<double>(&parsed);
  if (seconds != nullptr && !(*seconds > 0)) {
    return QuantityError{"expected a time above 0, as in 12 h"};
  }
  return parsed;
}

double ValueOf(std::string_view flag, const std::string& text, const ParsedQuantity& parsed) {
  if (const QuantityError* error = std::get_if<QuantityError>(&parsed)) {
    ThrowInput("{} {}: {}", flag, text, error->remedy);
  }
  return std::get<double>(parsed);
}

std::string WrongWith(const ParsedQuantity& parsed) {
  const QuantityError* error = std::get_if<QuantityError>(&parsed);
  return error == nullptr ? "" : error->remedy;
}

}  // namespace

int64_t ParseBytes(std::string_view flag, const std::string& text) {
  return static_cast<int64_t>(ValueOf(flag, text, ReadAmount(text)));
}

double ParseSeconds(std::string_view flag, const std::string& text) {
  return ValueOf(flag, text, ReadDuration(text));
}

std::string WrongBytes(const std::string& text) { return WrongWith(ReadAmount(text)); }
std::string WrongSeconds(const std::string& text) { return WrongWith(ReadDuration(text)); }

}  // namespace heddle
