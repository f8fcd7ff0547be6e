// The fields of one map of a cluster file, each read with its checks. Every error is an InputError
// "file:line: path.field: value: remedy".
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
  // Throws unless `value` is a map with no keys but `known`. `path` says where it stands, as in
  // nodes[1].link; empty for the top. All arguments must outlive this.
  YamlFields(const YamlValue& value, std::string_view file, std::string path,
             std::span<const std::string_view> known);

  bool Has(std::string_view key) const { return map_.Find(key) != nullptr; }
  int line() const { return map_.line; }
  int LineOf(std::string_view key) const;  // of its value, or of the map where it has none
  std::string PathOf(std::string_view key) const;
  std::string PathOf(std::string_view key, std::size_t index) const;

  // Texts: present, not empty.
  std::string Text(std::string_view key) const;
  // A name: printable ASCII, at most kMaxClusterName bytes; `otherwise` where there is none.
  std::string Name(std::string_view key, std::string_view otherwise) const;
  // The index of the text in `choices`, 0 where the key is absent.
  std::size_t Choice(std::string_view key, std::span<const std::string_view> choices) const;
  // A whole number from 1 to kMaxDevices; `otherwise` where there is none.
  std::int64_t Count(std::string_view key, std::int64_t otherwise) const;
  // A list of such numbers.
  std::vector<std::int64_t> Counts(std::string_view key, std::size_t limit) const;
  // A quantity above 0 and at most `limit`; a time may be 0.
  double Quantity(std::string_view key, Unit unit, double limit) const;
  // The same, or 0 where the key is absent; "0" of a unit is allowed, too.
  double OptionalQuantity(std::string_view key, Unit unit, double limit) const;
  Link ReadLink(std::string_view key) const;      // no link where the key is absent
  Uplink ReadUplink(std::string_view key) const;  // likewise
  // A list of at least one value.
  const std::vector<YamlValue>& List(std::string_view key) const;

  [[noreturn]] void Refuse(std::string_view key, std::string_view value,
                           std::string_view remedy) const;
  [[noreturn]] void RefuseMissing(std::string_view key, std::string_view remedy) const;
  // About the map as a whole.
  [[noreturn]] void RefuseAll(std::string_view message) const;

 private:
  const YamlValue& Require(std::string_view key, std::string_view remedy) const;
  double InLimits(std::string_view key, Unit unit, double limit, bool zero) const;

  const YamlValue& map_;
  std::string_view file_;
  std::string path_;
};

}  // namespace heddle
