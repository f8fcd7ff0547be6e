// Turns a decoded model file of any format into a graph.
//
//   Importer importer(file, "gpt2.onnx", options);
//   importer.AddInputs();
//   for (const FileTensor& tensor : file.tensors) importer.AddTensor(tensor, /*trained=*/...);
//   for (const OpCall& call : file.calls) importer.AddCall(call, *FindOnnxOp(call.op));
//   Graph graph = importer.Finish();
//
// A format must provide decoded files (model_file.h), calls sorted so that each comes after those it reads from, with
// operands that are inputs, tensors or results, the set of trained tensors, and an OpImport for every op. The importer
// handles what all formats have in common: open dimensions of inputs, tied weights, evaluation of constants
// (builder.h), comparison of stated types with those found, the loss, and file and node at the beginning of every
// error.
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

// Throws one InputError that lists all ops that `find` does not know, with counts.
void CheckOpsKnown(const ModelFile& file, std::string_view path,
                   const OpImport* (*find)(std::string_view));

// All functions throw InputErrors that begin with the path.
class Importer {
 public:
  // File and options must outlive the importer. `path` is used in messages and for the graph's name.
  Importer(const ModelFile& file, std::string_view path, const ImportOptions& options);

  // Adds the inputs, with the sizes that options.dims gives for their open dimensions.
  void AddInputs();
  // Adds a parameter where the tensor is trained, otherwise a constant.
  void AddTensor(const FileTensor& tensor, bool trained);
  void AddCall(const OpCall& call, const OpImport& op);

  // The value of a name; null where it has not been added yet.
  const Imported* Find(CallName name) const;

  // Returns the graph, verified and without nodes that the loss does not need. The loss is the single scalar float
  // among the outputs.
  Graph Finish();

 private:
  // What is known about a name of the file.
  struct NameInfo {
    std::optional<Imported> value;        // set once the value exists
    const StatedValue* stated = nullptr;  // what the file states about it
    bool read = false;                    // by a call or as an output
    bool is_tensor = false;               // an input with the name of a tensor is that tensor
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
