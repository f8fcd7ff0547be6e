// Quantities as users write them: a number, then a unit.
//
//   ParseQuantity("400 Gb/s", Unit::kBandwidth)   // 5e10
//   PrintQuantity(5e10, Unit::kBandwidth)         // "50 GB/s"
//
//   memory      B, KB, MB, GB, TB, PB (thousands); KiB, MiB, GiB, TiB, PiB (1024)
//   bandwidth   bytes: B/s, KB/s ... PB/s, KiB/s ... PiB/s; bits: b/s, Kb/s, Mb/s, Gb/s, Tb/s
//   time        ns, us, ms, s, min, h, d
//   rate        FLOP/s, KFLOP/s, MFLOP/s, GFLOP/s, TFLOP/s, PFLOP/s, EFLOP/s
// Upper and lower case matter: Gb is bits, GB is bytes. The space is optional.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace heddle {

enum class Unit : std::uint8_t { kMemory, kBandwidth, kTime, kRate };

// An error message: what is wrong with a quantity, and what to write instead.
struct QuantityError {
  std::string remedy;
};

// The value is finite and not negative; memory is rounded to whole bytes. Remedies show `example`, or an example for
// cluster files where it is empty.
std::variant<double, QuantityError> ParseQuantity(std::string_view text, Unit unit,
                                                  std::string_view example = "");

// The shortest text for `value` (finite, not negative) that reads back as the same value.
std::string PrintQuantity(double value, Unit unit);

// The same with three digits, for users: "312 TFLOP/s", "1.5 us", "80 GiB".
std::string FormatQuantity(double value, Unit unit);

}  // namespace heddle
