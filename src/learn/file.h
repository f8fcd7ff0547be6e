// The network's weights as a file, and a Prior made of one.
//
//   SaveNetwork("mine.safetensors", network, {.seed = 1, .made_by = "heddle learn --seed 1 --minutes 40"});
//   std::unique_ptr<Prior> prior = LoadPrior("mine.safetensors");
//
// A safetensors file: every weight by name in f32, and what it is in the metadata (version, sizes, counts of features,
// seed, the command that made it). A file of another version, with other weights, sizes or features, or with numbers
// that are not finite is refused with an InputError.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "search/placement/prior.h"

namespace heddle {

class PriorNetwork;

constexpr int kNetworkVersion = 1;

struct NetworkOrigin {
  uint64_t seed = 0;
  std::string made_by;  // the command line
};

void SaveNetwork(const std::string& path, PriorNetwork& network, const NetworkOrigin& origin);

PriorNetwork LoadNetwork(const std::string& path);
// From the bytes of such a file; `name` stands for it in errors.
PriorNetwork ParseNetwork(std::string_view bytes, const std::string& name);

// With a network of its own. One thread at a time.
std::unique_ptr<Prior> PriorOf(PriorNetwork network);
std::unique_ptr<Prior> LoadPrior(const std::string& path);
// The network that comes with heddle (network.safetensors, compiled in).
std::unique_ptr<Prior> BundledPrior();

std::string_view BundledNetworkBytes();

}  // namespace heddle
