#include "graph/text_cursor.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <vector>

namespace heddle {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsWordChar(char c) { return c == ':' || c == '+' || IsPlainName({&c, 1}); }

}  // namespace

size_t LineCursor::Mark() {
  while (at_ < line_.size() && (line_[at_] == ' ' || line_[at_] == '\t')) ++at_;
  return at_;
}

std::string LineCursor::FoundAt(size_t at) const {
  if (at == line_.size() || line_[at] == '#') return "the end of the line";
  size_t end = at;
  while (end < line_.size() && IsWordChar(line_[end])) ++end;
  return Quote(line_.substr(at, std::clamp<size_t>(end - at, 1, 40)));
}

bool LineCursor::Accept(char c) {
  if (Peek() != c || c == '\0') return false;
  ++at_;
  return true;
}

void LineCursor::Expect(char c, std::string_view where) {
  if (!Accept(c)) Fail("expected '{}' {}, found {}", c, where, Found());
}

void LineCursor::ExpectEnd(std::string_view where) {
  if (!AtEnd()) Fail("expected the end of the line {}, found {}; begin a new line", where, Found());
}

std::string_view LineCursor::Word() {
  size_t begin = Mark();
  while (at_ < line_.size() && IsWordChar(line_[at_])) ++at_;
  return line_.substr(begin, at_ - begin);
}

std::string LineCursor::QuotedString() {
  size_t begin = Mark();
  Expect('"', "before a string");
  std::string out;
  while (at_ < line_.size() && line_[at_] != '"') {
    out += line_[at_] == '\\' ? Escape() : line_[at_++];
  }
  if (at_ == line_.size()) FailAt(begin, "the string has no closing '\"'");
  ++at_;
  return out;
}

std::string LineCursor::Name(std::string_view what) {
  size_t begin = Mark();
  std::string name;
  if (Peek() == '"') {
    name = QuotedString();
  } else {
    size_t end = begin;
    while (end < line_.size() && IsWordChar(line_[end]) && line_[end] != '+') ++end;
    std::string_view word = line_.substr(begin, end - begin);
    while (word.ends_with(':')) word.remove_suffix(1);
    at_ += word.size();
    name = word;
  }
  if (name.empty()) FailAt(begin, "expected {}, found {}", what, Found());
  if (static_cast<int64_t>(name.size()) > limits_.name_bytes) {
    FailAt(begin, "{} has {} bytes, above {}; shorten it", what, name.size(), limits_.name_bytes);
  }
  return name;
}

std::string LineCursor::ValueName() {
  Expect('%', "before the name of a value");
  return Name("the name of a value");
}

int64_t LineCursor::Integer(std::string_view what) {
  size_t begin = Mark();
  std::string_view word = Word();
  int64_t value = 0;
  auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error == std::errc::result_out_of_range) {
    FailAt(begin, "{}: {} does not fit 64 bits", what, FoundAt(begin));
  }
  if (error != std::errc() || end != word.data() + word.size()) {
    FailAt(begin, "expected {}, found {}", what, FoundAt(begin));
  }
  return value;
}

template <class Float>
Float LineCursor::Real(std::string_view what) {
  size_t begin = Mark();
  std::string_view word = Word();
  if (word == "inf") return std::numeric_limits<Float>::infinity();
  if (word == "-inf") return -std::numeric_limits<Float>::infinity();
  if (word == "nan") return std::numeric_limits<Float>::quiet_NaN();
  std::string_view digits = word.substr(word.starts_with('-') ? 1 : 0);
  Float value = 0;
  std::from_chars_result result{word.data(), std::errc::invalid_argument};
  if (!digits.empty() && IsDigit(digits[0])) {
    result = std::from_chars(word.data(), word.data() + word.size(), value);
  }
  if (result.ec == std::errc::result_out_of_range) {
    FailAt(begin, "{}: {} is out of range", what, FoundAt(begin));
  }
  if (result.ec != std::errc() || result.ptr != word.data() + word.size()) {
    FailAt(begin, "expected {}, found {}; write 0.5, 1e-05, inf, -inf or nan", what,
           FoundAt(begin));
  }
  return value;
}

template float LineCursor::Real<float>(std::string_view);
template double LineCursor::Real<double>(std::string_view);

bool LineCursor::LooksReal() {
  size_t begin = Mark();
  std::string_view word = Word();
  at_ = begin;
  return word == "inf" || word == "-inf" || word == "nan" ||
         (word.find_first_of(".eE") != std::string_view::npos && !IsLetter(word[0]));
}

TensorType LineCursor::Type() {
  size_t begin = Mark();
  std::string_view word = Word();
  std::optional<DType> dtype = DTypeFromName(word);
  if (!dtype) {
    std::vector<std::string_view> names;
    for (const DTypeInfo& info : AllDTypes()) names.push_back(info.name);
    FailAt(begin, "expected an element type, found {}; it is one of {}", FoundAt(begin),
           fmt::join(names, " "));
  }
  TensorType type{*dtype, {}};
  Expect('[', "before the shape");
  if (!Accept(']')) {
    do {
      size_t at = Mark();
      int64_t dim = Integer("a dimension");
      if (dim < 0) FailAt(at, "dimension {} is negative", dim);
      if (static_cast<int64_t>(type.shape.size()) == kMaxRank) {
        FailAt(at, "the shape has more than {} dimensions", kMaxRank);
      }
      type.shape.push_back(dim);
    } while (Accept(','));
    Expect(']', "or ',' in the shape");
  }
  // The error of ByteCount says what does not fit; only the place is added here.
  ByteCount(type, fmt::format("{}:{}:{}", file_, number_, begin + 1));
  return type;
}

char LineCursor::Escape() {
  size_t begin = at_++;
  char kind = at_ < line_.size() ? line_[at_++] : '\0';
  switch (kind) {
    case '"':
    case '\\':
      return kind;
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'x': {
      unsigned code = 0;
      std::string_view digits = line_.substr(at_, 2);
      auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
      if (digits.size() == 2 && error == std::errc() && end == digits.data() + 2) {
        at_ += 2;
        return static_cast<char>(code);
      }
      break;
    }
    default:
      break;
  }
  FailAt(begin, "unknown escape {}; known are \\\" \\\\ \\n \\t \\r \\xNN",
         Quote(line_.substr(begin, 2)));
}

}  // namespace heddle
