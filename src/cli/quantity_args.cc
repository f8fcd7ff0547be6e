#include "cli/quantity_args.h"

#include "base/error.h"
#include "cluster/quantity.h"

namespace heddle {
namespace {

double Parse(std::string_view flag, const std::string& text, Unit unit) {
  std::variant<double, QuantityError> parsed = ParseQuantity(text, unit);
  if (const QuantityError* error = std::get_if<QuantityError>(&parsed)) {
    ThrowInput("{} {}: {}", flag, text, error->remedy);
  }
  return std::get<double>(parsed);
}

}  // namespace

int64_t ParseBytes(std::string_view flag, const std::string& text) {
  double bytes = Parse(flag, text, Unit::kMemory);
  if (bytes < 1) ThrowInput("{} {}: expected at least 1 B", flag, text);
  return static_cast<int64_t>(bytes);
}

double ParseSeconds(std::string_view flag, const std::string& text) {
  double seconds = Parse(flag, text, Unit::kTime);
  if (!(seconds > 0)) ThrowInput("{} {}: expected a time above 0, as in 12 h", flag, text);
  return seconds;
}

}  // namespace heddle
