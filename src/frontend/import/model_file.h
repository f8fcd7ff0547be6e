// A model file as plain structs, whatever its format: what a format decodes its files into, field by field, and what
// an Importer (importer.h) makes a graph of.
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

// The values of a file are known by their names. Each name is looked up once, when the file is decoded;
// from then on it is a number, and what is known of it stands in a vector.
using CallName = StrongId<struct CallNameTag>;

class CallNames {
 public:
  CallNames() = default;
  CallNames(CallNames&&) = default;  // and no copy: names_ points into ids_
  CallNames& operator=(CallNames&&) = default;

  // The number of a name, a new one where it has none.
  CallName Add(const std::string& name);
  const std::string& operator[](CallName name) const { return *names_[name.index()]; }
  bool Contains(const std::string& name) const { return ids_.contains(name); }
  size_t size() const { return names_.size(); }

 private:
  std::unordered_map<std::string, CallName> ids_;
  std::vector<const std::string*> names_;  // keys of ids_
};

// Null: the data is in another file that is not there.
using TensorData = std::shared_ptr<const HostTensor>;

// A value of a kind that no op of ours is made from, such as a nested graph: seen, not read.
struct UnreadAttribute {};

using CallAttribute =
    std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                 std::vector<std::string>, TensorData, UnreadAttribute>;

// A call of an op.
struct OpCall {
  std::string name = {};                // of the node, for messages
  std::string op = {};                  // as the format names it
  std::vector<CallName> operands = {};  // invalid: left out
  std::vector<CallName> results = {};   // likewise
  std::map<std::string, CallAttribute, std::less<>> attributes = {};
};

// A weight, a buffer, a table.
struct FileTensor {
  std::string name = {};
  CallName id = {};
  TensorType type = {};
  TensorData data = {};
  std::string storage = {};  // where the data is, if in another file; equal ones are one tensor
};

// A size, a name, or neither.
struct StatedDim {
  std::optional<int64_t> size = {};
  std::string symbol = {};
};

// What the file says of a value.
struct StatedValue {
  std::string name = {};
  CallName id = {};
  bool tensor = true;               // false: a sequence or another type
  std::optional<DType> dtype = {};  // nothing where not stated or not one of ours
  std::optional<std::vector<StatedDim>> shape = {};
};

struct ModelFile {
  int64_t opset = 0;  // the version of the format's ops
  CallNames names;
  std::vector<OpCall> calls;
  std::vector<FileTensor> tensors;
  std::vector<StatedValue> inputs;  // one with the name of a tensor is that tensor
  std::vector<StatedValue> outputs;
  std::vector<StatedValue> values;  // of others
};

}  // namespace heddle
