// The devices and machines heddle knows by name: two tables, in known_devices.cc and presets.cc.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/builder.h"
#include "cluster/cluster.h"

namespace heddle {

std::span<const DeviceType> KnownDevices();
const DeviceType* FindKnownDevice(std::string_view name);  // null where there is none

// A machine of equal devices. `preset:N` is N of them, joined by `network` through their uplinks.
// A torus (of TPU chips) is not made of machines: there N is the number of chips, or a shape.
struct Preset {
  std::string name = {};
  std::string summary = {};  // of one line
  std::string device = {};   // one of the known ones
  int devices = 1;           // in one machine; in one chip of a torus
  int parts = 1;             // of the machine (sockets), equal
  Topology topology = Topology::kSwitch;
  Link link = {};       // between the devices of a machine, or of one part of it; of one chip
  Link part_link = {};  // between the parts
  Link network = {};    // between machines; between the chips of a torus
  Uplink uplink = {};   // of the machine; of one chip
  Bytes host_memory = {};
  int torus_dims = 0;      // of a torus of chips, otherwise 0
  int chips_per_host = 0;  // of a torus: `host_memory` is that of one host
  int max_chips = 0;       // of a torus: the largest there is
  bool local = false;      // this machine: `local:N` is N ranks that share it
};

std::span<const Preset> Presets();
std::vector<std::string_view> PresetNames();

// What `name`, `name:count` or `name:4x4x4` says.
struct PresetExpression {
  const Preset* preset = nullptr;
  std::vector<std::int64_t> shape;  // of a torus: chips along each dimension; otherwise the count
  bool counted = false;             // whether the count was given; it is 1 otherwise
};

// Throws InputError for an unknown name, a count that is no positive integer, one that makes more
// devices than there may be, a shape of the wrong dimensions.
PresetExpression ParsePreset(std::string_view text);

// Adds one machine, or the whole torus, to a cluster under construction. An invalid id where the
// cluster already has another group or device type of the same name that is unlike it.
GroupId AddPresetNode(ClusterBuilder& builder, const PresetExpression& expression);

// "dgx-h100:16", "tpu-v4:4x4x4", "local:4". Throws as ParsePreset.
Cluster ClusterFromPreset(std::string_view text);

}  // namespace heddle
