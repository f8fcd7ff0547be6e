// A decoded model file on its way to a graph, whatever its format.
//
//   Importer importer(file, "gpt2.onnx", options);
//   importer.AddInputs();
//   for (const FileTensor& tensor : file.tensors) importer.AddTensor(tensor, /*trained=*/...);
//   for (const OpCall& call : file.calls) importer.AddCall(call, *FindOnnxOp(call.op));
//   Graph graph = importer.Finish();
//
// What a format has to bring: its files decoded (model_file.h), calls in an order in which each comes after those it
// reads from, every operand an input, a tensor or a result, which tensors are trained, and an OpImport for every op.
// Open dimensions of inputs, tied weights, constants evaluated on the way (builder.h), types that the file states and
// those found, the loss, and file and node in front of every error are alike for all.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frontend/import/builder.h"
#include "frontend/import/call_import.h"
#include "frontend/import/model_file.h"
#include "frontend/import_options.h"
#include "graph/graph.h"

namespace heddle {

// Throws one InputError that lists every op that `find` does not know, with counts.
void CheckOpsKnown(const ModelFile& file, std::string_view path,
                   const OpImport* (*find)(std::string_view));

// All functions throw InputError, which begins with the path.
class Importer {
 public:
  // File and options must outlive it. `path` is for messages and the graph's name.
  Importer(const ModelFile& file, std::string_view path, const ImportOptions& options);

  // Inputs get the sizes that options.dims give their open dimensions.
  void AddInputs();
  // A parameter where it is trained, a constant otherwise.
  void AddTensor(const FileTensor& tensor, bool trained);
  void AddCall(const OpCall& call, const OpImport& op);

  // What the name stands for; null where it has not been added yet.
  const Imported* Find(CallName name) const;

  // The graph, whose loss is the single scalar float among the outputs, verified and without what the loss
  // does not need.
  Graph Finish();

 private:
  // What a name of the file stands for.
  struct NameInfo {
    std::optional<Imported> value;        // once there is one
    const StatedValue* stated = nullptr;  // what the file says of it
    bool read = false;                    // by a call or as an output
    bool is_tensor = false;               // then an input of this name is none
  };

  TensorType InputType(const StatedValue& input) const;
  void CheckDims() const;
  Imported ValueOf(const FileTensor& tensor, bool trained);
  void SetValue(CallName name, Imported value);
  NameInfo& Info(CallName name) { return names_[name.index()]; }
  const NameInfo& Info(CallName name) const { return names_[name.index()]; }
  ValueId Loss() const;
  void WarnOfUnreadInputs(const Graph& graph) const;

  const ModelFile& file_;
  std::string path_;
  const ImportOptions& options_;
  Builder builder_;
  std::vector<NameInfo> names_;                             // of file_
  std::map<std::pair<std::string, Shape>, Imported> tied_;  // parameters by storage
};

}  // namespace heddle
