// The files that the tests of the commands read and write.
#pragma once

#include <fstream>
#include <string>

namespace heddle {

inline const std::string kData = HEDDLE_TEST_DATA;
inline const std::string kMlp = kData + "/pytorch/tiny-mlp.onnx";
inline const std::string kGpt = kData + "/pytorch/tiny-gpt2.onnx";

inline void WriteText(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

}  // namespace heddle
