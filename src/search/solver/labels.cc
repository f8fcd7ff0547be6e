#include "search/solver/labels.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace heddle {
namespace {

// A sum of choices' costs, and what it was made of.
struct Label {
  double cost = 0, bytes = 0;
  int prev = -1, child = -1;  // the sum of these two labels; or
  int variable = -1, x = -1;  // a single choice
};

// A table that a bucket adds up: where it has the choices of the bucket's scope and of its variable.
struct Addend {
  const Table* table = nullptr;
  std::vector<size_t> strides;  // by position in the scope
  size_t own = 0;               // of the variable
  int child = -1;               // the bucket whose message it is; -1: a pair of the problem
};

// A variable with what is eliminated with it: for every choice of the scope, the least over its own.
struct Bucket {
  int variable = 0;
  std::vector<int> scope;  // ascending
  std::vector<Addend> parts;
  TableRef message;  // the least Lagrangian of all below, by choice of the scope
  // For those that are live, once the way down is done:
  std::vector<double> around;            // the least Lagrangian of all else
  std::vector<size_t> live;              // entries of the message
  std::vector<std::vector<int>> labels;  // by entry of `live`
  std::vector<int> place;                // in `live`, by entry of the message
};

}  // namespace

class LabelSolver::Tree {
 public:
  Tree(const Problem& problem, LabelOptions options) : problem_(problem), o_(std::move(options)) {
    o_.weights.bytes = 0;
    Weigh();
    Order();
    made_ = Up();
  }

  LabelResult Below(double below, int64_t max_labels) {
    LabelResult result;
    if (!made_) return result;
    below_ = below;
    max_labels_ = max_labels;
    cut_ = below + o_.multiplier * o_.limit;
    labels_.clear();
    work_ = 0;
    double least = Down();
    if (least >= cut_) {
      result.finished = true;
      return result;
    }
    for (size_t i = 0; i < buckets_.size(); ++i) {
      if (!MakeLabels(buckets_[i])) return result;
    }
    std::vector<int> all = {Add({})};
    double rest = least;
    for (const Bucket& bucket : buckets_) {
      if (!bucket.scope.empty()) continue;
      rest -= (*bucket.message)[0];
      if (bucket.live.empty() || !Combine(all, bucket.labels[0], rest)) return result;
    }
    result.finished = true;
    result.best = Best(all);
    return result;
  }

 private:
  size_t domain(int v) const { return problem_.domain(v); }

  // Equal tables once, as far as they are one object; equal unaries once.
  void Weigh() {
    Weights lagrangian = o_.weights;
    lagrangian.bytes = o_.multiplier;
    std::map<Table, TableRef> unaries;
    for (const UnaryRef& unary : problem_.unary) {
      TableRef table = Weighted(*unary, lagrangian);
      unary_.push_back(unaries.try_emplace(*table, table).first->second);
    }
    std::map<std::pair<const Table*, const Table*>, TableRef> pairs;
    for (const PairCost& pair : problem_.pairs) {
      TableRef& table = pairs[{pair.seconds.get(), pair.queued.get()}];
      if (!table) table = Weighted(pair, o_.weights);
      pairs_.push_back(table);
    }
  }

  // The variable that makes the smallest table first, as elimination does.
  void Order() {
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

  size_t Entries(const Bucket& bucket) const {
    size_t entries = 1;
    for (int u : bucket.scope) entries *= domain(u);
    return entries;
  }

  Addend AddendOf(const Bucket& bucket, const Table* table, const std::vector<int>& scope) const {
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

  // Of those in a scope or a pair, the one eliminated first.
  size_t FirstOf(const std::vector<int>& variables) const {
    int first = bucket_of_[static_cast<size_t>(variables[0])];
    for (int v : variables) first = std::min(first, bucket_of_[static_cast<size_t>(v)]);
    return static_cast<size_t>(first);
  }

  // Messages. Buckets that add up the same tables in the same way share theirs. False: too large.
  bool Up() {
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
        if (size > static_cast<double>(o_.max_entries - entries)) return false;
        if (o_.stop && o_.stop()) return false;
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

  TableRef MessageOf(const Bucket& bucket) const {
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

  // Where each part has an entry of the message.
  std::vector<size_t> OffsetsOf(const Bucket& bucket, size_t entry) const {
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

  // For every entry that may be part of something below: the least Lagrangian around it. Returns the least of all.
  double Down() {
    double least = 0;
    for (const Bucket& bucket : buckets_) {
      if (bucket.scope.empty()) least += (*bucket.message)[0];
    }
    for (size_t i = buckets_.size(); i-- > 0;) {
      Bucket& bucket = buckets_[i];
      // So far `around` has the least of those that agree with the entry.
      if (bucket.scope.empty()) bucket.around = {least};
      bucket.place.assign(bucket.around.size(), -1);
      bucket.live.clear();
      bucket.labels.clear();
      for (size_t s = 0; s < bucket.around.size(); ++s) {
        if (!(bucket.around[s] < cut_)) continue;
        bucket.around[s] -= (*bucket.message)[s];
        bucket.place[s] = static_cast<int>(bucket.live.size());
        bucket.live.push_back(s);
      }
      for (const Addend& part : bucket.parts) {
        if (part.child < 0) continue;
        Bucket& child = buckets_[static_cast<size_t>(part.child)];
        child.around.assign(child.message->size(), kForbidden);
      }
      for (size_t s : bucket.live) Spread(bucket, s);
    }
    return least;
  }

  void Spread(const Bucket& bucket, size_t s) {
    std::vector<size_t> offsets = OffsetsOf(bucket, s);
    const Table& own = *unary_[static_cast<size_t>(bucket.variable)];
    for (size_t x = 0; x < own.size(); ++x) {
      double sum = bucket.around[s] + own[x];
      for (size_t p = 0; p < offsets.size(); ++p) {
        sum += (*bucket.parts[p].table)[offsets[p] + x * bucket.parts[p].own];
      }
      if (!(sum < cut_)) continue;
      for (size_t p = 0; p < offsets.size(); ++p) {
        const Addend& part = bucket.parts[p];
        if (part.child < 0) continue;
        double& at = buckets_[static_cast<size_t>(part.child)].around[offsets[p] + x * part.own];
        at = std::min(at, sum);
      }
    }
  }

  int Add(Label label) {
    labels_.push_back(label);
    return static_cast<int>(labels_.size()) - 1;
  }

  // Those that no other beats.
  static std::vector<Label> Undominated(std::vector<Label> labels) {
    std::sort(labels.begin(), labels.end(), [](const Label& a, const Label& b) {
      return std::tie(a.bytes, a.cost, a.prev, a.child, a.x) <
             std::tie(b.bytes, b.cost, b.prev, b.child, b.x);
    });
    std::vector<Label> kept;
    for (const Label& label : labels) {
      if (kept.empty() || label.cost < kept.back().cost) kept.push_back(label);
    }
    return kept;
  }

  // The sums of one of `all` and one of `more` that can still come below, with at least `rest` to be added. False: too
  // many.
  bool Combine(std::vector<int>& all, const std::vector<int>& more, double rest) {
    work_ += static_cast<int64_t>(all.size() * more.size());
    if (work_ > kWorkPerLabel * max_labels_) return false;
    std::vector<Label> sums;
    for (int a : all) {
      for (int b : more) {
        const Label &x = labels_[static_cast<size_t>(a)], &y = labels_[static_cast<size_t>(b)];
        Label sum;
        sum.cost = x.cost + y.cost;
        sum.bytes = x.bytes + y.bytes;
        sum.prev = a;
        sum.child = b;
        if (sum.cost + o_.multiplier * sum.bytes + rest < cut_) sums.push_back(sum);
      }
    }
    all.clear();
    for (const Label& label : Undominated(std::move(sums))) all.push_back(Add(label));
    return static_cast<int64_t>(labels_.size()) <= max_labels_;
  }

  bool MakeLabels(Bucket& bucket) {
    if (o_.stop && o_.stop()) return false;
    for (size_t s : bucket.live) {
      std::vector<size_t> offsets = OffsetsOf(bucket, s);
      std::vector<Label> found;
      for (size_t x = 0; x < domain(bucket.variable); ++x) {
        std::vector<int> some;
        if (!LabelsOf(bucket, s, offsets, x, some)) return false;
        for (int label : some) found.push_back(labels_[static_cast<size_t>(label)]);
      }
      bucket.labels.emplace_back();
      for (const Label& label : Undominated(std::move(found))) {
        bucket.labels.back().push_back(Add(label));
      }
    }
    return true;
  }

  // Those of an entry with one choice of the variable.
  bool LabelsOf(const Bucket& bucket, size_t s, const std::vector<size_t>& offsets, size_t x,
                std::vector<int>& labels) {
    const Unary& unary = *problem_.unary[static_cast<size_t>(bucket.variable)];
    Label own;
    own.cost = unary.At(x).Weighted(o_.weights);
    own.bytes = unary.bytes[x];
    own.variable = bucket.variable;
    own.x = static_cast<int>(x);
    double rest = bucket.around[s];  // of what is not in the label yet
    for (size_t p = 0; p < offsets.size(); ++p) {
      const Addend& part = bucket.parts[p];
      double value = (*part.table)[offsets[p] + x * part.own];
      (part.child < 0 ? own.cost : rest) += value;
    }
    if (!(own.cost + o_.multiplier * own.bytes + rest < cut_)) return true;
    labels = {Add(own)};
    for (size_t p = 0; p < offsets.size(); ++p) {
      const Addend& part = bucket.parts[p];
      if (part.child < 0) continue;
      size_t entry = offsets[p] + x * part.own;
      const Bucket& child = buckets_[static_cast<size_t>(part.child)];
      rest -= (*part.table)[entry];
      int place = child.place[entry];
      if (place < 0) {
        labels.clear();
        return true;
      }
      if (!Combine(labels, child.labels[static_cast<size_t>(place)], rest)) return false;
    }
    return true;
  }

  std::optional<Solution> Best(const std::vector<int>& all) const {
    std::optional<Solution> best;
    for (int label : all) {
      if (labels_[static_cast<size_t>(label)].bytes > o_.limit * (1 + 1e-12)) continue;
      Solution solution;
      solution.choice.assign(problem_.unary.size(), 0);
      std::vector<int> stack = {label};
      while (!stack.empty()) {
        const Label& at = labels_[static_cast<size_t>(stack.back())];
        stack.pop_back();
        if (at.variable >= 0) solution.choice[static_cast<size_t>(at.variable)] = at.x;
        if (at.prev >= 0) stack.push_back(at.prev);
        if (at.child >= 0) stack.push_back(at.child);
      }
      Cost cost = Evaluate(problem_, solution.choice);
      solution.objective = cost.Weighted(o_.weights);
      bool fits = cost.bytes <= o_.limit && solution.objective < below_;
      if (fits && (!best || solution.objective < best->objective)) best = std::move(solution);
    }
    return best;
  }

  static constexpr int64_t kWorkPerLabel = 64;

  const Problem& problem_;
  LabelOptions o_;
  bool made_ = false;
  double below_ = 0, cut_ = 0;           // in cost, and in the Lagrangian without its constant
  std::vector<TableRef> unary_, pairs_;  // Lagrangians
  std::vector<Bucket> buckets_;          // in the order of elimination
  std::vector<int> bucket_of_;           // by variable
  std::vector<Label> labels_;
  int64_t max_labels_ = 0, work_ = 0;
};

LabelSolver::LabelSolver(const Problem& problem, LabelOptions options)
    : tree_(std::make_unique<Tree>(problem, std::move(options))) {}

LabelSolver::~LabelSolver() = default;

LabelResult LabelSolver::Below(double below, int64_t max_labels) {
  return tree_->Below(below, max_labels);
}

}  // namespace heddle
