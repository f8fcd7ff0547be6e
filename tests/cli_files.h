// The files that the tests of the commands read and write.
#pragma once

#include <fstream>
#include <string>

namespace heddle {

inline const std::string kData = HEDDLE_TEST_DATA;
inline const std::string kMlp = kData + "/pytorch/tiny-mlp.onnx";
inline const std::string kGpt = kData + "/pytorch/tiny-gpt2.onnx";

// Two devices that no preset has: nothing is looked for on larger clusters of the kind.
inline const std::string kTwoDevices =
    "device_types:\n"
    "  - {name: mine, fp32: 90 GFLOP/s, memory: 4 GiB, memory_bandwidth: 9 GB/s}\n"
    "nodes:\n"
    "  - {device: mine, devices: 2, link: {bandwidth: 9 GB/s, latency: 1 us}}\n";

inline void WriteText(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

}  // namespace heddle
