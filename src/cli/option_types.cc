#include "cli/option_types.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>

#include "cli/quantity_args.h"

namespace heddle {
namespace {

constexpr int64_t kManyWhole = int64_t{1} << 30;  // help does not show larger limits

template <class T>
std::optional<T> NumberIn(const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  auto [last, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || last != end) return std::nullopt;
  return value;
}

// A range of real numbers, with or without its ends.
struct RealRange {
  double least = 0, most = 0;
  bool with_least = true, with_most = true;

  bool Holds(double value) const {
    return std::isfinite(value) && (with_least ? value >= least : value > least) &&
           (with_most ? value <= most : value < most);
  }
};

CLI::Validator RealOf(RealRange range) {
  std::string words = fmt::format("a number {} {} {} {}", range.with_least ? "from" : "above",
                                  range.least, range.with_most ? "to" : "to below", range.most);
  auto check = [range, words](std::string& text) -> std::string {
    std::optional<double> value = NumberIn<double>(text);
    if (!value || !range.Holds(*value)) return fmt::format("{}: expected {}", text, words);
    text = fmt::format("{}", *value + 0.0);  // -0 becomes 0
    return "";
  };
  return CLI::Validator(check, fmt::format("{}..{}", range.least, range.most));
}

// `wrong` returns the mistake in a text, empty if there is none.
CLI::Validator Checked(std::string (*wrong)(const std::string&)) {
  auto check = [wrong](std::string& text) -> std::string {
    std::string remedy = wrong(text);
    return remedy.empty() ? "" : fmt::format("{}: {}", text, remedy);
  };
  return CLI::Validator(check, "");
}

}  // namespace

CLI::Validator IntegerIn(int64_t least, int64_t most) {
  auto check = [least, most](std::string& text) -> std::string {
    std::optional<int64_t> value = NumberIn<int64_t>(text);
    if (!value || *value < least || *value > most) {
      return fmt::format("{}: expected a whole number from {} to {}", text, least, most);
    }
    text = fmt::format("{}", *value);  // CLI11 reads leading zeros as octal
    return "";
  };
  return CLI::Validator(
      check, most > kManyWhole ? fmt::format("{}..", least) : fmt::format("{}..{}", least, most));
}

CLI::Validator RealIn(double least, double most) { return RealOf({least, most}); }
CLI::Validator RealAbove(double least, double most) { return RealOf({least, most, false, true}); }
CLI::Validator RealBelow(double least, double most) { return RealOf({least, most, true, false}); }

CLI::Validator AmountOfBytes() { return Checked(WrongBytes); }
CLI::Validator LengthOfTime() { return Checked(WrongSeconds); }

void RefuseEmptyValues(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    for (CLI::Option* option : command->get_options()) {
      option->check([](const std::string& text) {
        return text.empty() ? "the value is empty: give one, or leave the option out" : "";
      });
    }
  }
}

}  // namespace heddle
