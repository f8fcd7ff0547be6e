#include "search/solver/labels.h"

#include <algorithm>
#include <tuple>

#include "search/solver/bucket_tree.h"

namespace heddle {
namespace {

// The cost of some choices: of a single one, or the sum of two labels.
struct Label {
  double cost = 0, bytes = 0;
  int prev = -1, child = -1;  // labels that this is the sum of; -1: a single choice
  int variable = -1, x = -1;  // the single choice
};

}  // namespace

class LabelSolver::Labels {
 public:
  Labels(const Problem& problem, LabelOptions options)
      : problem_(problem),
        o_(std::move(options)),
        tree_(problem, o_.weights, o_.multiplier, {o_.max_entries, o_.stop}) {
    o_.weights.bytes = 0;
  }

  LabelResult Below(double below, int64_t max_labels) {
    LabelResult result;
    if (!tree_.made()) return result;
    below_ = below;
    max_labels_ = max_labels;
    cut_ = below + o_.multiplier * o_.limit;
    labels_.clear();
    work_ = 0;
    double least = tree_.Down(cut_);
    if (least >= cut_) {
      result.finished = true;
      return result;
    }
    of_bucket_.assign(tree_.buckets().size(), {});
    for (size_t i = 0; i < of_bucket_.size(); ++i) {
      if (!MakeLabels(tree_.buckets()[i], of_bucket_[i])) return result;
    }
    std::vector<int> all = {Add({})};
    double rest = least;
    for (size_t i = 0; i < of_bucket_.size(); ++i) {
      const BucketTree::Bucket& bucket = tree_.buckets()[i];
      if (!bucket.scope.empty()) continue;
      rest -= (*bucket.message)[0];
      if (bucket.live.empty() || !Combine(all, of_bucket_[i][0], rest)) return result;
    }
    result.finished = true;
    result.best = Best(all);
    return result;
  }

 private:
  using EntryLabels = std::vector<std::vector<int>>;  // per live entry: indices into labels_

  int Add(Label label) {
    labels_.push_back(label);
    return static_cast<int>(labels_.size()) - 1;
  }

  // The Pareto-optimal ones.
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

  // Replaces `all` by the sums of one of `all` and one of `more` that can still lead below the cut
  // when at least `rest` is added. False: too many.
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

  // Makes the labels of each live entry of a bucket. False: too many, or stopped.
  bool MakeLabels(const BucketTree::Bucket& bucket, EntryLabels& labels) {
    if (o_.stop && o_.stop()) return false;
    for (size_t s : bucket.live) {
      std::vector<size_t> offsets = tree_.OffsetsOf(bucket, s);
      std::vector<Label> found;
      for (size_t x = 0; x < problem_.domain(bucket.variable); ++x) {
        std::vector<int> some;
        if (!LabelsOf(bucket, s, offsets, x, some)) return false;
        for (int label : some) found.push_back(labels_[static_cast<size_t>(label)]);
      }
      labels.emplace_back();
      for (const Label& label : Undominated(std::move(found))) {
        labels.back().push_back(Add(label));
      }
    }
    return true;
  }

  // The labels of an entry with choice `x` of the bucket's variable.
  bool LabelsOf(const BucketTree::Bucket& bucket, size_t s, const std::vector<size_t>& offsets,
                size_t x, std::vector<int>& labels) {
    const Unary& unary = *problem_.unary[static_cast<size_t>(bucket.variable)];
    Label own;
    own.cost = unary.At(x).Weighted(o_.weights);
    own.bytes = unary.bytes[x];
    own.variable = bucket.variable;
    own.x = static_cast<int>(x);
    double rest = bucket.around[s];  // bound on what the label does not include yet
    for (size_t p = 0; p < offsets.size(); ++p) {
      const BucketTree::Addend& part = bucket.parts[p];
      double value = (*part.table)[offsets[p] + x * part.own];
      (part.child < 0 ? own.cost : rest) += value;
    }
    if (!(own.cost + o_.multiplier * own.bytes + rest < cut_)) return true;
    labels = {Add(own)};
    for (size_t p = 0; p < offsets.size(); ++p) {
      const BucketTree::Addend& part = bucket.parts[p];
      if (part.child < 0) continue;
      size_t entry = offsets[p] + x * part.own;
      size_t child = static_cast<size_t>(part.child);
      rest -= (*part.table)[entry];
      int place = tree_.buckets()[child].place[entry];
      if (place < 0) {
        labels.clear();
        return true;
      }
      if (!Combine(labels, of_bucket_[child][static_cast<size_t>(place)], rest)) return false;
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
  BucketTree tree_;
  double below_ = 0, cut_ = 0;  // limits on the cost, and on the Lagrangian without its constant
  std::vector<EntryLabels> of_bucket_;
  std::vector<Label> labels_;
  int64_t max_labels_ = 0, work_ = 0;
};

LabelSolver::LabelSolver(const Problem& problem, LabelOptions options)
    : labels_(std::make_unique<Labels>(problem, std::move(options))) {}

LabelSolver::~LabelSolver() = default;

LabelResult LabelSolver::Below(double below, int64_t max_labels) {
  return labels_->Below(below, max_labels);
}

}  // namespace heddle
