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
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/strong_id.h"
#include "graph/tensor.h"

namespace heddle {

// The opsets of the domain "" that import knows.
inline constexpr int64_t kMinOpset = 11;
inline constexpr int64_t kMaxOpset = 21;

// The values of a file are known by their names. Each name is looked up once, when the file is decoded;
// from then on it is a number, and what is known of it stands in a vector.
using OnnxName = StrongId<struct OnnxNameTag>;

class OnnxNames {
 public:
  OnnxNames() = default;
  OnnxNames(OnnxNames&&) = default;  // and no copy: names_ points into ids_
  OnnxNames& operator=(OnnxNames&&) = default;

  // The number of a name, a new one where it has none.
  OnnxName Add(const std::string& name);
  const std::string& operator[](OnnxName name) const { return *names_[name.index()]; }
  bool Contains(const std::string& name) const { return ids_.contains(name); }
  size_t size() const { return names_.size(); }

 private:
  std::unordered_map<std::string, OnnxName> ids_;
  std::vector<const std::string*> names_;  // keys of ids_
};

struct OnnxTensor {
  std::string name;
  OnnxName id;  // of an initializer
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
  std::vector<OnnxName> inputs;   // invalid: an operand left out
  std::vector<OnnxName> outputs;  // likewise
  std::map<std::string, OnnxAttribute, std::less<>> attributes;
};

// A size, a name, or neither.
struct OnnxDim {
  std::optional<int64_t> size;
  std::string symbol;
};

struct OnnxValueInfo {
  std::string name;
  OnnxName id;
  bool tensor = true;          // false: a sequence or another type
  std::optional<DType> dtype;  // nothing where not stated or not one of ours
  std::optional<std::vector<OnnxDim>> shape;
};

struct OnnxModel {
  int64_t ir_version = 0;
  int64_t opset = 0;  // of the domain ""
  std::string producer;
  OnnxNames names;
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
