// Reads the header of a safetensors file event by event and then checks it as a whole. No document is built, so 100 MB
// of brackets cost no more memory than one.
#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "graph/safetensors.h"

namespace heddle {
namespace {

// Receives the events of nlohmann's parser. Levels: 0 outside, 1 the tensors, 2 one tensor or the metadata, 3 a shape
// or the offsets. An event that is not allowed at its level throws.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(std::string_view file) : file_(file) {}

  SafetensorsHeader Take() { return std::move(header_); }

  bool start_object(size_t) override {
    if (level_ >= 2) Fail("an object is not allowed here");
    ++level_;
    if (level_ == 2) {
      if (!in_metadata_) StartTensor();
      keys_.clear();
    }
    return true;
  }

  bool end_object() override {
    if (level_ == 2 && !in_metadata_) EndTensor();
    if (level_ == 2) in_metadata_ = false;
    --level_;
    return true;
  }

  bool key(string_t& key) override {
    key_ = key;
    if (level_ == 1) {
      name_ = key;
      in_metadata_ = key == "__metadata__";
      if (!names_.insert(key).second) ThrowInput("{}: the header names '{}' twice", file_, key);
    } else if (!keys_.insert(key).second) {
      Fail(fmt::format("the key '{}' is given twice", key));
    } else if (!in_metadata_ && key != "dtype" && key != "shape" && key != "data_offsets") {
      Fail(fmt::format("the key '{}' is unknown; known are dtype, shape and data_offsets", key));
    }
    return true;
  }

  bool string(string_t& text) override {
    if (level_ == 2 && in_metadata_) {
      header_.metadata.emplace(key_, text);
      return true;
    }
    if (level_ != 2 || key_ != "dtype") Unexpected(fmt::format("\"{}\"", text));
    std::optional<DType> dtype = DTypeFromSafetensors(text);
    if (!dtype) Fail(fmt::format("dtype {} is not supported; convert it to {}", text, Known()));
    entry_.type.dtype = *dtype;
    return true;
  }

  bool start_array(size_t) override {
    if (level_ != 2 || in_metadata_ || key_ == "dtype") Unexpected("a list");
    ++level_;
    return true;
  }

  bool end_array() override {
    --level_;
    return true;
  }

  bool number_unsigned(number_unsigned_t number) override {
    if (level_ != 3) Unexpected(fmt::format("{}", number));
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      Fail(fmt::format("{} in {} does not fit 63 bits", number, key_));
    }
    std::vector<int64_t>& list = key_ == "shape" ? entry_.type.shape : offsets_;
    if (static_cast<int64_t>(list.size()) == kMaxRank) {
      Fail(fmt::format("{} has more than {} entries", key_, kMaxRank));
    }
    list.push_back(static_cast<int64_t>(number));
    return true;
  }

  bool number_integer(number_integer_t number) override { Unexpected(fmt::format("{}", number)); }
  bool number_float(number_float_t, const string_t& text) override { Unexpected(text); }
  bool null() override { Unexpected("null"); }
  bool boolean(bool value) override { Unexpected(value ? "true" : "false"); }
  bool binary(binary_t&) override { Unexpected("bytes"); }

  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) override {
    ThrowInput("{}: the header is not JSON, at byte {} of it", file_, position);
  }

 private:
  static std::string Known() {
    std::string names;
    for (const DTypeInfo& info : AllDTypes()) {
      names += (names.empty() ? "" : " ") + std::string(info.safetensors);
    }
    return names;
  }

  [[noreturn]] void Fail(std::string_view what) const {
    if (level_ == 0) ThrowInput("{}: the header: {}", file_, what);
    ThrowInput("{}: {}: {}", file_, in_metadata_ ? "__metadata__" : "tensor '" + name_ + "'", what);
  }

  [[noreturn]] void Unexpected(std::string_view found) const {
    if (level_ <= 1) Fail(fmt::format("expected an object, found {}", found));
    if (in_metadata_) Fail(fmt::format("'{}' is {}; metadata are strings", key_, found));
    if (key_ == "dtype") Fail(fmt::format("dtype is {}, expected a string", found));
    Fail(fmt::format("{} {} {}; it must be a list of whole numbers from 0", key_,
                     level_ == 3 ? "holds" : "is", found));
  }

  void StartTensor() {
    if (static_cast<int64_t>(header_.tensors.size()) == kMaxSafetensorsTensors) {
      ThrowInput("{}: the header names more than {} tensors", file_, kMaxSafetensorsTensors);
    }
    entry_ = {.name = name_, .type = {}};
    offsets_.clear();
  }

  void EndTensor() {
    for (const char* needed : {"dtype", "shape", "data_offsets"}) {
      if (!keys_.contains(needed)) Fail(fmt::format("the key '{}' is missing", needed));
    }
    if (offsets_.size() != 2) {
      Fail(fmt::format("data_offsets has {} entries, expected begin and end", offsets_.size()));
    }
    entry_.begin = offsets_[0];
    entry_.end = offsets_[1];
    if (entry_.begin > entry_.end) {
      Fail(fmt::format("data_offsets [{},{}] end before they begin", entry_.begin, entry_.end));
    }
    int64_t bytes = ByteCount(entry_.type, fmt::format("{}: tensor '{}'", file_, name_));
    if (entry_.end - entry_.begin != bytes) {
      Fail(fmt::format("data_offsets [{},{}] hold {} bytes, but {} has {}", entry_.begin,
                       entry_.end, entry_.end - entry_.begin, ToString(entry_.type), bytes));
    }
    header_.tensors.push_back(std::move(entry_));
  }

  std::string_view file_;
  SafetensorsHeader header_;
  int level_ = 0;
  bool in_metadata_ = false;
  std::string name_;  // of the tensor being read
  std::string key_;
  std::unordered_set<std::string> names_;
  std::set<std::string> keys_;  // seen in the object being read
  SafetensorsEntry entry_;
  std::vector<int64_t> offsets_;
};

// Throws for files of other kinds that users try, which are recognised by their first bytes.
void RefuseOtherKinds(std::string_view bytes, std::string_view file) {
  constexpr std::string_view kConvert =
      "convert it with safetensors.torch.save_file(torch.load(FILE, weights_only=True), OUT)";
  if (bytes.starts_with("PK\x03\x04")) {
    ThrowInput("{}: is a zip archive (a PyTorch checkpoint?), not safetensors; {}", file, kConvert);
  }
  if (bytes.size() >= 2 && bytes[0] == '\x80' && bytes[1] >= 1 && bytes[1] <= 5) {
    ThrowInput("{}: is a Python pickle, which can run code when loaded, not safetensors; {}", file,
               kConvert);
  }
}

// Throws unless the tensors lie back to back and cover all `size` bytes of data.
void CheckLayout(const SafetensorsHeader& header, int64_t size, std::string_view file) {
  std::vector<const SafetensorsEntry*> order;
  for (const SafetensorsEntry& entry : header.tensors) order.push_back(&entry);
  std::ranges::sort(order, {},
                    [](const SafetensorsEntry* e) { return std::pair(e->begin, e->end); });
  int64_t at = 0;
  for (const SafetensorsEntry* entry : order) {
    if (entry->begin != at) {
      ThrowInput("{}: tensor '{}' begins at byte {} of the data, {} byte {}", file, entry->name,
                 entry->begin,
                 entry->begin < at ? "overlapping what ends at" : "leaving a hole from", at);
    }
    if (entry->end > size) {
      ThrowInput(
          "{}: tensor '{}' ends at byte {} of the data, but the file holds {}; is it cut off?",
          file, entry->name, entry->end, size);
    }
    at = entry->end;
  }
  if (at != size) {
    ThrowInput("{}: the tensors cover {} bytes of data, but the file holds {}", file, at, size);
  }
}

}  // namespace

SafetensorsHeader ParseSafetensors(std::span<const std::byte> bytes, std::string_view file) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  uint64_t length = 0;
  if (text.size() < 9 || text[8] != '{') RefuseOtherKinds(text, file);
  if (text.size() < sizeof(length)) {
    ThrowInput("{}: has {} bytes, too few for the length of a header", file, text.size());
  }
  std::memcpy(&length, text.data(), sizeof(length));
  text.remove_prefix(sizeof(length));
  if (length > static_cast<uint64_t>(kMaxSafetensorsHeader)) {
    ThrowInput("{}: claims a header of {} bytes, above {}; is it a safetensors file?", file, length,
               kMaxSafetensorsHeader);
  }
  if (length > text.size()) {
    ThrowInput("{}: claims a header of {} bytes, but only {} follow; is it cut off?", file, length,
               text.size());
  }
  int64_t data_size = static_cast<int64_t>(text.size() - length);
  text = text.substr(0, length);
  if (!text.starts_with('{')) ThrowInput("{}: the header does not begin with '{{'", file);
  std::string_view json = text.substr(0, text.find_last_not_of(' ') + 1);
  if (!json.ends_with('}')) {
    ThrowInput("{}: the header does not end with '}}' and spaces; other padding is refused", file);
  }

  HeaderReader reader(file);
  nlohmann::json::sax_parse(json.begin(), json.end(), &reader);
  SafetensorsHeader header = reader.Take();
  header.data_begin = static_cast<int64_t>(sizeof(length) + length);
  CheckLayout(header, data_size, file);
  std::ranges::sort(header.tensors, {}, &SafetensorsEntry::name);
  return header;
}

}  // namespace heddle
