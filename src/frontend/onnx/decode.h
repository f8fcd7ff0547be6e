// An ONNX file as plain structs, checked field by field and nothing more: what the ops mean and how
// the values connect is for import.h.
//
// The file is untrusted. Protobuf's depth limit of 100 stays; dimensions are non-negative, at most
// 32 of them, their product fits 63 bits, and the data of a tensor has exactly the length they ask
// for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/tensor.h"

namespace heddle {

// The opsets of the domain "" that import knows.
inline constexpr int64_t kMinOpset = 11;
inline constexpr int64_t kMaxOpset = 21;

struct OnnxTensor {
  std::string name;
  TensorType type;
  std::shared_ptr<const HostTensor> data;  // null: external data that is not there
  std::string external;  // "location:offset:length" where external; equal ones are one tensor
};

// A nested graph (If, Loop, Scan): seen, not read.
struct OnnxSubgraph {};

using OnnxAttribute =
    std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                 std::vector<std::string>, OnnxTensor, OnnxSubgraph>;

struct OnnxNode {
  std::string name;
  std::string op_type;
  std::string domain;
  std::vector<std::string> inputs;   // an empty name is an operand left out
  std::vector<std::string> outputs;  // likewise
  std::map<std::string, OnnxAttribute, std::less<>> attributes;
};

// A size, a name, or neither.
struct OnnxDim {
  std::optional<int64_t> size;
  std::string symbol;
};

struct OnnxValueInfo {
  std::string name;
  bool tensor = true;          // false: a sequence or another type
  std::optional<DType> dtype;  // nothing where not stated or not one of ours
  std::optional<std::vector<OnnxDim>> shape;
};

struct OnnxModel {
  int64_t ir_version = 0;
  int64_t opset = 0;  // of the domain ""
  std::string producer;
  std::vector<OnnxNode> nodes;
  std::vector<OnnxTensor> initializers;
  std::vector<OnnxValueInfo> inputs;
  std::vector<OnnxValueInfo> outputs;
  std::vector<OnnxValueInfo> value_infos;
};

// Throws InputError naming the file, what is wrong and the remedy. External data is looked for
// beneath the folder of the file.
OnnxModel DecodeOnnxFile(const std::string& path);

// The same from memory; `file` is for messages, `folder` is where external data may lie.
OnnxModel DecodeOnnx(std::string_view bytes, std::string_view file,
                     const std::filesystem::path& folder);

// The element type that ONNX gives this number; nothing where it is not one of ours.
std::optional<DType> DTypeFromOnnx(int64_t number);
// Its name in ONNX ("uint16"), for messages.
std::string OnnxDTypeName(int64_t number);

}  // namespace heddle
