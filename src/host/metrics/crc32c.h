// CRC-32C (Castagnoli): polynomial 0x1EDC6F41, reflected, as iSCSI, ext4 and TFRecord use it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace heddle {

namespace internal {

constexpr std::array<uint32_t, 256> MakeCrc32cTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0u);
    table[i] = crc;
  }
  return table;
}
inline constexpr std::array<uint32_t, 256> kCrc32cTable = MakeCrc32cTable();

}  // namespace internal

constexpr uint32_t Crc32c(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (char c : bytes) {
    crc = crc >> 8 ^ internal::kCrc32cTable[(crc ^ static_cast<unsigned char>(c)) & 0xFF];
  }
  return ~crc;
}

// The form that TFRecord stores: rotated and offset, because a CRC of data that contains CRCs is weak.
constexpr uint32_t MaskedCrc32c(std::string_view bytes) {
  uint32_t crc = Crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

}  // namespace heddle
