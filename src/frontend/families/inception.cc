// Inception v3 (Szegedy et al., 2015) as torchvision builds it, without the auxiliary classifier.
#include "frontend/families/families.h"
#include "frontend/families/model_builder.h"

namespace heddle {
namespace {

// A branch is a chain of convolutions, each followed by a batch norm and a ReLU.
class Inception {
 public:
  explicit Inception(ModelBuilder& b) : b_(b) {}

  struct Window {
    int64_t height, width;
    int64_t stride = 1;
    bool padded = true;
  };

  ValueId Conv(ValueId x, std::string_view name, int64_t out, Window w) {
    auto scope = b_.In(name);
    std::vector<int64_t> pads = {0, 0};
    if (w.padded) pads = {w.height / 2, w.width / 2};
    ValueId y = b_.Conv(x, out, {w.height, w.width}, "conv", {.stride = w.stride, .pads = pads});
    return b_.Op("Relu", {b_.BatchNorm(y, "bn", 1e-3)});
  }

  ValueId Pooled(ValueId x, int64_t out) {
    return Conv(b_.AveragePool(x, 3, 1, 1), "branch_pool", out, {1, 1});
  }

  ValueId Stem(ValueId x) {
    x = Conv(x, "Conv2d_1a_3x3", 32, {3, 3, 2, false});
    x = Conv(x, "Conv2d_2a_3x3", 32, {3, 3, 1, false});
    x = b_.MaxPool(Conv(x, "Conv2d_2b_3x3", 64, {3, 3}), 3, 2);
    x = Conv(x, "Conv2d_3b_1x1", 80, {1, 1});
    return b_.MaxPool(Conv(x, "Conv2d_4a_3x3", 192, {3, 3, 1, false}), 3, 2);
  }

  ValueId MixedA(ValueId x, std::string_view name, int64_t pool) {
    auto scope = b_.In(name);
    ValueId one = Conv(x, "branch1x1", 64, {1, 1});
    ValueId five = Conv(Conv(x, "branch5x5_1", 48, {1, 1}), "branch5x5_2", 64, {5, 5});
    ValueId three = Conv(Conv(x, "branch3x3dbl_1", 64, {1, 1}), "branch3x3dbl_2", 96, {3, 3});
    three = Conv(three, "branch3x3dbl_3", 96, {3, 3});
    return b_.Concat({one, five, three, Pooled(x, pool)}, 1);
  }

  ValueId ShrinkB(ValueId x, std::string_view name) {
    auto scope = b_.In(name);
    ValueId one = Conv(x, "branch3x3", 384, {3, 3, 2, false});
    ValueId two = Conv(Conv(x, "branch3x3dbl_1", 64, {1, 1}), "branch3x3dbl_2", 96, {3, 3});
    two = Conv(two, "branch3x3dbl_3", 96, {3, 3, 2, false});
    return b_.Concat({one, two, b_.MaxPool(x, 3, 2)}, 1);
  }

  ValueId MixedC(ValueId x, std::string_view name, int64_t inner) {
    auto scope = b_.In(name);
    ValueId one = Conv(x, "branch1x1", 192, {1, 1});
    ValueId seven = Conv(x, "branch7x7_1", inner, {1, 1});
    seven = Conv(Conv(seven, "branch7x7_2", inner, {1, 7}), "branch7x7_3", 192, {7, 1});
    ValueId twice = Conv(x, "branch7x7dbl_1", inner, {1, 1});
    twice = Conv(Conv(twice, "branch7x7dbl_2", inner, {7, 1}), "branch7x7dbl_3", inner, {1, 7});
    twice = Conv(Conv(twice, "branch7x7dbl_4", inner, {7, 1}), "branch7x7dbl_5", 192, {1, 7});
    return b_.Concat({one, seven, twice, Pooled(x, 192)}, 1);
  }

  ValueId ShrinkD(ValueId x, std::string_view name) {
    auto scope = b_.In(name);
    ValueId three = Conv(Conv(x, "branch3x3_1", 192, {1, 1}), "branch3x3_2", 320, {3, 3, 2, false});
    ValueId seven = Conv(Conv(x, "branch7x7x3_1", 192, {1, 1}), "branch7x7x3_2", 192, {1, 7});
    seven = Conv(Conv(seven, "branch7x7x3_3", 192, {7, 1}), "branch7x7x3_4", 192, {3, 3, 2, false});
    return b_.Concat({three, seven, b_.MaxPool(x, 3, 2)}, 1);
  }

  ValueId MixedE(ValueId x, std::string_view name) {
    auto scope = b_.In(name);
    ValueId one = Conv(x, "branch1x1", 320, {1, 1});
    ValueId three = Conv(x, "branch3x3_1", 384, {1, 1});
    three = b_.Concat(
        {Conv(three, "branch3x3_2a", 384, {1, 3}), Conv(three, "branch3x3_2b", 384, {3, 1})}, 1);
    ValueId twice = Conv(Conv(x, "branch3x3dbl_1", 448, {1, 1}), "branch3x3dbl_2", 384, {3, 3});
    twice = b_.Concat(
        {Conv(twice, "branch3x3dbl_3a", 384, {1, 3}), Conv(twice, "branch3x3dbl_3b", 384, {3, 1})},
        1);
    return b_.Concat({one, three, twice, Pooled(x, 192)}, 1);
  }

 private:
  ModelBuilder& b_;
};

Graph BuildInception(const Settings& s, const std::string& name) {
  int64_t batch = s.Int("batch"), image = s.Int("image");
  ModelBuilder b(name);
  ValueId pixels = b.Input("pixels", DType::kF32, {batch, 3, image, image});
  ValueId labels = b.Input("labels", DType::kI64, {batch});
  Inception net(b);
  ValueId x = net.Stem(pixels);
  x = net.MixedA(x, "Mixed_5b", 32);
  x = net.MixedA(x, "Mixed_5c", 64);
  x = net.MixedA(x, "Mixed_5d", 64);
  x = net.ShrinkB(x, "Mixed_6a");
  x = net.MixedC(x, "Mixed_6b", 128);
  x = net.MixedC(x, "Mixed_6c", 160);
  x = net.MixedC(x, "Mixed_6d", 160);
  x = net.MixedC(x, "Mixed_6e", 192);
  x = net.ShrinkD(x, "Mixed_7a");
  x = net.MixedE(x, "Mixed_7b");
  x = net.MixedE(x, "Mixed_7c");
  x = b.Op("ReduceMean", {x}, {{"axes", std::vector<int64_t>{2, 3}}, {"keepdims", int64_t{1}}});
  x = b.Reshape(b.Dropout(x, s.Real("dropout")), {batch, b.dim(x, 1)});
  return b.Finish(b.CrossEntropy(b.Linear(x, s.Int("classes"), "fc"), labels));
}

}  // namespace

Family InceptionFamily() {
  return {"inception",
          "Inception v3",
          {
              IntKey("image", 299, "pixels along an image", 1 << 20),
              IntKey("classes", 1000, "classes"),
              IntKey("batch", 32, "images"),
              RealKey("dropout", "0.5", 0, 1, "before the classifier"),
          },
          BuildInception};
}

}  // namespace heddle
