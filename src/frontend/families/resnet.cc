// Residual networks (He et al., 2015) as torchvision builds them, and wide ones (Zagoruyko and Komodakis, 2016), whose
// bottlenecks are wider by the factor `width`.
#include <fmt/format.h>

#include <map>

#include "frontend/families/families.h"
#include "frontend/families/model_builder.h"

namespace heddle {
namespace {

constexpr double kResnetEpsilon = 1e-5;

struct ResnetConfig {
  int64_t batch, image, classes, channels, width;
  std::string depth;
};

struct Depth {
  std::vector<int64_t> blocks;  // number of blocks in each of the four stages
  bool bottleneck;
};

const std::map<std::string, Depth>& ResnetDepths() {
  static const std::map<std::string, Depth> depths = {
      {"18", {{2, 2, 2, 2}, false}},  {"34", {{3, 4, 6, 3}, false}},  {"50", {{3, 4, 6, 3}, true}},
      {"101", {{3, 4, 23, 3}, true}}, {"152", {{3, 8, 36, 3}, true}},
  };
  return depths;
}

ValueId ConvNorm(ModelBuilder& b, ValueId x, int64_t out, int64_t kernel, int64_t stride,
                 std::string_view conv, std::string_view norm) {
  int64_t pad = kernel / 2;
  return b.BatchNorm(b.Conv(x, out, {kernel, kernel}, conv, {.stride = stride, .pads = {pad, pad}}),
                     norm, kResnetEpsilon);
}

ValueId Block(ModelBuilder& b, ValueId x, int64_t inner, int64_t out, int64_t stride,
              bool bottleneck) {
  ValueId y = bottleneck ? ConvNorm(b, x, inner, 1, 1, "conv1", "bn1")
                         : ConvNorm(b, x, inner, 3, stride, "conv1", "bn1");
  y = b.Op("Relu", {y});
  if (bottleneck) {
    y = b.Op("Relu", {ConvNorm(b, y, inner, 3, stride, "conv2", "bn2")});
    y = ConvNorm(b, y, out, 1, 1, "conv3", "bn3");
  } else {
    y = ConvNorm(b, y, out, 3, 1, "conv2", "bn2");
  }
  bool fits = stride == 1 && b.dim(x, 1) == out;
  ValueId past = fits ? x : ConvNorm(b, x, out, 1, stride, "downsample.0", "downsample.1");
  return b.Op("Relu", {b.Add(y, past)});
}

Graph BuildResnet(const Settings& s, const std::string& name) {
  ResnetConfig c{s.Int("batch"),    s.Int("image"), s.Int("classes"),
                 s.Int("channels"), s.Int("width"), s.Choice("depth")};
  const Depth& depth = ResnetDepths().at(c.depth);
  ModelBuilder b(name);
  ValueId pixels = b.Input("pixels", DType::kF32, {c.batch, 3, c.image, c.image});
  ValueId labels = b.Input("labels", DType::kI64, {c.batch});
  ValueId x = b.Op("Relu", {ConvNorm(b, pixels, c.channels, 7, 2, "conv1", "bn1")});
  x = b.MaxPool(x, 3, 2, 1);
  int64_t planes = c.channels;
  for (size_t stage = 0; stage < 4; ++stage, planes *= 2) {
    for (int64_t block = 0; block < depth.blocks[stage]; ++block) {
      auto scope = b.In(fmt::format("layer{}.{}", stage + 1, block));
      int64_t stride = block == 0 && stage > 0 ? 2 : 1;
      int64_t inner = depth.bottleneck ? planes * c.width : planes;
      x = Block(b, x, inner, depth.bottleneck ? 4 * planes : planes, stride, depth.bottleneck);
    }
  }
  x = b.Op("ReduceMean", {x}, {{"axes", std::vector<int64_t>{2, 3}}, {"keepdims", int64_t{1}}});
  x = b.Reshape(x, {c.batch, b.dim(x, 1)});
  return b.Finish(b.CrossEntropy(b.Linear(x, c.classes, "fc"), labels));
}

Family Make(std::string name, std::string about, std::string depth, int64_t width) {
  std::vector<std::string> depths;
  for (const auto& [key, value] : ResnetDepths()) depths.push_back(key);
  return {std::move(name),
          std::move(about),
          {
              ChoiceKey("depth", std::move(depth), depths,
                        "layers; from 50 on, blocks are bottlenecks"),
              IntKey("width", width, "factor on the inner width of bottlenecks", 1024),
              IntKey("channels", 64, "of the first stage", 1 << 20),
              IntKey("image", 224, "pixels along an image", 1 << 20),
              IntKey("classes", 1000, "classes"),
              IntKey("batch", 32, "images"),
          },
          BuildResnet};
}

}  // namespace

Family ResnetFamily() { return Make("resnet", "residual convolution network", "50", 1); }

Family WideResnetFamily() {
  return Make("wide-resnet", "residual network with wide bottlenecks", "101", 2);
}

}  // namespace heddle
