// VGG (Simonyan and Zisserman, 2014) as torchvision builds it, without batch norms.
#include <fmt/format.h>

#include <map>

#include "base/error.h"
#include "frontend/families/families.h"
#include "frontend/families/model_builder.h"

namespace heddle {
namespace {

constexpr int64_t kPooled = 7;  // the last stage is average-pooled to 7 x 7

// The number of convolutions in each of the five stages; each stage ends in a pool.
const std::map<std::string, std::vector<int64_t>>& VggDepths() {
  static const std::map<std::string, std::vector<int64_t>> depths = {{"11", {1, 1, 2, 2, 2}},
                                                                     {"13", {2, 2, 2, 2, 2}},
                                                                     {"16", {2, 2, 3, 3, 3}},
                                                                     {"19", {2, 2, 4, 4, 4}}};
  return depths;
}

ValueId Features(ModelBuilder& b, const std::vector<int64_t>& stages, ValueId x) {
  auto scope = b.In("features");
  int64_t channels = 64, module = 0;
  for (int64_t convolutions : stages) {
    for (int64_t i = 0; i < convolutions; ++i, module += 2) {
      x = b.Conv(x, channels, {3, 3}, fmt::format("{}", module), {.pads = {1, 1}, .bias = true});
      x = b.Op("Relu", {x});
    }
    x = b.MaxPool(x, 2, 2);
    ++module;
    channels = std::min<int64_t>(2 * channels, 512);
  }
  return x;
}

Graph BuildVgg(const Settings& s, const std::string& name) {
  int64_t batch = s.Int("batch"), image = s.Int("image");
  RequireMultiple("image", image, "224", 32 * kPooled);
  ModelBuilder b(name);
  ValueId pixels = b.Input("pixels", DType::kF32, {batch, 3, image, image});
  ValueId labels = b.Input("labels", DType::kI64, {batch});
  ValueId x = Features(b, VggDepths().at(s.Choice("depth")), pixels);
  int64_t window = b.dim(x, 2) / kPooled;
  x = b.AveragePool(x, window, window);
  x = b.Reshape(x, {batch, 512 * kPooled * kPooled});
  auto scope = b.In("classifier");
  for (std::string_view layer : {"0", "3"}) {
    x = b.Dropout(b.Op("Relu", {b.Linear(x, s.Int("ffn"), layer)}), s.Real("dropout"));
  }
  return b.Finish(b.CrossEntropy(b.Linear(x, s.Int("classes"), "6"), labels));
}

}  // namespace

Family VggFamily() {
  std::vector<std::string> depths;
  for (const auto& [key, value] : VggDepths()) depths.push_back(key);
  return {"vgg",
          "plain convolution network with large dense layers",
          {
              ChoiceKey("depth", "19", depths, "layers with weights"),
              IntKey("ffn", 4096, "width of the dense layers"),
              IntKey("image", 224, "pixels along an image", 1 << 20),
              IntKey("classes", 1000, "classes"),
              IntKey("batch", 32, "images"),
              RealKey("dropout", "0.5", 0, 1, "after the dense layers"),
          },
          BuildVgg};
}

}  // namespace heddle
