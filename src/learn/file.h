// Files of network weights, and priors made from them.
//
//   SaveNetwork("mine.safetensors", network, {.seed = 1, .made_by = "heddle learn --seed 1 --minutes 40"});
//   std::unique_ptr<Prior> prior = LoadPrior("mine.safetensors");
//
// A file is a safetensors file with every weight by name in f32. Its metadata has the version, the sizes, the numbers
// of features, the seed and the command that made it. A file with another version, other weights, sizes or features, or
// numbers that are not finite is an InputError.
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
  std::string made_by;  // the command that made it
};

void SaveNetwork(const std::string& path, PriorNetwork& network, const NetworkOrigin& origin);

PriorNetwork LoadNetwork(const std::string& path);
// Reads the bytes of such a file; errors call it `name`.
PriorNetwork ParseNetwork(std::string_view bytes, const std::string& name);

// A prior with its own network. Not thread-safe.
std::unique_ptr<Prior> PriorOf(PriorNetwork network);
std::unique_ptr<Prior> LoadPrior(const std::string& path);
// The bundled network (network.safetensors, compiled into this library).
std::unique_ptr<Prior> BundledPrior();

std::string_view BundledNetworkBytes();

}  // namespace heddle
