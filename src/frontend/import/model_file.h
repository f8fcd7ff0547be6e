// A model file as plain structs. Formats decode their files into these, and an Importer (importer.h) makes a graph from
// them.
//
//   ModelFile file;
//   OpCall& call = file.calls.emplace_back();
//   call = {.name = "n1", .op = "Softmax", .operands = {file.names.Add("x")}, .results = {file.names.Add("y")}};
//   call.attributes["axis"] = int64_t{1};
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/strong_id.h"
#include "graph/tensor.h"

namespace heddle {

// The number of a name of the file. Each name is looked up once, when the file is decoded; later, data about it is in
// vectors indexed by the number.
using CallName = StrongId<struct CallNameTag>;

class CallNames {
 public:
  CallNames() = default;
  CallNames(CallNames&&) = default;  // not copyable, because names_ points into ids_
  CallNames& operator=(CallNames&&) = default;

  // The number of a name; a name that is not known yet gets a new number.
  CallName Add(const std::string& name);
  const std::string& operator[](CallName name) const { return *names_[name.index()]; }
  bool Contains(const std::string& name) const { return ids_.contains(name); }
  size_t size() const { return names_.size(); }

 private:
  std::unordered_map<std::string, CallName> ids_;
  std::vector<const std::string*> names_;  // keys of ids_
};

// Null where the data is in another file that does not exist.
using TensorData = std::shared_ptr<const HostTensor>;

// A value of a kind that no op needs, such as a nested graph. It is recorded, but not decoded.
struct UnreadAttribute {};

using CallAttribute =
    std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                 std::vector<std::string>, TensorData, UnreadAttribute>;

// A call of an op.
struct OpCall {
  std::string name = {};                // of the node, for messages
  std::string op = {};                  // in the naming of the format
  std::vector<CallName> operands = {};  // an invalid name is an operand left out
  std::vector<CallName> results = {};   // likewise
  std::map<std::string, CallAttribute, std::less<>> attributes = {};
};

// A weight, buffer or table.
struct FileTensor {
  std::string name = {};
  CallName id = {};
  TensorType type = {};
  TensorData data = {};
  // The place of data in another file; tensors with equal places are one tensor.
  std::string storage = {};
};

// A dimension with a size, a symbolic name, or neither.
struct StatedDim {
  std::optional<int64_t> size = {};
  std::string symbol = {};
};

// What the file states about a value.
struct StatedValue {
  std::string name = {};
  CallName id = {};
  bool tensor = true;               // false: a sequence or another type
  std::optional<DType> dtype = {};  // empty where it is not stated or not supported
  std::optional<std::vector<StatedDim>> shape = {};
};

struct ModelFile {
  int64_t opset = 0;  // the version of the format's op set
  CallNames names;
  std::vector<OpCall> calls;
  std::vector<FileTensor> tensors;
  std::vector<StatedValue> inputs;  // an input with the name of a tensor is that tensor
  std::vector<StatedValue> outputs;
  std::vector<StatedValue> values;  // other values
};

}  // namespace heddle
