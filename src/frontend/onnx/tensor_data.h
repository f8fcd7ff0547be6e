// Decodes the data of a TensorProto.
#pragma once

#include <filesystem>
#include <string_view>

#include "frontend/onnx/decode.h"
#include "frontend/onnx/onnx_subset.pb.h"

namespace heddle {

// Checks the dimensions and takes the data from the field that contains it; raw_data is emptied. u16, u32 and u64
// become i32, i64 and i64; numbers that do not fit are refused. All messages begin with `what`.
FileTensor DecodeTensor(heddle_onnx::TensorProto& proto, const std::filesystem::path& folder,
                        std::string_view what);

}  // namespace heddle
