// Decodes an ONNX file to a ModelFile and checks it field by field. import.h interprets the ops and connects the
// values. An op of a domain other than "" is named with it, as domain::op.
//
// The file is untrusted. Protobuf's depth limit of 100 applies; tensors have at most 32 dimensions, which are
// non-negative and whose product fits 63 bits; and the data of a tensor must have exactly the length that its
// dimensions require.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "frontend/import/model_file.h"

namespace heddle {

// The supported opsets of the domain "".
inline constexpr int64_t kMinOpset = 11;
inline constexpr int64_t kMaxOpset = 21;

// Throws an InputError with the file, the problem and the remedy. External data is read only from inside the folder of
// the file.
ModelFile DecodeOnnxFile(const std::string& path);

// The same from memory. `file` is for messages; `folder` is the folder for external data.
ModelFile DecodeOnnx(std::string_view bytes, std::string_view file,
                     const std::filesystem::path& folder);

// The element type with this number in ONNX; empty where it is not supported.
std::optional<DType> DTypeFromOnnx(int64_t number);
// The name of the type in ONNX ("uint16"), for messages.
std::string OnnxDTypeName(int64_t number);

}  // namespace heddle
