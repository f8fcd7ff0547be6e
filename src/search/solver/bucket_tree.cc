#include "search/solver/bucket_tree.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

namespace heddle {

BucketTree::BucketTree(const Problem& problem, const Weights& weights, double multiplier,
                       Limits limits)
    : problem_(problem) {
  Weigh(weights, multiplier);
  Order();
  made_ = Up(limits);
}

// Pairs that share a table share its weighted form; equal unaries become one table.
void BucketTree::Weigh(Weights weights, double multiplier) {
  weights.bytes = 0;
  Weights lagrangian = weights;
  lagrangian.bytes = multiplier;
  std::map<Table, TableRef> unaries;
  for (const UnaryRef& unary : problem_.unary) {
    TableRef table = Weighted(*unary, lagrangian);
    unary_.push_back(unaries.try_emplace(*table, table).first->second);
  }
  std::map<std::pair<const Table*, const Table*>, TableRef> pairs;
  for (const PairCost& pair : problem_.pairs) {
    TableRef& table = pairs[{pair.seconds.get(), pair.queued.get()}];
    if (!table) table = Weighted(pair, weights);
    pairs_.push_back(table);
  }
}

// Orders variables as elimination does: the one that makes the smallest table comes next.
void BucketTree::Order() {
  size_t n = problem_.unary.size();
  std::vector<std::set<int>> around(n);
  for (const PairCost& pair : problem_.pairs) {
    around[static_cast<size_t>(pair.a)].insert(pair.b);
    around[static_cast<size_t>(pair.b)].insert(pair.a);
  }
  auto size = [&](int v) {
    double entries = 1;
    for (int u : around[static_cast<size_t>(v)]) entries *= static_cast<double>(domain(u));
    return entries;
  };
  std::set<std::pair<double, int>> queue;
  std::vector<double> sizes;
  for (size_t v = 0; v < n; ++v) {
    sizes.push_back(size(static_cast<int>(v)));
    queue.insert({sizes[v], static_cast<int>(v)});
  }
  bucket_of_.assign(n, -1);
  while (!queue.empty()) {
    int v = queue.begin()->second;
    queue.erase(queue.begin());
    std::set<int>& scope = around[static_cast<size_t>(v)];
    bucket_of_[static_cast<size_t>(v)] = static_cast<int>(buckets_.size());
    buckets_.emplace_back();
    buckets_.back().variable = v;
    buckets_.back().scope = {scope.begin(), scope.end()};
    for (int u : scope) {
      std::set<int>& others = around[static_cast<size_t>(u)];
      others.insert(scope.begin(), scope.end());
      others.erase(u);
      others.erase(v);
    }
    for (int u : scope) {
      double& at = sizes[static_cast<size_t>(u)];
      queue.erase({at, u});
      at = size(u);
      queue.insert({at, u});
    }
  }
}

size_t BucketTree::Entries(const Bucket& bucket) const {
  size_t entries = 1;
  for (int u : bucket.scope) entries *= domain(u);
  return entries;
}

BucketTree::Addend BucketTree::AddendOf(const Bucket& bucket, const Table* table,
                                        const std::vector<int>& scope) const {
  Addend part;
  part.table = table;
  part.strides.assign(bucket.scope.size(), 0);
  size_t stride = 1;
  for (size_t i = scope.size(); i-- > 0;) {
    if (scope[i] == bucket.variable) {
      part.own = stride;
    } else {
      auto at = std::lower_bound(bucket.scope.begin(), bucket.scope.end(), scope[i]);
      part.strides[static_cast<size_t>(at - bucket.scope.begin())] = stride;
    }
    stride *= domain(scope[i]);
  }
  return part;
}

// The bucket of the variable that is eliminated first.
size_t BucketTree::FirstOf(const std::vector<int>& variables) const {
  int first = bucket_of_[static_cast<size_t>(variables[0])];
  for (int v : variables) first = std::min(first, bucket_of_[static_cast<size_t>(v)]);
  return static_cast<size_t>(first);
}

// Makes the messages. Buckets that add up the same tables in the same way share one. False: too large.
bool BucketTree::Up(const Limits& limits) {
  for (size_t p = 0; p < pairs_.size(); ++p) {
    std::vector<int> scope = {problem_.pairs[p].a, problem_.pairs[p].b};
    Bucket& bucket = buckets_[FirstOf(scope)];
    bucket.parts.push_back(AddendOf(bucket, pairs_[p].get(), scope));
  }
  std::map<std::vector<uintptr_t>, TableRef> made;
  int64_t entries = 0;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    Bucket& bucket = buckets_[i];
    std::vector<uintptr_t> key = {
        reinterpret_cast<uintptr_t>(unary_[static_cast<size_t>(bucket.variable)].get())};
    double size = static_cast<double>(domain(bucket.variable));
    for (int u : bucket.scope) {
      key.push_back(domain(u));
      size *= static_cast<double>(domain(u));
    }
    for (const Addend& part : bucket.parts) {
      key.push_back(reinterpret_cast<uintptr_t>(part.table));
      key.push_back(part.own);
      key.insert(key.end(), part.strides.begin(), part.strides.end());
    }
    TableRef& message = made[std::move(key)];
    if (!message) {
      if (size > static_cast<double>(limits.max_entries - entries)) return false;
      if (limits.stop && limits.stop()) return false;
      entries += static_cast<int64_t>(size);
      message = MessageOf(bucket);
    }
    bucket.message = message;
    if (bucket.scope.empty()) continue;
    Bucket& parent = buckets_[FirstOf(bucket.scope)];
    parent.parts.push_back(AddendOf(parent, bucket.message.get(), bucket.scope));
    parent.parts.back().child = static_cast<int>(i);
  }
  return true;
}

TableRef BucketTree::MessageOf(const Bucket& bucket) const {
  const Table& own = *unary_[static_cast<size_t>(bucket.variable)];
  size_t entries = Entries(bucket), parts = bucket.parts.size();
  auto message = std::make_shared<Table>();
  message->reserve(entries);
  std::vector<size_t> at(bucket.scope.size(), 0), offsets(parts, 0);
  std::vector<double> sums(own.size());
  for (size_t s = 0; s < entries; ++s) {
    std::copy(own.begin(), own.end(), sums.begin());
    for (size_t p = 0; p < parts; ++p) {
      const double* row = bucket.parts[p].table->data() + offsets[p];
      size_t stride = bucket.parts[p].own;
      for (size_t x = 0; x < sums.size(); ++x) sums[x] += row[x * stride];
    }
    message->push_back(*std::min_element(sums.begin(), sums.end()));
    for (size_t d = at.size(); d-- > 0;) {
      size_t size = domain(bucket.scope[d]);
      bool carry = ++at[d] == size;
      for (size_t p = 0; p < parts; ++p) {
        size_t stride = bucket.parts[p].strides[d];
        offsets[p] = carry ? offsets[p] - stride * (size - 1) : offsets[p] + stride;
      }
      if (!carry) break;
      at[d] = 0;
    }
  }
  return message;
}

std::vector<size_t> BucketTree::OffsetsOf(const Bucket& bucket, size_t entry) const {
  std::vector<size_t> offsets(bucket.parts.size(), 0);
  for (size_t d = bucket.scope.size(); d-- > 0;) {
    size_t size = domain(bucket.scope[d]), digit = entry % size;
    entry /= size;
    for (size_t p = 0; p < offsets.size(); ++p) {
      offsets[p] += digit * bucket.parts[p].strides[d];
    }
  }
  return offsets;
}

double BucketTree::Down(double cut) {
  double least = 0;
  for (const Bucket& bucket : buckets_) {
    if (bucket.scope.empty()) least += (*bucket.message)[0];
  }
  for (size_t i = buckets_.size(); i-- > 0;) {
    Bucket& bucket = buckets_[i];
    // Until here `around` has the least Lagrangian of all choices that agree with the entry.
    if (bucket.scope.empty()) bucket.around = {least};
    bucket.place.assign(bucket.around.size(), -1);
    bucket.live.clear();
    for (size_t s = 0; s < bucket.around.size(); ++s) {
      if (!(bucket.around[s] < cut)) continue;
      bucket.around[s] -= (*bucket.message)[s];
      bucket.place[s] = static_cast<int>(bucket.live.size());
      bucket.live.push_back(s);
    }
    for (const Addend& part : bucket.parts) {
      if (part.child < 0) continue;
      Bucket& child = buckets_[static_cast<size_t>(part.child)];
      child.around.assign(child.message->size(), kForbidden);
    }
    for (size_t s : bucket.live) Spread(bucket, s, cut);
  }
  return least;
}

// Passes the bound of an entry on to the entries of the children's messages that it uses.
void BucketTree::Spread(const Bucket& bucket, size_t s, double cut) {
  std::vector<size_t> offsets = OffsetsOf(bucket, s);
  const Table& own = *unary_[static_cast<size_t>(bucket.variable)];
  for (size_t x = 0; x < own.size(); ++x) {
    double sum = bucket.around[s] + own[x];
    for (size_t p = 0; p < offsets.size(); ++p) {
      sum += (*bucket.parts[p].table)[offsets[p] + x * bucket.parts[p].own];
    }
    if (!(sum < cut)) continue;
    for (size_t p = 0; p < offsets.size(); ++p) {
      const Addend& part = bucket.parts[p];
      if (part.child < 0) continue;
      double& at = buckets_[static_cast<size_t>(part.child)].around[offsets[p] + x * part.own];
      at = std::min(at, sum);
    }
  }
}

}  // namespace heddle
