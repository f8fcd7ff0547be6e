#include "frontend/onnx/decode.h"

#include <google/protobuf/arena.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <limits>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "frontend/onnx/onnx_subset.pb.h"
#include "frontend/onnx/tensor_data.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;
using heddle_onnx::AttributeProto;
using heddle_onnx::ModelProto;

constexpr int kMaxDepth = 100;  // protobuf's default
constexpr int64_t kMaxFileBytes = std::numeric_limits<int32_t>::max();

bool Parse(ModelProto& proto, std::string_view bytes, int depth) {
  google::protobuf::io::ArrayInputStream array(bytes.data(), static_cast<int>(bytes.size()));
  google::protobuf::io::CodedInputStream coded(&array);
  coded.SetRecursionLimit(depth);
  return proto.ParseFromCodedStream(&coded) && coded.ConsumedEntireMessage();
}

[[noreturn]] void ThrowTooLarge(std::string_view file, uintmax_t size) {
  ThrowInput("{}: has {} bytes, an ONNX file must be under 2 GiB; export with external data", file,
             size);
}

bool LooksLikeText(std::string_view bytes) {
  const std::string_view start = bytes.substr(0, 512);
  return std::none_of(start.begin(), start.end(), [](char c) {
    return static_cast<unsigned char>(c) < 32 && c != '\n' && c != '\r' && c != '\t';
  });
}

[[noreturn]] void ThrowUnparsable(std::string_view bytes, std::string_view file) {
  if (LooksLikeText(bytes)) {
    ThrowInput("{}: is a text file, not an ONNX model; give a file written by torch.onnx.export",
               file);
  }
  ModelProto deeper;
  if (Parse(deeper, bytes, 10 * kMaxDepth)) {
    ThrowInput(
        "{}: nests graphs deeper than {} levels of the file format; export it without nested If "
        "or Loop",
        file, kMaxDepth);
  }
  ThrowInput(
      "{}: cannot be decoded as ONNX: it is cut short, damaged, or nested deeper than {} levels; "
      "copy or export it again",
      file, kMaxDepth);
}

// Some writers leave out the type of an attribute; then the field that is set determines it.
int TypeOf(const AttributeProto& proto) {
  if (proto.type() != 0) return proto.type();
  if (proto.has_f()) return 1;
  if (proto.has_i()) return 2;
  if (proto.has_s()) return 3;
  if (proto.has_t()) return 4;
  if (proto.has_g()) return 5;
  if (proto.floats_size() > 0) return 6;
  if (proto.ints_size() > 0) return 7;
  if (proto.strings_size() > 0) return 8;
  if (proto.graphs_size() > 0) return 10;
  return 7;  // an empty list
}

CallAttribute DecodeAttribute(AttributeProto& proto, const fs::path& folder,
                              std::string_view what) {
  if (!proto.ref_attr_name().empty()) {
    ThrowInput("{}: refers to the attribute '{}' of a function; export without functions", what,
               proto.ref_attr_name());
  }
  switch (TypeOf(proto)) {
    case 1:
      return static_cast<double>(proto.f());
    case 2:
      return proto.i();
    case 3:
      return proto.s();
    case 4:
      return DecodeTensor(*proto.mutable_t(), folder, what).data;
    case 5:
    case 10:
      return UnreadAttribute{};
    case 6:
      return std::vector<double>(proto.floats().begin(), proto.floats().end());
    case 7:
      return std::vector<int64_t>(proto.ints().begin(), proto.ints().end());
    case 8:
      return std::vector<std::string>(proto.strings().begin(), proto.strings().end());
    default:
      ThrowInput("{}: has the attribute type {}, which heddle does not support", what,
                 proto.type());
  }
}

OpCall DecodeNode(heddle_onnx::NodeProto& proto, const fs::path& folder, std::string_view file,
                  int index, CallNames& names) {
  OpCall node;
  node.name = proto.name().empty() ? fmt::format("{}#{}", proto.op_type(), index)
                                   : std::move(*proto.mutable_name());
  const bool standard = proto.domain().empty() || proto.domain() == "ai.onnx";
  node.op = standard ? proto.op_type() : fmt::format("{}::{}", proto.domain(), proto.op_type());
  auto add = [&](const std::string& name) { return name.empty() ? CallName{} : names.Add(name); };
  for (const std::string& input : proto.input()) node.operands.push_back(add(input));
  for (const std::string& output : proto.output()) node.results.push_back(add(output));
  for (AttributeProto& attribute : *proto.mutable_attribute()) {
    const std::string what =
        fmt::format("{}: node '{}': attribute '{}'", file, node.name, attribute.name());
    if (!node.attributes.emplace(attribute.name(), DecodeAttribute(attribute, folder, what))
             .second) {
      ThrowInput("{} is given twice", what);
    }
  }
  return node;
}

StatedValue DecodeValueInfo(const heddle_onnx::ValueInfoProto& proto, std::string_view file,
                            CallNames& names) {
  StatedValue info;
  info.name = proto.name();
  info.id = names.Add(info.name);
  info.tensor = !proto.has_type() || proto.type().has_tensor_type();
  if (!proto.type().has_tensor_type()) return info;
  const auto& tensor = proto.type().tensor_type();
  info.dtype = DTypeFromOnnx(tensor.elem_type());
  if (!tensor.has_shape()) return info;
  if (tensor.shape().dim_size() > kMaxRank) {
    ThrowInput("{}: value '{}' has {} dimensions, at most {} are supported", file, info.name,
               tensor.shape().dim_size(), kMaxRank);
  }
  info.shape.emplace();
  for (const auto& dim : tensor.shape().dim()) {
    StatedDim& out = info.shape->emplace_back();
    if (dim.has_dim_value()) {
      if (dim.dim_value() < 0) {
        ThrowInput("{}: value '{}' has the dimension {}, must not be negative", file, info.name,
                   dim.dim_value());
      }
      out.size = dim.dim_value();
    } else {
      out.symbol = dim.dim_param();
    }
  }
  return info;
}

int64_t FindOpset(const ModelProto& proto, std::string_view file) {
  for (const auto& opset : proto.opset_import()) {
    if (!opset.domain().empty() && opset.domain() != "ai.onnx") continue;
    if (opset.version() < kMinOpset || opset.version() > kMaxOpset) {
      ThrowInput("{}: uses ONNX opset {}, must be {} to {}; export with opset_version={}", file,
                 opset.version(), kMinOpset, kMaxOpset, 18);
    }
    return opset.version();
  }
  ThrowInput("{}: gives no ONNX opset; export with opset_version={}", file, 18);
}

ModelFile ToModel(ModelProto& proto, std::string_view file, const fs::path& folder) {
  ModelFile model;
  if (!proto.has_graph()) {
    ThrowInput(
        "{}: contains no graph, so it is not an ONNX model; give a file written by "
        "torch.onnx.export",
        file);
  }
  model.opset = FindOpset(proto, file);
  auto& graph = *proto.mutable_graph();
  if (graph.sparse_initializer_size() > 0) {
    ThrowInput(
        "{}: has {} sparse initializers, which heddle does not support; store them as dense "
        "tensors",
        file, graph.sparse_initializer_size());
  }
  model.calls.reserve(static_cast<size_t>(graph.node_size()));
  for (int i = 0; i < graph.node_size(); ++i) {
    model.calls.push_back(DecodeNode(*graph.mutable_node(i), folder, file, i, model.names));
  }
  model.tensors.reserve(static_cast<size_t>(graph.initializer_size()));
  for (auto& tensor : *graph.mutable_initializer()) {
    model.tensors.push_back(
        DecodeTensor(tensor, folder, fmt::format("{}: initializer '{}'", file, tensor.name())));
    model.tensors.back().id = model.names.Add(tensor.name());
  }
  auto decode = [&](const auto& info) { return DecodeValueInfo(info, file, model.names); };
  for (const auto& info : graph.input()) model.inputs.push_back(decode(info));
  for (const auto& info : graph.output()) model.outputs.push_back(decode(info));
  for (const auto& info : graph.value_info()) model.values.push_back(decode(info));
  return model;
}

std::string ReadModelFile(const std::string& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (!error && size > static_cast<uintmax_t>(kMaxFileBytes)) ThrowTooLarge(path, size);
  return ReadFile(path, static_cast<size_t>(kMaxFileBytes));
}

void ParseOrThrow(ModelProto& proto, std::string_view bytes, std::string_view file) {
  if (bytes.empty()) ThrowInput("{}: is empty; give an ONNX model", file);
  if (bytes.size() > static_cast<size_t>(kMaxFileBytes)) ThrowTooLarge(file, bytes.size());
  if (!Parse(proto, bytes, kMaxDepth)) ThrowUnparsable(bytes, file);
}

}  // namespace

ModelFile DecodeOnnxFile(const std::string& path) {
  google::protobuf::Arena arena;
  ModelProto& proto = *google::protobuf::Arena::CreateMessage<ModelProto>(&arena);
  ParseOrThrow(proto, ReadModelFile(path), path);  // the bytes are freed before tensors are copied
  return ToModel(proto, path, fs::path(path).parent_path());
}

ModelFile DecodeOnnx(std::string_view bytes, std::string_view file, const fs::path& folder) {
  google::protobuf::Arena arena;
  ModelProto& proto = *google::protobuf::Arena::CreateMessage<ModelProto>(&arena);
  ParseOrThrow(proto, bytes, file);
  return ToModel(proto, file, folder);
}

}  // namespace heddle
