#include "frontend/onnx/import.h"

#include <utility>

#include "base/error.h"
#include "frontend/import/importer.h"
#include "frontend/onnx/decode.h"
#include "frontend/onnx/ops.h"
#include "frontend/onnx/parameters.h"
#include "frontend/onnx/sort.h"

namespace heddle {
namespace {

void AddInitializers(Importer& importer, const ModelFile& model, std::string_view file,
                     const ImportOptions& options) {
  const ParameterRule rule(model, file, options);
  for (const FileTensor& tensor : model.tensors) {
    if (tensor.name.empty()) ThrowInput("{}: an initializer has no name", file);
    if (const Imported* known = importer.Find(tensor.id)) {
      ThrowInput("{}: initializer '{}' is given twice, as {} and as {}", file, tensor.name,
                 ToString(known->type), ToString(tensor.type));
    }
    importer.AddTensor(tensor, rule.IsTrainable(tensor));
  }
}

Graph ImportModel(const ModelFile& model, std::string_view file, const ImportOptions& options) {
  CheckOpsKnown(model, file, FindOnnxOp);
  const std::vector<size_t> order = SortNodes(model, file);
  Importer importer(model, file, options);
  importer.AddInputs();
  AddInitializers(importer, model, file, options);
  for (const size_t index : order) {
    const OpCall& call = model.calls[index];
    importer.AddCall(call, *FindOnnxOp(call.op));
  }
  return importer.Finish();
}

}  // namespace

Graph ImportOnnx(const std::string& path, const ImportOptions& options) {
  return ImportModel(DecodeOnnxFile(path), path, options);
}

Graph ImportOnnxBytes(std::string_view bytes, std::string_view file,
                      const std::filesystem::path& folder, const ImportOptions& options) {
  return ImportModel(DecodeOnnx(bytes, file, folder), file, options);
}

}  // namespace heddle
