// Tests of cluster files: their meaning, that they are written and read back as equal clusters, and the line and the
// remedy of every mistake.
#include "cluster/yaml.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "cluster/presets.h"
#include "cluster/topology.h"
#include "cluster/yaml_tree.h"

namespace heddle {
namespace {

constexpr std::string_view kLink = "{bandwidth: 1 GB/s, latency: 1 us}";

std::string Refusal(const std::string& text) {
  try {
    ClusterFromYaml(text, "c.yaml");
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Yaml, PresetsAreNodes) {
  const Cluster mixed = ClusterFromYaml(
      "name: mixed\n"
      "link: {name: infiniband, bandwidth: 200 Gb/s, latency: 5 us}\n"
      "nodes:\n"
      "  - {preset: dgx-a100, count: 2}\n"
      "  - preset: dgx-h100\n",
      "c.yaml");
  EXPECT_EQ(DeviceCount(mixed), 24);
  EXPECT_FALSE(IsHomogeneous(mixed));
  EXPECT_EQ(EqualRuns(mixed).size(), 2u);
  EXPECT_EQ(PathBetween(mixed, DeviceId{0}, DeviceId{23}).bandwidth, 25e9);
}

TEST(Yaml, EqualClustersCompareEqual) {
  const std::string nodes =
      "name: dgx-h100:3\nlink: {name: infiniband, bandwidth: 400 Gb/s, latency: 5 us}\n";
  const Cluster once = ClusterFromYaml(nodes + "nodes: [{preset: dgx-h100, count: 3}]", "a");
  const Cluster twice =
      ClusterFromYaml(nodes + "nodes: [{preset: dgx-h100}, {preset: dgx-h100, count: 2}]", "b");
  EXPECT_EQ(once, twice);
  EXPECT_EQ(once, ClusterFromPreset("dgx-h100:3"));
}

TEST(Yaml, NamesAreOptional) {
  const Cluster c = ClusterFromYaml("nodes: [{device: rtx-4090}]", "c.yaml");
  EXPECT_EQ(c.name, "cluster");
  EXPECT_EQ(c.groups[0].name, "1x rtx-4090");
  EXPECT_EQ(DeviceCount(c), 1);
}

TEST(Yaml, UnusedDeviceTypesAreLeftOut) {
  const Cluster c = ClusterFromYaml(
      "device_types: [{name: x, fp32: 1 TFLOP/s, memory: 1 GiB, memory_bandwidth: 1 GB/s}]\n"
      "nodes: [{device: rtx-4090}]",
      "c.yaml");
  ASSERT_EQ(c.device_types.size(), 1u);
  EXPECT_EQ(c.device_types[0].name, "rtx-4090");
}

TEST(Yaml, EveryPresetIsWrittenAndReadBack) {
  for (const Preset& preset : Presets()) {
    for (std::string count : {"", ":3"}) {
      const Cluster cluster = ClusterFromPreset(preset.name + count);
      const std::string text = ToYaml(cluster);
      EXPECT_EQ(ClusterFromYaml(text, preset.name), cluster) << text;
      EXPECT_EQ(ToYaml(ClusterFromYaml(text, preset.name)), text);
      EXPECT_EQ(ClusterFromYaml(ToJson(cluster).dump(), preset.name), cluster);
    }
  }
}

TEST(Yaml, OddTreesAreWrittenAndReadBack) {
  const std::string text = R"(
name: "a: \"odd\" # one"
device_types:
  - {name: "null", bf16: 0.1 GFLOP/s, memory: 1 B, memory_bandwidth: 0.3 B/s}
topology: torus
dims: [1, 3]
link: {name: "- x", bandwidth: 3.3333333333 Mb/s, latency: 0 s}
racks:
  - name: outer
    count: 2
    topology: ring
    racks:
      - name: inner
        uplink: {latency: 7 ms}
        nodes:
          - name: solo
            topology: mesh
            parts:
              - name: half
                topology: torus
                dims: [1]
                parts: [{device: "null"}]
  - name: other
    link: {bandwidth: 1 PB/s, latency: 60 s}
    nodes:
      - {name: n, count: 2, host_memory: 1 PiB, device: tpu-v4, uplink: 1 b/s}
      - {name: m, device: "null", link: {bandwidth: 1 B/s, latency: 0 ns}}
)";
  const Cluster cluster = ClusterFromYaml(text, "odd.yaml");
  EXPECT_TRUE(Verify(cluster).empty());
  EXPECT_EQ(DeviceCount(cluster), 5);
  const std::string written = ToYaml(cluster);
  EXPECT_EQ(ClusterFromYaml(written, "written"), cluster) << written;
  EXPECT_EQ(ClusterFromYaml(ToJson(cluster).dump(1), "json"), cluster);
}

TEST(Yaml, TheExamplesOfTheDocumentationAreSound) {
  std::ifstream file(std::string(HEDDLE_TEST_DATA) + "/../../docs/clusters.md");
  ASSERT_TRUE(file.good());
  int examples = 0;
  bool inside = false;
  std::string text;
  for (std::string line; std::getline(file, line);) {
    if (line == "```" && inside) {
      EXPECT_NO_THROW(ClusterFromYaml(text, "docs/clusters.md")) << text;
      ++examples;
    }
    if (line.starts_with("```"))
      inside = line == "```yaml", text.clear();
    else if (inside)
      text += line + "\n";
  }
  EXPECT_EQ(examples, 2);
}

struct BadFile {
  std::string text, message;
};

std::vector<BadFile> BadFields() {
  const std::string link(kLink);
  const std::string node = "nodes: [{device: rtx-4090}]\n";
  const std::string types = "nodes: [{device: x}]\ndevice_types:\n  - name: x\n";
  const std::string good = types + "    memory: 1 GiB\n    memory_bandwidth: 1 GB/s\n";
  const std::string whole = "must be a whole number from 1 to 1048576";
  return {
      // keys
      {"nodse: []\n" + node, "c.yaml:1: nodse: unknown key; did you mean 'nodes'?"},
      {node + "colour: red",
       "c.yaml:2: colour: unknown key; choose one of name, device_types, topology, "
       "dims, link, nodes, racks"},
      {"nodes:\n  - device: rtx-4090\n    hostmemory: 1 GiB",
       "c.yaml:3: nodes[0].hostmemory: unknown key; did you mean 'host_memory'?"},
      {node + "link: {bandwith: 1 GB/s}",
       "c.yaml:2: link.bandwith: unknown key; did you mean 'bandwidth'?"},
      {node + node, "c.yaml:2: nodes: the key is given twice; remove one"},
      {types + "    fp64: 1 TFLOP/s",
       "c.yaml:4: device_types[0].fp64: unknown key; choose one of name, "
       "fp32, tf32, fp16, bf16, fp8, memory, memory_bandwidth, host"},
      // quantities
      {good + "    fp32: 0 TFLOP/s",
       "c.yaml:3: device_types[0]: no rate above 0; give fp32, tf32, fp16, bf16 or fp8"},
      {good + "    fp32: -1 TFLOP/s",
       "c.yaml:6: device_types[0].fp32: -1 TFLOP/s: must not be negative"},
      {good + "    fp32: .nan",
       "c.yaml:6: device_types[0].fp32: .nan: write a number and a unit, as in "
       "312 TFLOP/s"},
      {good + "    fp32: 2 EFLOP/s",
       "c.yaml:6: device_types[0].fp32: 2 EFLOP/s: must be at most 1 EFLOP/s"},
      {types + "    fp32: 1 TFLOP/s\n    memory_bandwidth: 1 GB/s",
       "c.yaml:3: device_types[0].memory: missing: give one"},
      {types + "    fp32: 1 TFLOP/s\n    memory: 0 GiB",
       "c.yaml:5: device_types[0].memory: 0 GiB: must be above 0"},
      {types + "    fp32: 1 TFLOP/s\n    memory: 80",
       "c.yaml:5: device_types[0].memory: 80: add a unit, as in 80 GiB"},
      {types + "    fp32: 1 TFLOP/s\n    memory: 2 PiB",
       "c.yaml:5: device_types[0].memory: 2 PiB: must be at most 1 PiB"},
      {types + "    fp32: 1 TFLOP/s\n    memory: [1]",
       "c.yaml:5: device_types[0].memory: a list of 1: write a number and a unit, as in 80 GiB"},
      {types + "    fp32: 1 TFLOP/s\n    memory:",
       "c.yaml:5: device_types[0].memory: empty: write a number and a unit, as in 80 GiB"},
      {node + "link: {bandwidth: inf GB/s, latency: 1 us}",
       "c.yaml:2: link.bandwidth: inf GB/s: write a number and a unit, as in 900 GB/s or 400 Gb/s"},
      {node + "link: {bandwidth: 0 GB/s, latency: 1 us}",
       "c.yaml:2: link.bandwidth: 0 GB/s: must be above 0"},
      {node + "link: {bandwidth: 2 PB/s, latency: 1 us}",
       "c.yaml:2: link.bandwidth: 2 PB/s: must be at most 1 PB/s"},
      {node + "link: {bandwidth: 1 gb/s, latency: 1 us}",
       "c.yaml:2: link.bandwidth: 1 gb/s: unknown unit; units are B/s, KB/s, MB/s, GB/s, TB/s, "
       "PB/s, "
       "KiB/s, MiB/s, GiB/s, TiB/s, PiB/s, b/s, Kb/s, Mb/s, Gb/s, Tb/s"},
      {node + "link: {bandwidth: 1 GB/s, latency: -1 us}",
       "c.yaml:2: link.latency: -1 us: must not be negative"},
      {node + "link: {bandwidth: 1 GB/s, latency: 2e3 s}",
       "c.yaml:2: link.latency: 2e3 s: must be at most 60 s"},
      {node + "link: {bandwidth: 1 GB/s}", "c.yaml:2: link.latency: missing: give one"},
      {node + "link: fast", "c.yaml:2: link: fast: must be a map of name, bandwidth, latency"},
      {"nodes: [{device: rtx-4090, uplink: {}}]",
       "c.yaml:1: nodes[0].uplink.bandwidth: missing: give one, as in 200 GB/s"},
      {"nodes: [{device: rtx-4090, uplink: lots}]",
       "c.yaml:1: nodes[0].uplink: lots: write a number and a unit, as in 900 GB/s or 400 Gb/s"},
      // names
      {node + "name: ''", "c.yaml:2: name: '': write a text"},
      {node + "name: \"a\\tb\"",
       "c.yaml:2: name: a b: use letters, digits and punctuation of ASCII"},
      {node + "name: " + std::string(101, 'n'),
       "c.yaml:2: name: " + std::string(60, 'n') + "...: use at most 100 characters"},
      {good + "    fp32: 1 TFLOP/s\n  - name: x\n    memory: 1 GiB\n    memory_bandwidth: 1 GB/s\n"
              "    fp32: 1 TFLOP/s",
       "c.yaml:7: device_types[1].name: x: two device types have that name; choose another name"},
      {"device_types: [{name: tpu-v4, fp32: 1 TFLOP/s, memory: 1 B, memory_bandwidth: 1 B/s}]\n" +
           node,
       "c.yaml:1: device_types[0].name: tpu-v4: a known device of that name is different; choose "
       "another name"},
      {"device_types: [{fp32: 1 TFLOP/s}]\n" + node,
       "c.yaml:1: device_types[0].name: missing: give the device type a name"},
      {"nodes:\n  - {name: a, device: rtx-4090}\n  - {name: a, device: rtx-3090}\nlink: " + link,
       "c.yaml:3: nodes[1].name: a: a different group has that name; choose another name"},
      {"name: a\nnodes: [{name: a, device: rtx-4090}]",
       "c.yaml:1: name: a: a group in the cluster has that name; choose another name"},
      // devices and presets
      {"nodes: [{device: h100}]",
       "c.yaml:1: nodes[0].device: h100: no such device; did you mean "
       "'h100-sxm' or 'h100-96gb-hbm2e'?"},
      {"nodes: [{preset: dgx-h10}]",
       "c.yaml:1: nodes[0].preset: dgx-h10: dgx-h10: no such preset; did you mean 'dgx-h100' or "
       "'dgx-v100' or 'dgx-a100'?"},
      {"nodes: [{preset: dgx-h100:2}]",
       "c.yaml:1: nodes[0].preset: dgx-h100:2: write preset: dgx-h100 and count: 2"},
      {"nodes: [{preset: dgx-h100, devices: 4}]",
       "c.yaml:1: nodes[0].devices: given: the preset defines it; remove it, or describe the node "
       "without a preset"},
      {"link: " + link + "\nnodes:\n  - preset: local:2\n  - preset: local:4",
       "c.yaml:4: nodes[1].preset: local:4: a different group or device type of the cluster has "
       "its name; rename that one"},
      // counts
      {"nodes: [{device: rtx-4090, devices: 0}]", "c.yaml:1: nodes[0].devices: 0: " + whole},
      {"nodes: [{device: rtx-4090, devices: -8}]", "c.yaml:1: nodes[0].devices: -8: " + whole},
      {"nodes: [{device: rtx-4090, devices: 1.5}]", "c.yaml:1: nodes[0].devices: 1.5: " + whole},
      {"nodes: [{device: rtx-4090, count: many}]", "c.yaml:1: nodes[0].count: many: " + whole},
      {"nodes: [{device: rtx-4090, count: 99999999999999999999}]",
       "c.yaml:1: nodes[0].count: 99999999999999999999: " + whole},
      {"nodes: [{preset: dgx-h100, count: 131073}]\nlink: " + link,
       "c.yaml:1: nodes[0]: more than 1048576 devices; reduce the counts"},
      {"link: " + link + "\nnodes:\n  - {preset: dgx-h100, count: 131072}\n  - {preset: rtx4090}",
       "c.yaml:4: nodes[1]: more than 1048576 devices; reduce the counts"},
      // the tree
      {"name: x", "c.yaml:1: cluster: has no nodes; list them under nodes:"},
      {node + "racks: []",
       "c.yaml:1: cluster: has nodes and racks; remove one of them (racks contain nodes)"},
      {"nodes: []",
       "c.yaml:1: nodes: a list of 0: write a list of at least one entry, each beginning with '-'"},
      {"nodes: {device: rtx-4090}",
       "c.yaml:1: nodes: a map of 1: write a list of at least one entry, each beginning with '-'"},
      {"nodes: [{name: a}]", "c.yaml:1: nodes[0]: has no devices; give device: and devices:"},
      {"nodes: [{device: rtx-4090, parts: [{device: rtx-4090}]}]",
       "c.yaml:1: nodes[0]: has a device and parts; remove one of them"},
      {"nodes: [{devices: 2, parts: [{device: rtx-4090}]}]",
       "c.yaml:1: nodes[0].devices: given: remove it, or the parts"},
      {"nodes: [{parts: [{device: rtx-4090, name: a}]}]",
       "c.yaml:1: nodes[0].parts[0].name: given: plain devices have no such field; give devices: "
       "to make them a group"},
      {"nodes:\n  - device: rtx-4090\n    devices: 2",
       "c.yaml:2: nodes[0].link: missing: 2 members are not connected; give the link between them "
       "its "
       "bandwidth and latency"},
      {"nodes: [{preset: dgx-h100, count: 2}]",
       "c.yaml:1: link: missing: 2 members are not connected; give the link between them its "
       "bandwidth "
       "and latency"},
      {node + "topology: star", "c.yaml:2: topology: star: not one of switch, ring, torus, mesh"},
      {node + "topology: torus", "c.yaml:1: dims: missing: give a list such as [4, 4, 4]"},
      {node + "dims: [1]", "c.yaml:2: dims: given: only a torus has dims; remove it"},
      {node + "topology: torus\ndims: [2, 0]", "c.yaml:3: dims[1]: 0: " + whole},
      {node + "topology: torus\ndims: [2, 2]",
       "c.yaml:3: dims: 4 places: there are 1 members; make the product equal"},
      {node + "topology: torus\ndims: [1048576, 1048576, 1048576, 1048576]",
       "c.yaml:3: dims: 9223372036854775807 places: there are 1 members; make the product equal"},
      {node + "topology: torus\ndims: [1, 1, 1, 1, 1, 1, 1]",
       "c.yaml:3: dims: a list of 7: write a list of 1 to 6 numbers, as in [4, 4, 4]"},
      {"device_types: [{name: x, fp32: 1 TFLOP/s, memory: 1 PiB, memory_bandwidth: 1 B/s}]\n"
       "nodes: [{device: x, devices: 1048576, link: " +
           link + "}]",
       "c.yaml:1: cluster: the memory of all devices does not fit 64 bits"},
  };
}

TEST(Yaml, MistakesInFieldsAreNamedWithLineAndRemedy) {
  for (const BadFile& bad : BadFields()) EXPECT_EQ(Refusal(bad.text), bad.message) << bad.text;
}

TEST(Yaml, TextThatIsNoFileOfOursIsRefused) {
  std::string many = "nodes: [1";
  for (int i = 0; i < 100'001; ++i) many += ",1";
  std::string deep;
  for (std::size_t i = 0; i < 1000; ++i) deep += std::string(i, ' ') + "a:\n";
  const std::vector<BadFile> files = {
      {"", "c.yaml:1: the file is empty; see docs/clusters.md for an example"},
      {"# only a comment\n", "c.yaml:1: the file is empty; see docs/clusters.md for an example"},
      {"~",
       "c.yaml:1: cluster: empty: must be a map of name, device_types, topology, dims, link, "
       "nodes, racks"},
      {"hello",
       "c.yaml:1: cluster: hello: must be a map of name, device_types, topology, dims, link, "
       "nodes, racks"},
      {"- a\n- b",
       "c.yaml:1: cluster: a list of 2: must be a map of name, device_types, topology, "
       "dims, link, nodes, racks"},
      {"a: [1, 2", "c.yaml:1: not valid YAML: end of sequence flow not found"},
      {"name: a\n\tlink: b", "c.yaml:2: not valid YAML: illegal tab when looking for indentation"},
      {"name: \"abc", "c.yaml:1: not valid YAML: illegal EOF in scalar"},
      {"name: x\n---\nname: y", "c.yaml:3: a second document begins; keep only one"},
      {"a: &x [1]\nb: *x",
       "c.yaml:2: aliases (*name) are not supported; write the value out, or use "
       "count"},
      {"a: *x", "c.yaml:1: not valid YAML: the referenced anchor is not defined"},
      {"a: !!binary aa", "c.yaml:1: tag:yaml.org,2002:binary: tags are not supported; remove it"},
      {"name: x\n? [a]\n: b", "c.yaml:2: a key is not a plain text; write 'key: value'"},
      {"~: b", "c.yaml:1: a key is not a plain text; write 'key: value'"},
      {std::string("na\0me: x", 8), "c.yaml:1: byte 0x00: not a text file; is it the right file?"},
      {"name: x\n\x1b[31m", "c.yaml:2: byte 0x1b: not a text file; is it the right file?"},
      {std::string(65, '[') + std::string(65, ']'), "c.yaml:1: is nested deeper than 64 levels"},
      {"a: " + std::string(70, '{') + "}",
       "c.yaml:1: a key is not a plain text; write 'key: value'"},
      {deep, "c.yaml:65: is nested deeper than 64 levels"},
      {std::string(1'000'000, '['),
       "c.yaml:1: more than 100000 values; use count for equal groups"},
      {many + "]", "c.yaml:1: more than 100000 values; use count for equal groups"},
      {std::string(kMaxYamlBytes + 1, 'a'),
       "c.yaml:1: 16.0 MiB is larger than the limit of 16.0 MiB; "
       "is it the right file?"},
  };
  for (const BadFile& bad : files) {
    EXPECT_EQ(Refusal(bad.text), bad.message) << bad.text.substr(0, 100);
  }
}

// Nine levels of nine aliases each would be a billion values if they were expanded.
TEST(Yaml, AliasBombsDoNotGoOff) {
  std::string bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n";
  for (char c = 'b'; c <= 'i'; ++c) {
    const std::string before(1, static_cast<char>(c - 1));
    bomb += std::string(1, c) + ": &" + c + " [";
    for (int i = 0; i < 9; ++i) bomb += (i ? ", *" : "*") + before;
    bomb += "]\n";
  }
  EXPECT_EQ(Refusal(bomb),
            "c.yaml:2: aliases (*name) are not supported; write the value out, or use count");
}

TEST(Yaml, GroupsMayNotNestWithoutEnd) {
  std::string text = "nodes: [{name: n, parts: [";
  for (int i = 0; i < 20; ++i) text += "{name: p" + std::to_string(i) + ", parts: [";
  text += "{device: rtx-4090}";
  for (int i = 0; i < 21; ++i) text += "]}";
  EXPECT_EQ(Refusal(text + "]"), "c.yaml:1: cluster: groups are nested deeper than 16");
}

}  // namespace
}  // namespace heddle
