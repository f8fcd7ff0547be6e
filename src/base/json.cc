#include "base/json.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"

namespace heddle {
namespace {

// Iterates over the text and stores the number of bytes read where the callback can see it.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, std::size_t* read) : at_(at), read_(read) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*read_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator old = *this;
    ++*this;
    return old;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  std::size_t* read_;
};

// "what:line:column" of the last byte read.
std::string Place(std::string_view text, std::string_view what, std::size_t read) {
  const std::size_t at = std::min(read == 0 ? 0 : read - 1, text.size());
  const std::string_view before = text.substr(0, at);
  const auto lines = std::count(before.begin(), before.end(), '\n');
  const std::size_t start = before.rfind('\n') + 1;  // npos + 1 == 0
  return fmt::format("{}:{}:{}", what, lines + 1, at - start + 1);
}

// The part of the library's message that gives the reason. The library says "[json.exception...] parse error at line 1,
// column 5: the reason".
std::string Reason(std::string_view message) {
  if (const auto column = message.find(", column "); column != message.npos) {
    message.remove_prefix(std::min(message.size(), message.find(": ", column) + 2));
  } else if (const auto bracket = message.find("] "); bracket != message.npos) {
    message.remove_prefix(bracket + 2);
  }
  return ShortenText(message, 200);
}

}  // namespace

Json ParseJson(std::string_view text, std::string_view what, std::size_t max_bytes) {
  if (text.size() > max_bytes) {
    ThrowInput("{}: JSON of {} is larger than the limit of {}", what,
               FormatBytes({static_cast<std::int64_t>(text.size())}),
               FormatBytes({static_cast<std::int64_t>(max_bytes)}));
  }
  std::size_t read = 0;
  // The keys of each open object; an empty set for an open array.
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int, Json::parse_event_t event, Json& parsed) {
    using Event = Json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      keys.emplace_back();
      if (keys.size() > kMaxJsonDepth) {
        ThrowInput("{}: JSON is nested deeper than {} levels", Place(text, what, read),
                   kMaxJsonDepth);
      }
    } else if (event == Event::object_end || event == Event::array_end) {
      keys.pop_back();
    } else if (event == Event::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys.back().insert(key).second) {
        ThrowInput("{}: key \"{}\" is given twice; remove one", Place(text, what, read),
                   ShortenText(key, 100));
      }
    }
    return true;
  };
  try {
    return Json::parse(CountingIterator(text.data(), &read),
                       CountingIterator(text.data() + text.size(), &read), check);
  } catch (const Json::parse_error& error) {
    ThrowInput("{}: not valid JSON: {}", Place(text, what, error.byte), Reason(error.what()));
  } catch (const Json::exception& error) {
    ThrowInput("{}: not valid JSON: {}", Place(text, what, read), Reason(error.what()));
  }
}

}  // namespace heddle
