// An ONNX file as a ModelFile, checked field by field and nothing more: what the ops mean and how
// the values connect is for import.h. An op of another domain than "" is named with it, as domain::op.
//
// The file is untrusted. Protobuf's depth limit of 100 stays; dimensions are non-negative, at most
// 32 of them, their product fits 63 bits, and the data of a tensor has exactly the length they ask
// for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "frontend/import/model_file.h"

namespace heddle {

// The opsets of the domain "" that import knows.
inline constexpr int64_t kMinOpset = 11;
inline constexpr int64_t kMaxOpset = 21;

// Throws InputError naming the file, what is wrong and the remedy. External data is looked for
// beneath the folder of the file.
ModelFile DecodeOnnxFile(const std::string& path);

// The same from memory; `file` is for messages, `folder` is where external data may lie.
ModelFile DecodeOnnx(std::string_view bytes, std::string_view file,
                     const std::filesystem::path& folder);

// The element type that ONNX gives this number; nothing where it is not one of ours.
std::optional<DType> DTypeFromOnnx(int64_t number);
// Its name in ONNX ("uint16"), for messages.
std::string OnnxDTypeName(int64_t number);

}  // namespace heddle
