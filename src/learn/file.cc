#include "learn/file.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include <span>

#include "base/error.h"
#include "base/file.h"
#include "graph/safetensors.h"
#include "learn/network.h"

namespace heddle {
namespace {

constexpr int64_t kMostHidden = 1024, kMostLayers = 16;
constexpr size_t kMostBytes = size_t{1} << 28;

std::string FeatureCounts() {
  return fmt::format("{},{},{},{},{},{}", Features::kUnit, Features::kGroup, Features::kFlow,
                     Features::kLink, Features::kPlace, Features::kAction);
}

// Reads and checks the metadata of a file before its weights are read.
class Metadata {
 public:
  Metadata(const SafetensorsHeader& header, const std::string& name)
      : header_(header), name_(name) {}

  const std::string& Text(const char* key) const {
    auto found = header_.metadata.find(key);
    if (found == header_.metadata.end()) {
      ThrowInput("{}: this is not a network of 'heddle learn': its metadata has no '{}'", name_,
                 key);
    }
    return found->second;
  }

  int64_t Number(const char* key, int64_t most) const {
    const std::string& text = Text(key);
    int64_t number = 0;
    auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (failed != std::errc() || end != text.data() + text.size() || number < 1 || number > most) {
      ThrowInput("{}: metadata '{}' is '{}': expected 1 to {}", name_, key, text, most);
    }
    return number;
  }

 private:
  const SafetensorsHeader& header_;
  const std::string& name_;
};

void Fill(const std::string& file, const SafetensorsHeader& header,
          std::span<const std::byte> bytes, const std::string& name, at::Tensor& weight) {
  const SafetensorsEntry* entry = nullptr;
  for (const SafetensorsEntry& each : header.tensors) {
    if (each.name == name) entry = &each;
  }
  if (entry == nullptr) ThrowInput("{}: weight '{}' is missing", file, name);
  TensorType wanted{DType::kF32, weight.sizes().vec()};
  if (!(entry->type == wanted)) {
    ThrowInput("{}: weight '{}' is {}, expected {}", file, name, ToString(entry->type),
               ToString(wanted));
  }
  auto begin = static_cast<size_t>(header.data_begin + entry->begin);
  std::memcpy(weight.data_ptr<float>(), bytes.data() + begin,
              static_cast<size_t>(entry->end - entry->begin));
  if (!at::isfinite(weight).all().item<bool>()) {
    ThrowInput("{}: weight '{}' has a number that is not finite", file, name);
  }
}

PriorNetwork Parse(std::span<const std::byte> bytes, const std::string& name) {
  SafetensorsHeader header = ParseSafetensors(bytes, name);
  Metadata metadata(header, name);
  if (metadata.Text("format") != "heddle-prior") {
    ThrowInput("{}: format: '{}': expected 'heddle-prior', as 'heddle learn' writes it", name,
               metadata.Text("format"));
  }
  if (metadata.Text("version") != std::to_string(kNetworkVersion)) {
    ThrowInput(
        "{}: version: '{}': this heddle only reads version {}: make a new file with 'heddle learn'",
        name, metadata.Text("version"), kNetworkVersion);
  }
  if (metadata.Text("features") != FeatureCounts()) {
    ThrowInput(
        "{}: made for features {}, but this heddle has {}: make a new file with 'heddle learn'",
        name, metadata.Text("features"), FeatureCounts());
  }
  NetworkSizes sizes{metadata.Number("hidden", kMostHidden), metadata.Number("heads", kMostHidden),
                     metadata.Number("layers", kMostLayers)};
  if (sizes.hidden % sizes.heads != 0) {
    ThrowInput("{}: {} heads do not divide {} hidden", name, sizes.heads, sizes.hidden);
  }
  PriorNetwork network(sizes, 0);
  size_t count = 0;
  network.Visit([&](const std::string& weight, at::Tensor& at) {
    Fill(name, header, bytes, weight, at);
    ++count;
  });
  if (header.tensors.size() != count) {
    ThrowInput("{}: {} weights, expected {}", name, header.tensors.size(), count);
  }
  return network;
}

class OfNetwork : public Prior {
 public:
  explicit OfNetwork(PriorNetwork network) : network_(std::move(network)) {}

  std::vector<std::vector<double>> Of(const PlacementGraph& graph,
                                      const std::vector<PrefixState>& states) override {
    return PriorsOf(network_, graph, states);
  }

 private:
  PriorNetwork network_;
};

}  // namespace

void SaveNetwork(const std::string& path, PriorNetwork& network, const NetworkOrigin& origin) {
  std::map<std::string, HostTensor> tensors;
  network.Visit([&](const std::string& name, at::Tensor& weight) {
    at::Tensor plain = weight.detach().contiguous();
    HostTensor tensor(DType::kF32, plain.sizes().vec());
    std::memcpy(tensor.data.data(), plain.data_ptr<float>(), tensor.data.size());
    tensors.emplace(name, std::move(tensor));
  });
  std::vector<NamedTensor> named;
  for (const auto& [name, tensor] : tensors) named.push_back({name, &tensor});
  const NetworkSizes& sizes = network.sizes();
  WriteSafetensors(path, named,
                   {{"format", "heddle-prior"},
                    {"version", std::to_string(kNetworkVersion)},
                    {"features", FeatureCounts()},
                    {"hidden", std::to_string(sizes.hidden)},
                    {"heads", std::to_string(sizes.heads)},
                    {"layers", std::to_string(sizes.layers)},
                    {"seed", std::to_string(origin.seed)},
                    {"made_by", origin.made_by}});
}

PriorNetwork LoadNetwork(const std::string& path) {
  return ParseNetwork(ReadFile(path, kMostBytes), path);
}

PriorNetwork ParseNetwork(std::string_view bytes, const std::string& name) {
  return Parse(std::as_bytes(std::span(bytes.data(), bytes.size())), name);
}

std::unique_ptr<Prior> PriorOf(PriorNetwork network) {
  return std::make_unique<OfNetwork>(std::move(network));
}

std::unique_ptr<Prior> LoadPrior(const std::string& path) { return PriorOf(LoadNetwork(path)); }

std::unique_ptr<Prior> BundledPrior() {
  return PriorOf(ParseNetwork(BundledNetworkBytes(), "the bundled network"));
}

}  // namespace heddle
