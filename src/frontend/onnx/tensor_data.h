// The data of a TensorProto.
#pragma once

#include <filesystem>
#include <string_view>

#include "frontend/onnx/decode.h"
#include "frontend/onnx/onnx_subset.pb.h"

namespace heddle {

// Checks the dimensions and takes the data from whichever field holds it, emptying raw_data. u16,
// u32 and u64 become i32, i64 and i64, refused where a number does not fit. `what` begins every
// message.
FileTensor DecodeTensor(heddle_onnx::TensorProto& proto, const std::filesystem::path& folder,
                        std::string_view what);

}  // namespace heddle
