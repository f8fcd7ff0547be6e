// The devices and machines that heddle knows by name: two tables, in known_devices.cc and presets.cc.
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

// A machine of equal devices. `preset:N` is N of these machines, joined by `network` through their uplinks. A torus of
// TPU chips is not made of machines: there N is the number of chips, or a shape.
struct Preset {
  std::string name = {};
  std::string summary = {};  // one line
  std::string device = {};   // a known device
  int devices = 1;           // in one machine; of a torus, in one chip
  int parts = 1;             // number of equal parts of the machine (sockets)
  Topology topology = Topology::kSwitch;
  Link link = {};       // between the devices of a machine, of a part of it, or of a chip
  Link part_link = {};  // between the parts
  Link network = {};    // between machines; between the chips of a torus
  Uplink uplink = {};   // of the machine, or of one chip
  Bytes host_memory = {};
  int torus_dims = 0;      // dimensions of a torus of chips, otherwise 0
  int chips_per_host = 0;  // of a torus; `host_memory` is that of one host
  int max_chips = 0;       // of a torus: the size of the largest one
  bool local = false;      // this machine: `local:N` is N ranks that share it
};

std::span<const Preset> Presets();
std::vector<std::string_view> PresetNames();

// The parsed form of `name`, `name:count` or `name:4x4x4`.
struct PresetExpression {
  const Preset* preset = nullptr;
  // Of a torus the chips along each dimension, otherwise the count.
  std::vector<std::int64_t> shape;
  bool counted = false;  // whether the count was given; it is 1 otherwise
};

// Throws an InputError for an unknown name, a count that is not a positive integer or exceeds the largest number of
// devices, and a shape with the wrong number of dimensions.
PresetExpression ParsePreset(std::string_view text);

// Adds one machine, or the whole torus, to a cluster under construction. Returns an invalid id where the cluster has a
// different group or device type of the same name.
GroupId AddPresetNode(ClusterBuilder& builder, const PresetExpression& expression);

// The cluster of an expression such as "dgx-h100:16", "tpu-v4:4x4x4" or "local:4". Throws as ParsePreset does.
Cluster ClusterFromPreset(std::string_view text);

}  // namespace heddle
