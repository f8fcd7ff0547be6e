// Prints the text form, and attaches data (AttachData). text_parse.cc reads the text form.
#include "graph/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/hash.h"

namespace heddle {
namespace {

constexpr int64_t kMaxInlineElements = 64;

bool IsNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == ':' || c == '/' || c == '-';
}

std::string Identifier(std::string_view name) {
  return IsPlainIdentifier(name) ? std::string(name) : Quote(name);
}

template <class Float>
std::string FormatFloat(Float value) {
  return std::isnan(value) ? "nan" : fmt::format("{}", value);
}

// Like FormatFloat, but the text always differs from an integer.
std::string FormatAttribute(double value) {
  std::string text = FormatFloat(value);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

std::string FormatAttribute(int64_t value) { return fmt::format("{}", value); }
std::string FormatAttribute(const std::string& value) { return Quote(value); }

template <class T>
std::string FormatAttribute(const std::vector<T>& list) {
  if (list.empty()) return std::is_same_v<T, double> ? "[]f" : "[]i";
  std::string text = "[";
  for (size_t i = 0; i < list.size(); ++i) {
    if (i > 0) text += ", ";
    text += FormatAttribute(list[i]);
  }
  return text + "]";
}

std::string FormatElement(const HostTensor& tensor, int64_t i) {
  if (tensor.dtype == DType::kF64) return FormatFloat(AsDouble(tensor, i));
  if (IsFloat(tensor.dtype)) return FormatFloat(static_cast<float>(AsDouble(tensor, i)));
  int64_t value = AsInt(tensor, i);
  return tensor.dtype == DType::kBool ? (value ? "1" : "0") : FormatAttribute(value);
}

// Whether all elements are printed alike.
bool IsSplat(const HostTensor& tensor) {
  const size_t width = static_cast<size_t>(SizeOf(tensor.dtype));
  const std::byte* bytes = tensor.data.data();
  if (std::memcmp(bytes, bytes + width, tensor.data.size() - width) == 0) return true;
  if (tensor.dtype == DType::kBool) {
    return std::ranges::all_of(tensor.data, [&](std::byte b) {
      return (b != std::byte{0}) == (bytes[0] != std::byte{0});
    });
  }
  if (!IsFloat(tensor.dtype)) return false;
  for (int64_t i = 0; i < tensor.size(); ++i) {
    if (!std::isnan(AsDouble(tensor, i))) return false;
  }
  return true;
}

std::string FormatConstant(const Value& value) {
  if (!value.data) {
    return value.data_hash ? "data xxh64:" + HashToHex(*value.data_hash) : "data none";
  }
  const HostTensor& tensor = *value.data;
  const int64_t size = tensor.size();
  if (tensor.shape.empty()) return FormatElement(tensor, 0);
  if (size > 1 && static_cast<int64_t>(tensor.data.size()) <= TextLimits{}.splat_bytes &&
      IsSplat(tensor)) {
    return "splat " + FormatElement(tensor, 0);
  }
  if (size > kMaxInlineElements) {
    return "data xxh64:" + HashToHex(HashBytes(tensor.data.data(), tensor.data.size()));
  }
  std::string text = "[";
  for (int64_t i = 0; i < size; ++i) {
    if (i > 0) text += ", ";
    text += FormatElement(tensor, i);
  }
  return text + "]";
}

void AppendDefinition(const Value& value, std::string& out) {
  out += ValueReference(value.name);
  out += ": ";
  out += ToString(value.type);
}

void AppendNode(const Graph& graph, const Node& node, std::string& out) {
  for (size_t i = 0; i < node.results.size(); ++i) {
    if (i > 0) out += ", ";
    AppendDefinition(graph.value(node.results[i]), out);
  }
  out += " = ";
  out += Identifier(node.op);
  out += "(";
  for (size_t i = 0; i < node.operands.size(); ++i) {
    if (i > 0) out += ", ";
    out += ValueReference(graph.value(node.operands[i]).name);
  }
  out += ")";
  std::string_view separator = " {";
  for (const auto& [name, attribute] : node.attributes) {
    out += separator;
    out += Identifier(name);
    out += "=";
    out += std::visit([](const auto& value) { return FormatAttribute(value); }, attribute);
    separator = ", ";
  }
  out += node.attributes.empty() ? "\n" : "}\n";
}

// Why the tensor cannot become the data of `value`; empty where it can.
std::string Mismatch(const Value& value, const HostTensor& tensor) {
  if (tensor.type() != value.type) {
    return fmt::format("{} is {}, expected {}", ValueReference(value.name), ToString(tensor.type()),
                       ToString(value.type));
  }
  if (value.kind == ValueKind::kConstant) {
    uint64_t hash = HashBytes(tensor.data.data(), tensor.data.size());
    if (hash != *value.data_hash) {
      return fmt::format("{} has hash {}, expected {}", ValueReference(value.name), HashToHex(hash),
                         HashToHex(*value.data_hash));
    }
  }
  return "";
}

}  // namespace

std::string Quote(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        if (c >= 0x20 && c < 0x7f) {
          out += c;
        } else {
          out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
        }
    }
  }
  return out + "\"";
}

bool IsPlainName(std::string_view name) {
  return !name.empty() && name.back() != ':' && std::ranges::all_of(name, IsNameChar);
}

bool IsPlainIdentifier(std::string_view name) {
  return IsPlainName(name) && name.front() != '.' && name.front() != ':' && name.front() != '/' &&
         name.front() != '-' && !(name.front() >= '0' && name.front() <= '9');
}

std::string ValueReference(std::string_view name) {
  return "%" + (IsPlainName(name) ? std::string(name) : Quote(name));
}

std::string ToText(const Graph& graph) {
  std::string out = "heddle 1\nmodel " + Quote(graph.name) + "\n";
  for (const Value& value : graph.values) {
    if (value.kind == ValueKind::kActivation) continue;
    out += value.kind == ValueKind::kInput       ? "input "
           : value.kind == ValueKind::kParameter ? "param "
                                                 : "const ";
    AppendDefinition(value, out);
    if (value.kind == ValueKind::kConstant) out += " = " + FormatConstant(value);
    out += "\n";
  }
  for (const Node& node : graph.nodes) AppendNode(graph, node, out);
  out += "output ";
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    if (i > 0) out += ", ";
    out += ValueReference(graph.value(graph.outputs[i]).name);
  }
  return out + "\n";
}

uint64_t StableHash(const Graph& graph) { return HashString(ToText(graph)); }

void AttachData(Graph& graph, std::map<std::string, HostTensor> tensors, std::string_view file) {
  const std::vector<ValueId> parameters = graph.ValuesOf(ValueKind::kParameter);
  std::vector<ValueId> wanted;
  for (ValueId id : graph.ValuesOf(ValueKind::kConstant)) {
    if (!graph.value(id).data && graph.value(id).data_hash) wanted.push_back(id);
  }
  if (std::ranges::any_of(parameters,
                          [&](ValueId id) { return tensors.contains(graph.value(id).name); })) {
    wanted.insert(wanted.end(), parameters.begin(), parameters.end());
  }

  std::vector<std::string> wrong;
  for (ValueId id : wanted) {
    const Value& value = graph.value(id);
    auto it = tensors.find(value.name);
    std::string problem =
        it == tensors.end()
            ? fmt::format("{} ({}) is missing", ValueReference(value.name), ToString(value.type))
            : Mismatch(value, it->second);
    if (!problem.empty()) wrong.push_back(std::move(problem));
  }
  if (!wrong.empty()) {
    ThrowInput("{}: {} of the {} tensors that model {} needs cannot be used: {}", file,
               wrong.size(), wanted.size(), Quote(graph.name), fmt::join(wrong, "; "));
  }
  for (ValueId id : wanted) {
    Value& value = graph.value(id);
    value.data = std::make_shared<const HostTensor>(std::move(tensors.find(value.name)->second));
    value.data_hash.reset();
  }
}

}  // namespace heddle
