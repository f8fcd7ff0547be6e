#include "runtime/prune.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <memory>
#include <mutex>
#include <span>

#include "base/error.h"
#include "base/hash.h"
#include "runtime/kernel_threads.h"
#include "runtime/kernels/random.h"

namespace heddle {
namespace {

std::vector<ValueId> Chosen(const Model& model, const PruneOptions& options) {
  std::vector<ValueId> chosen;
  for (ValueId id : model.graph.ValuesOf(ValueKind::kParameter)) {
    bool dense = options.dense.contains(model.graph.value(id).name);
    if (!dense && IsPrunable(model, id)) chosen.push_back(id);
  }
  if (chosen.empty()) ThrowInput("nothing to prune: no matrix that is trained is left");
  return chosen;
}

// Integers in the order of the magnitudes of weights: the bits of a float that is not negative.
struct Keys {
  explicit Keys(int64_t elements)
      : size(static_cast<size_t>(elements)), at(std::make_unique_for_overwrite<uint32_t[]>(size)) {}

  size_t size;
  std::unique_ptr<uint32_t[]> at;
};

constexpr size_t kPiece = 1 << 16;  // weights per piece of work of a thread

// Calls work(piece, begin, end) on pieces that make up all elements.
template <typename Work>
void ForPieces(size_t elements, const Work& work) {
  ForEachInThreads(static_cast<int64_t>((elements + kPiece - 1) / kPiece), [&](int64_t at) {
    auto piece = static_cast<size_t>(at);
    work(piece, piece * kPiece, std::min(elements, (piece + 1) * kPiece));
  });
}

Keys RandomKeys(const Value& value, uint64_t seed) {
  Keys keys(ElementCount(value.type.shape));
  uint64_t key = RandomKey({seed, 0, HashString(value.name)}, 2);  // 0 and 1 are its first weights
  ForPieces(keys.size, [&](size_t, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i)
      keys.at[i] = static_cast<uint32_t>(RandomBits(key, static_cast<int64_t>(i)) >> 32);
  });
  return keys;
}

Keys MagnitudeKeys(const Value& value, const WeightSource& weights) {
  constexpr uint32_t kSign = 0x80000000, kInfinity = 0x7F800000;
  at::Tensor tensor = weights(value.name).to(at::kFloat).contiguous();
  const float* from = tensor.data_ptr<float>();
  Keys keys(tensor.numel());
  std::atomic<bool> finite = true;
  ForPieces(keys.size, [&](size_t, size_t begin, size_t end) {
    uint32_t largest = 0;
    for (size_t i = begin; i < end; ++i) {
      keys.at[i] = std::bit_cast<uint32_t>(from[i]) & ~kSign;
      largest = std::max(largest, keys.at[i]);
    }
    if (largest >= kInfinity) finite = false;
  });
  for (size_t i = 0; !finite; ++i) {
    if (keys.at[i] >= kInfinity) ThrowInput("'{}': weight {} is not finite", value.name, i);
  }
  return keys;
}

Keys KeysOf(const Value& value, const WeightSource& weights, const PruneOptions& options) {
  return options.random ? RandomKeys(value, options.seed) : MagnitudeKeys(value, weights);
}

struct Least {
  uint32_t key = 0;
  int64_t ties = 0;  // how many weights with this key are among the largest
};

// The least of the `count` largest keys, found digit by digit from the highest: counts the keys with each digit, among
// those that have the digits found so far.
Least LeastOfLargest(std::span<const Keys> all, int64_t count) {
  constexpr size_t kDigits = 1 << 11;
  uint32_t found = 0, known = 0;  // the digits found so far, and a mask of their bits
  for (int shift : {22, 11, 0}) {
    std::vector<int64_t> have(kDigits, 0);
    std::mutex adding;
    for (const Keys& keys : all) {
      ForPieces(keys.size, [&](size_t, size_t begin, size_t end) {
        std::array<int32_t, kDigits> here = {};
        for (size_t i = begin; i < end; ++i) {
          uint32_t key = keys.at[i];
          if ((key & known) == found) ++here[key >> shift & (kDigits - 1)];
        }
        std::lock_guard lock(adding);
        for (size_t d = 0; d < kDigits; ++d) have[d] += here[d];
      });
    }
    size_t digit = kDigits - 1;
    for (; have[digit] < count; --digit) count -= have[digit];
    found |= static_cast<uint32_t>(digit) << shift;
    known |= static_cast<uint32_t>(kDigits - 1) << shift;
  }
  return {found, count};
}

HostTensor KeepLargest(const Value& value, const Keys& keys, int64_t count) {
  Least least = LeastOfLargest({&keys, 1}, count);
  std::vector<int64_t> ties((keys.size + kPiece - 1) / kPiece, 0);
  ForPieces(keys.size, [&](size_t piece, size_t begin, size_t end) {
    ties[piece] = std::count(&keys.at[begin], &keys.at[end], least.key);
  });
  for (int64_t& tied : ties) {  // the first stay
    tied = std::min(tied, least.ties);
    least.ties -= tied;
  }
  HostTensor mask(DType::kBool, value.type.shape);
  ForPieces(keys.size, [&](size_t piece, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) mask.data[i] = std::byte{keys.at[i] > least.key};
    for (size_t i = begin; ties[piece] > 0; ++i) {
      if (keys.at[i] != least.key) continue;
      mask.data[i] = std::byte{1};
      --ties[piece];
    }
  });
  return mask;
}

}  // namespace

std::map<std::string, HostTensor> MakeMasks(const Model& model, const WeightSource& weights,
                                            const PruneOptions& options) {
  if (!(options.sparsity >= 0 && options.sparsity < 1)) {
    ThrowInput("--sparsity {}: give the share of weights to prune, from 0 to below 1",
               options.sparsity);
  }
  std::vector<ValueId> chosen = Chosen(model, options);
  std::map<std::string, HostTensor> masks;
  if (!options.global) {
    for (ValueId id : chosen) {
      const Value& value = model.graph.value(id);
      Keys keys = KeysOf(value, weights, options);
      int64_t count = KeptOf(static_cast<int64_t>(keys.size), options.sparsity);
      masks.emplace(value.name, KeepLargest(value, keys, count));
    }
    return masks;
  }
  std::vector<Keys> all;
  int64_t elements = 0;
  for (ValueId id : chosen) {
    all.push_back(KeysOf(model.graph.value(id), weights, options));
    elements += static_cast<int64_t>(all.back().size);
  }
  uint32_t least = LeastOfLargest(all, KeptOf(elements, options.sparsity)).key;
  for (size_t p = 0; p < chosen.size(); ++p) {
    const Value& value = model.graph.value(chosen[p]);
    const Keys& keys = all[p];
    auto count = std::count_if(&keys.at[0], &keys.at[0] + keys.size,
                               [&](uint32_t key) { return key >= least; });
    masks.emplace(value.name, KeepLargest(value, keys, std::max<int64_t>(1, count)));
    all[p] = Keys(0);
  }
  return masks;
}

double MaskDistance(const std::map<std::string, HostTensor>& a,
                    const std::map<std::string, HostTensor>& b) {
  double all = 0;
  std::atomic<int64_t> differ = 0;
  for (const auto& [name, mask] : a) {
    const HostTensor& other = b.at(name);
    all += static_cast<double>(mask.data.size());
    ForPieces(mask.data.size(), [&](size_t, size_t begin, size_t end) {
      int64_t here = 0;
      for (size_t i = begin; i < end; ++i) here += mask.data[i] != other.data[i];
      differ += here;
    });
  }
  return all > 0 ? static_cast<double>(differ) / all : 0;
}

}  // namespace heddle
