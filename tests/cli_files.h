// Files for tests of commands.
#pragma once

#include <fstream>
#include <string>

namespace heddle {

inline const std::string kData = HEDDLE_TEST_DATA;
inline const std::string kMlp = kData + "/pytorch/tiny-mlp.onnx";
inline const std::string kGpt = kData + "/pytorch/tiny-gpt2.onnx";

// A cluster of two devices that no preset has, so that searches do not consider larger clusters of the same kind.
inline const std::string kTwoDevices =
    "device_types:\n"
    "  - {name: mine, fp32: 90 GFLOP/s, memory: 4 GiB, memory_bandwidth: 9 GB/s}\n"
    "nodes:\n"
    "  - {device: mine, devices: 2, link: {bandwidth: 9 GB/s, latency: 1 us}}\n";

inline void WriteText(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

}  // namespace heddle
