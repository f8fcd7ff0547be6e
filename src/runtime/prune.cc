#include "runtime/prune.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <mutex>
#include <numeric>

#include "base/error.h"
#include "base/hash.h"
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

// What weights are worth, as numbers of that order. Of magnitudes: the bits of a float that is not negative.
using Keys = std::vector<uint32_t>;

constexpr int64_t kPiece = 1 << 16;  // weights that a thread takes at a time

// Calls `work` on [begin, end) of pieces that make up all elements.
template <typename Work>
void ForPieces(size_t elements, const Work& work) {
  auto all = static_cast<int64_t>(elements);
  at::parallel_for(0, (all + kPiece - 1) / kPiece, 1, [&](int64_t from, int64_t to) {
    for (int64_t piece = from; piece < to; ++piece) {
      work(static_cast<size_t>(piece), static_cast<size_t>(piece * kPiece),
           static_cast<size_t>(std::min(all, (piece + 1) * kPiece)));
    }
  });
}

Keys RandomKeys(const Value& value, uint64_t seed) {
  Keys keys(static_cast<size_t>(ElementCount(value.type.shape)));
  uint64_t key = RandomKey({seed, 0, HashString(value.name)}, 2);  // 0 and 1 are its first weights
  ForPieces(keys.size(), [&](size_t, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i)
      keys[i] = static_cast<uint32_t>(RandomBits(key, static_cast<int64_t>(i)) >> 32);
  });
  return keys;
}

Keys MagnitudeKeys(const Value& value, const WeightSource& weights) {
  constexpr uint32_t kSign = 0x80000000, kInfinity = 0x7F800000;
  at::Tensor tensor = weights(value.name).to(at::kFloat).contiguous();
  const float* from = tensor.data_ptr<float>();
  Keys keys(static_cast<size_t>(tensor.numel()));
  std::atomic<bool> finite = true;
  ForPieces(keys.size(), [&](size_t, size_t begin, size_t end) {
    uint32_t largest = 0;
    for (size_t i = begin; i < end; ++i) {
      keys[i] = std::bit_cast<uint32_t>(from[i]) & ~kSign;
      largest = std::max(largest, keys[i]);
    }
    if (largest >= kInfinity) finite = false;
  });
  if (finite) return keys;
  auto first =
      std::find_if(keys.begin(), keys.end(), [](uint32_t key) { return key >= kInfinity; });
  ThrowInput("'{}': weight {} is not finite", value.name, first - keys.begin());
}

Keys KeysOf(const Value& value, const WeightSource& weights, const PruneOptions& options) {
  return options.random ? RandomKeys(value, options.seed) : MagnitudeKeys(value, weights);
}

// The key of the count-th largest of all, digit by digit: how many keys have each digit, among those that agree with
// what is known.
uint32_t CountThLargest(const std::vector<const Keys*>& all, int64_t count) {
  constexpr size_t kDigits = 1 << 11;
  uint32_t found = 0, known = 0;  // its digits so far, and where they are
  for (int shift : {22, 11, 0}) {
    std::vector<int64_t> have(kDigits, 0);
    std::mutex adding;
    for (const Keys* keys : all) {
      ForPieces(keys->size(), [&](size_t, size_t begin, size_t end) {
        std::array<int64_t, kDigits> here = {};
        for (size_t i = begin; i < end; ++i) {
          uint32_t key = (*keys)[i];
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
  return found;
}

HostTensor KeepLargest(const Value& value, const Keys& keys, int64_t count) {
  uint32_t least = CountThLargest({&keys}, count);
  size_t pieces = (keys.size() + kPiece - 1) / kPiece;
  std::vector<int64_t> ties(pieces, 0), larger(pieces, 0);
  ForPieces(keys.size(), [&](size_t piece, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      larger[piece] += keys[i] > least;
      ties[piece] += keys[i] == least;
    }
  });
  // Of those that are worth the least the first stay.
  int64_t left = count - std::accumulate(larger.begin(), larger.end(), int64_t{0});
  for (int64_t& tied : ties) {
    tied = std::min(tied, left);
    left -= tied;
  }
  HostTensor mask(DType::kBool, value.type.shape);
  ForPieces(keys.size(), [&](size_t piece, size_t begin, size_t end) {
    int64_t tied = ties[piece];
    for (size_t i = begin; i < end; ++i) {
      bool stays = keys[i] > least || (keys[i] == least && tied-- > 0);
      mask.data[i] = std::byte{stays};
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
      int64_t count = KeptOf(static_cast<int64_t>(keys.size()), options.sparsity);
      masks.emplace(value.name, KeepLargest(value, keys, count));
    }
    return masks;
  }
  std::vector<Keys> keys;
  std::vector<const Keys*> all;
  int64_t elements = 0;
  for (ValueId id : chosen) {
    keys.push_back(KeysOf(model.graph.value(id), weights, options));
    elements += static_cast<int64_t>(keys.back().size());
  }
  for (const Keys& of : keys) all.push_back(&of);
  uint32_t least = CountThLargest(all, KeptOf(elements, options.sparsity));
  for (size_t p = 0; p < chosen.size(); ++p) {
    const Value& value = model.graph.value(chosen[p]);
    int64_t count =
        std::count_if(keys[p].begin(), keys[p].end(), [&](uint32_t key) { return key >= least; });
    masks.emplace(value.name, KeepLargest(value, keys[p], std::max<int64_t>(1, count)));
    keys[p] = {};
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
