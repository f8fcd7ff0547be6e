// Reads the text form line by line.
//
// The text is untrusted. Sizes that it claims allocate nothing: lists grow with their elements, and splats, the only
// short notation for a large tensor, have limits of their own.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/text.h"
#include "graph/text_cursor.h"
#include "graph/text_elements.h"

namespace heddle {
namespace {

class Parser {
 public:
  Parser(std::string_view text, std::string_view file, const TextLimits& limits)
      : text_(text), file_(file), limits_(limits) {}

  Graph Run() {
    size_t begin = 0;
    int64_t number = 1;
    for (; begin < text_.size(); ++number) {
      size_t end = std::min(text_.find('\n', begin), text_.size());
      std::string_view text = text_.substr(begin, end - begin);
      begin = end + 1;
      if (text.ends_with('\r')) text.remove_suffix(1);
      if (static_cast<int64_t>(text.size()) > limits_.line_bytes) {
        ThrowInput("{}:{}:1: the line has {} bytes, above {}", file_, number, text.size(),
                   limits_.line_bytes);
      }
      LineCursor line(text, number, file_, limits_);
      if (!line.AtEnd()) ParseLine(line);
    }
    if (state_ != State::kDone) {
      ThrowInput("{}:{}:1: the file ends without {}", file_, number,
                 state_ == State::kVersion ? "its first line, \"heddle 1\""
                 : state_ == State::kModel ? "a line model \"NAME\""
                                           : "an output line; is it cut off?");
    }
    std::vector<std::string> found = Verify(graph_);
    if (!found.empty()) {
      size_t shown = std::min<size_t>(found.size(), 3);
      ThrowInput(
          "{}: the graph is not sound ({} problems found): {}", file_, found.size(),
          fmt::join(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(shown), "; "));
    }
    return std::move(graph_);
  }

 private:
  // The kind of line that must come next.
  enum class State { kVersion, kModel, kBody, kDone };

  struct Definition {
    size_t at;
    std::string name;
    TensorType type;
  };

  void ParseLine(LineCursor& line) {
    switch (state_) {
      case State::kVersion:
        return ParseVersion(line);
      case State::kModel:
        return ParseModel(line);
      case State::kDone:
        line.Fail("found {} after the output line, which must be the last", line.Found());
      case State::kBody:
        break;
    }
    if (line.Peek() == '%') return ParseNode(line);
    size_t at = line.Mark();
    std::string_view word = line.Word();
    if (word == "input") {
      ParseLeaf(line, ValueKind::kInput);
    } else if (word == "param") {
      ParseLeaf(line, ValueKind::kParameter);
    } else if (word == "const") {
      ParseConstant(line);
    } else if (word == "output") {
      ParseOutput(line);
    } else {
      line.FailAt(at, "found {}; a line begins with input, param, const, output or %",
                  line.FoundAt(at));
    }
  }

  void ParseVersion(LineCursor& line) {
    size_t at = line.Mark();
    if (line.Word() != "heddle") {
      line.FailAt(at, "this is not a heddle text: it begins with {}, not \"heddle 1\"",
                  line.FoundAt(at));
    }
    at = line.Mark();
    if (int64_t version = line.Integer("the version after heddle"); version != 1) {
      line.FailAt(at, "version {} of the text form is unknown; this program reads version 1",
                  version);
    }
    line.ExpectEnd("after the version");
    state_ = State::kModel;
  }

  void ParseModel(LineCursor& line) {
    size_t at = line.Mark();
    if (line.Word() != "model")
      line.FailAt(at, "expected model \"NAME\", found {}", line.FoundAt(at));
    at = line.Mark();
    graph_.name = line.QuotedString();
    if (static_cast<int64_t>(graph_.name.size()) > limits_.name_bytes) {
      line.FailAt(at, "the name of the model has {} bytes, above {}; shorten it",
                  graph_.name.size(), limits_.name_bytes);
    }
    line.ExpectEnd("after the name of the model");
    state_ = State::kBody;
  }

  Definition ParseDefinition(LineCursor& line) {
    Definition definition{line.Mark(), line.ValueName(), {}};
    line.Expect(':', "and a space between name and type");
    definition.type = line.Type();
    return definition;
  }

  // Registers a new name. The caller adds the value itself.
  void Declare(LineCursor& line, const Definition& definition) {
    if (static_cast<int64_t>(graph_.values.size()) >= limits_.values) {
      line.FailAt(definition.at, "the file has more than {} values", limits_.values);
    }
    if (!ids_.try_emplace(definition.name, ValueId::FromIndex(graph_.values.size())).second) {
      line.FailAt(definition.at, "{} is defined a second time; names are unique",
                  ValueReference(definition.name));
    }
  }

  void ParseLeaf(LineCursor& line, ValueKind kind) {
    Definition definition = ParseDefinition(line);
    line.ExpectEnd("after the type");
    Declare(line, definition);
    graph_.AddValue(std::move(definition.name), std::move(definition.type), kind);
  }

  void ParseConstant(LineCursor& line) {
    Definition definition = ParseDefinition(line);
    Declare(line, definition);
    line.Expect('=', "and the content of the constant");
    ValueId id = graph_.AddValue(std::move(definition.name), std::move(definition.type),
                                 ValueKind::kConstant);
    Value& value = graph_.value(id);
    size_t at = line.Mark();
    if (line.Peek() == '[') {
      value.data = ParseElements(line, value.type);
    } else if (line.Peek() == 'd') {
      ParseData(line, value);
    } else if (line.Peek() == 's') {
      if (line.Word() != "splat")
        line.FailAt(at, "expected splat, data, a number or a list, found {}", line.FoundAt(at));
      value.data = ParseSplat(line, value.type);
    } else if (value.type.shape.empty()) {
      HostTensor tensor;
      tensor.dtype = value.type.dtype;
      AppendElement(line, tensor.dtype, tensor.data);
      value.data = std::make_shared<const HostTensor>(std::move(tensor));
    } else {
      line.Fail("expected [...], splat or data for a constant of shape {}, found {}",
                ToString(value.type.shape), line.Found());
    }
    line.ExpectEnd("after the constant");
  }

  void ParseData(LineCursor& line, Value& value) {
    size_t at = line.Mark();
    if (line.Word() != "data")
      line.FailAt(at, "expected splat, data, a number or a list, found {}", line.FoundAt(at));
    at = line.Mark();
    std::string_view word = line.Word();
    if (word == "none") return;
    constexpr std::string_view kPrefix = "xxh64:";
    std::string_view digits = word.substr(std::min(word.size(), kPrefix.size()));
    bool lower_hex = std::ranges::all_of(
        digits, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
    if (!word.starts_with(kPrefix) || digits.size() != 16 || !lower_hex) {
      line.FailAt(at, "expected xxh64: and 16 digits 0-9 a-f, or none, found {}", line.FoundAt(at));
    }
    uint64_t hash = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), hash, 16);
    value.data_hash = hash;
  }

  std::shared_ptr<const HostTensor> ParseElements(LineCursor& line, const TensorType& type) {
    size_t at = line.Mark();
    int64_t expected = ElementCount(type.shape);
    HostTensor tensor;
    tensor.dtype = type.dtype;
    line.Expect('[', "before the elements");
    if (!line.Accept(']')) {
      do {
        AppendElement(line, type.dtype, tensor.data);
      } while (line.Accept(','));
      line.Expect(']', "or ',' in the list");
    }
    if (tensor.size() != expected) {
      line.FailAt(at, "{} elements for a constant of shape {}, expected {}", tensor.size(),
                  ToString(type.shape), expected);
    }
    tensor.shape = type.shape;
    return std::make_shared<const HostTensor>(std::move(tensor));
  }

  std::shared_ptr<const HostTensor> ParseSplat(LineCursor& line, const TensorType& type) {
    size_t at = line.Mark();
    std::vector<std::byte> element;
    AppendElement(line, type.dtype, element);
    std::string key = ToString(type);
    key.append(reinterpret_cast<const char*>(element.data()), element.size());
    std::shared_ptr<const HostTensor>& shared = splats_[key];
    if (shared) return shared;

    int64_t bytes = ByteCount(type);
    if (bytes > limits_.splat_bytes) {
      line.FailAt(at, "a splat of {} has {} bytes, above {}; give it a shape that broadcasts",
                  ToString(type), bytes, limits_.splat_bytes);
    }
    all_splat_bytes_ += bytes;
    if (all_splat_bytes_ > limits_.all_splat_bytes) {
      line.FailAt(at,
                  "the splats of this file have more than {} bytes together; give them shapes that "
                  "broadcast",
                  limits_.all_splat_bytes);
    }
    HostTensor tensor(type.dtype, type.shape);
    for (size_t i = 0; i < tensor.data.size(); ++i) tensor.data[i] = element[i % element.size()];
    shared = std::make_shared<const HostTensor>(std::move(tensor));
    return shared;
  }

  ValueId ParseReference(LineCursor& line) {
    size_t at = line.Mark();
    std::string name = line.ValueName();
    auto it = ids_.find(name);
    if (it == ids_.end()) {
      line.FailAt(at, "{} is not defined; define it on an earlier line", ValueReference(name));
    }
    return it->second;
  }

  Attributes ParseAttributes(LineCursor& line) {
    Attributes attributes;
    if (!line.Accept('{') || line.Accept('}')) return attributes;
    do {
      size_t at = line.Mark();
      std::string name = line.Name("the name of an attribute");
      line.Expect('=', "after the name of an attribute");
      Attribute value = ParseAttribute(line);
      if (!attributes.try_emplace(name, std::move(value)).second) {
        line.FailAt(at, "attribute {} is given twice", Quote(name));
      }
    } while (line.Accept(','));
    line.Expect('}', "or ',' in the attributes");
    return attributes;
  }

  void ParseNode(LineCursor& line) {
    std::vector<Definition> results;
    do {
      results.push_back(ParseDefinition(line));
    } while (line.Accept(','));
    line.Expect('=', "or ',' after a result");
    std::string op = line.Name("the name of an op");
    line.Expect('(', "after the op");
    std::vector<ValueId> operands;
    if (!line.Accept(')')) {
      do {
        operands.push_back(ParseReference(line));
      } while (line.Accept(','));
      line.Expect(')', "or ',' in the operands");
    }
    Attributes attributes = ParseAttributes(line);
    line.ExpectEnd("after the node");
    NodeId node = graph_.AddNode(std::move(op), std::move(attributes), std::move(operands));
    for (Definition& result : results) {
      Declare(line, result);
      graph_.AddResult(node, std::move(result.name), std::move(result.type));
    }
  }

  void ParseOutput(LineCursor& line) {
    do {
      graph_.outputs.push_back(ParseReference(line));
    } while (line.Accept(','));
    line.ExpectEnd("after the outputs");
    state_ = State::kDone;
  }

  std::string_view text_;
  std::string_view file_;
  TextLimits limits_;
  State state_ = State::kVersion;
  Graph graph_;
  std::unordered_map<std::string, ValueId> ids_;
  std::unordered_map<std::string, std::shared_ptr<const HostTensor>> splats_;
  int64_t all_splat_bytes_ = 0;
};

}  // namespace

Graph FromText(std::string_view text, std::string_view file, const TextLimits& limits) {
  return Parser(text, file, limits).Run();
}

}  // namespace heddle
