// Reads the fields of one map of a cluster file, each with its checks. Every error is an InputError "file:line:
// path.field: value: remedy".
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/cluster.h"
#include "cluster/quantity.h"
#include "cluster/yaml_tree.h"

namespace heddle {

class YamlFields {
 public:
  // Throws unless `value` is a map whose keys are all in `known`. `path` is the place of the map, as in nodes[1].link;
  // it is empty for the top of the file. All arguments must outlive this object.
  YamlFields(const YamlValue& value, std::string_view file, std::string path,
             std::span<const std::string_view> known);

  bool Has(std::string_view key) const { return map_.Find(key) != nullptr; }
  int line() const { return map_.line; }
  // The line of its value, or of the map where the key is missing.
  int LineOf(std::string_view key) const;
  std::string PathOf(std::string_view key) const;
  std::string PathOf(std::string_view key, std::size_t index) const;

  // A text that is present and not empty.
  std::string Text(std::string_view key) const;
  // A name of printable ASCII with at most kMaxClusterName bytes; `otherwise` where the key is missing.
  std::string Name(std::string_view key, std::string_view otherwise) const;
  // The index of the text in `choices`; 0 where the key is missing.
  std::size_t Choice(std::string_view key, std::span<const std::string_view> choices) const;
  // A whole number from 1 to kMaxDevices; `otherwise` where the key is missing.
  std::int64_t Count(std::string_view key, std::int64_t otherwise) const;
  // A list of such numbers.
  std::vector<std::int64_t> Counts(std::string_view key, std::size_t limit) const;
  // A quantity above 0 and at most `limit`; a time may be 0.
  double Quantity(std::string_view key, Unit unit, double limit) const;
  // The same, or 0 where the key is missing. A quantity of 0 is allowed, too.
  double OptionalQuantity(std::string_view key, Unit unit, double limit) const;
  Link ReadLink(std::string_view key) const;      // an absent link where the key is missing
  Uplink ReadUplink(std::string_view key) const;  // an empty uplink where the key is missing
  // A list of at least one value.
  const std::vector<YamlValue>& List(std::string_view key) const;

  [[noreturn]] void Refuse(std::string_view key, std::string_view value,
                           std::string_view remedy) const;
  [[noreturn]] void RefuseMissing(std::string_view key, std::string_view remedy) const;
  // Reports an error in the map as a whole.
  [[noreturn]] void RefuseAll(std::string_view message) const;

 private:
  const YamlValue& Require(std::string_view key, std::string_view remedy) const;
  double InLimits(std::string_view key, Unit unit, double limit, bool zero) const;

  const YamlValue& map_;
  std::string_view file_;
  std::string path_;
};

}  // namespace heddle
