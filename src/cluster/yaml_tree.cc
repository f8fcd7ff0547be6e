#include "cluster/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <optional>
#include <set>
#include <sstream>

#include "base/check.h"
#include "base/error.h"
#include "base/text.h"
#include "base/units.h"

namespace heddle {
namespace {

int LineOf(const YAML::Mark& mark) { return std::max(mark.line, 0) + 1; }

[[noreturn]] void RefuseManyValues(std::string_view what, int line) {
  ThrowInput("{}:{}: more than {} values; use count for equal groups", what, line, kMaxYamlValues);
}

// Builds the tree bottom-up. Open lists and maps are on a stack; a finished value is added to the one on top.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(std::string_view what) : what_(what) {}

  YamlValue Take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    YamlValue value;
    value.line = LineOf(mark);
    Add(std::move(value));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    ThrowInput("{}:{}: aliases (*name) are not supported; write the value out, or use count", what_,
               LineOf(mark));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                const std::string& text) override {
    RefuseTag(mark, tag);
    YamlValue value;
    value.kind = YamlValue::Kind::kText;
    value.line = LineOf(mark);
    value.text = text;
    Add(std::move(value));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    RefuseTag(mark, tag);
    Open(YamlValue::Kind::kList, mark);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    RefuseTag(mark, tag);
    Open(YamlValue::Kind::kMap, mark);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapEnd() override { Close(); }

 private:
  struct OpenValue {
    YamlValue value;
    std::optional<std::string> key;  // of a map: the key whose value comes next
    std::set<std::string> keys;
  };

  void RefuseTag(const YAML::Mark& mark, const std::string& tag) {
    // "?" marks plain scalars, "!" quoted ones.
    if (tag.empty() || tag == "?" || tag == "!") return;
    ThrowInput("{}:{}: {}: tags are not supported; remove it", what_, LineOf(mark), Quoted(tag));
  }

  void Count(int line) {
    if (++values_ > kMaxYamlValues) RefuseManyValues(what_, line);
  }

  void Open(YamlValue::Kind kind, const YAML::Mark& mark) {
    const int line = LineOf(mark);
    if (!open_.empty()) RequireNotKey(line);
    if (open_.size() >= kMaxYamlDepth) {
      ThrowInput("{}:{}: is nested deeper than {} levels", what_, line, kMaxYamlDepth);
    }
    OpenValue open;
    open.value.kind = kind;
    open.value.line = line;
    open_.push_back(std::move(open));
  }

  void RequireNotKey(int line) {
    const OpenValue& top = open_.back();
    if (top.value.kind == YamlValue::Kind::kMap && !top.key) {
      ThrowInput("{}:{}: a key is not a plain text; write 'key: value'", what_, line);
    }
  }

  void Close() {
    HEDDLE_CHECK(!open_.empty());
    YamlValue value = std::move(open_.back().value);
    open_.pop_back();
    Add(std::move(value));
  }

  void Add(YamlValue value) {
    Count(value.line);
    if (open_.empty()) {
      root_ = std::move(value);
      return;
    }
    OpenValue& top = open_.back();
    if (top.value.kind == YamlValue::Kind::kMap && !top.key) {
      if (value.kind != YamlValue::Kind::kText) RequireNotKey(value.line);
      if (!top.keys.insert(value.text).second) {
        ThrowInput("{}:{}: {}: the key is given twice; remove one", what_, value.line,
                   Quoted(value.text));
      }
      top.value.key_lines.push_back(value.line);
      top.key = std::move(value.text);
      return;
    }
    if (top.key) {
      top.value.keys.push_back(std::move(*top.key));
      top.key.reset();
    }
    top.value.values.push_back(std::move(value));
  }

  std::string_view what_;
  std::vector<OpenValue> open_;
  YamlValue root_;
  std::size_t values_ = 0;
};

// yaml-cpp would treat a zero byte as the end of the text and accept other control characters. It also reads a whole
// flow collection ([...], {...}) into tokens before it sends the first event, which takes 4 GB for a file of 16 MB.
// Every token of a flow collection has an indicator character, and a value has at most four of them, so indicators are
// counted first.
void RefuseBeforeParsing(std::string_view text, std::string_view what) {
  int line = 1;
  std::size_t indicators = 0;
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') ++line;
    const bool indicator = c == '[' || c == ']' || c == '{' || c == '}' || c == ',' || c == ':';
    if (indicator && ++indicators > 4 * kMaxYamlValues) RefuseManyValues(what, line);
    if ((byte < 0x20 && c != '\n' && c != '\r' && c != '\t') || byte == 0x7f) {
      ThrowInput("{}:{}: byte 0x{:02x}: not a text file; is it the right file?", what, line, byte);
    }
  }
}

}  // namespace

const YamlValue* YamlValue::Find(std::string_view key) const {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] == key) return &values[i];
  }
  return nullptr;
}

std::string Quoted(std::string_view text) { return ShortenText(text, 60); }

YamlValue ParseYaml(std::string_view text, std::string_view what, std::string_view page) {
  if (text.size() > kMaxYamlBytes) {
    ThrowInput("{}:1: {} is larger than the limit of {}; is it the right file?", what,
               FormatBytes({static_cast<std::int64_t>(text.size())}),
               FormatBytes({static_cast<std::int64_t>(kMaxYamlBytes)}));
  }
  RefuseBeforeParsing(text, what);
  std::istringstream stream{std::string(text)};
  TreeBuilder builder(what);
  TreeBuilder rest(what);
  bool second = false;
  try {
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) {
      ThrowInput("{}:1: the file is empty; see {} for an example", what, page);
    }
    second = parser.HandleNextDocument(rest);
  } catch (const YAML::Exception& error) {
    ThrowInput("{}:{}: not valid YAML: {}", what, LineOf(error.mark), Quoted(error.msg));
  }
  if (second) {
    ThrowInput("{}:{}: a second document begins; keep only one", what, rest.Take().line);
  }
  return builder.Take();
}

}  // namespace heddle
