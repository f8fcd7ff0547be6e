#include "search/placement/tree_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace heddle {
namespace {

struct TreeNode {
  double own = 0;  // value of its prefix
  std::vector<double> priors;
  struct Child {
    int64_t visits = 0;
    int64_t under_way = 0;
    double sum = 0;
    std::unique_ptr<TreeNode> node;
  };
  std::vector<Child> children;
  int64_t visits = 0;
};

class Tree {
 public:
  Tree(TreeGame& game, const TreeOptions& options) : game_(game), options_(options) {}

  TreeResult Run() {
    out_.best = options_.root;
    out_.value = game_.Values({options_.root})[0];
    out_.improvements.push_back({0, out_.value});
    root_.own = out_.value;
    Expand(root_, options_.root.size() < game_.decisions() ? game_.Priors({options_.root})[0]
                                                           : std::vector<double>{});
    AddNoise();
    while (out_.playouts < options_.playouts && !root_.children.empty()) {
      if (options_.over && options_.over()) break;
      Play();
    }
    for (const TreeNode::Child& child : root_.children) out_.root_visits.push_back(child.visits);
    if (options_.record > 0) Record(root_, options_.root);
    return std::move(out_);
  }

 private:
  struct Leaf {
    std::vector<std::pair<TreeNode*, size_t>> path;  // nodes with the child taken
    Prefix prefix;
  };

  void Expand(TreeNode& node, std::vector<double> priors) {
    node.priors = std::move(priors);
    node.children = std::vector<TreeNode::Child>(node.priors.size());
  }

  void AddNoise() {
    if (options_.noise <= 0 || root_.priors.empty()) return;
    std::mt19937_64 rng(options_.seed);
    // Powers of exponential draws: a few large ones, like a Dirichlet distribution of small
    // concentration.
    std::vector<double> draws;
    double sum = 0;
    for (size_t i = 0; i < root_.priors.size(); ++i) {
      double uniform = (static_cast<double>(rng() >> 11) + 0.5) * 0x1p-53;
      draws.push_back(std::pow(-std::log(uniform), 3));
      sum += draws.back();
    }
    for (size_t i = 0; i < draws.size(); ++i) {
      root_.priors[i] = (1 - options_.noise) * root_.priors[i] + options_.noise * draws[i] / sum;
    }
  }

  size_t Select(const TreeNode& node) const {
    double c = std::sqrt(static_cast<double>(node.children.size()) / 10);
    double parent = std::sqrt(static_cast<double>(std::max<int64_t>(1, node.visits)));
    size_t best = 0;
    double most = -std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < node.children.size(); ++i) {
      const TreeNode::Child& child = node.children[i];
      int64_t n = child.visits + child.under_way;
      // Pending visits count as losses.
      double q = n == 0
                     ? node.own
                     : (child.sum - static_cast<double>(child.under_way)) / static_cast<double>(n);
      double score = q + c * node.priors[i] * parent / (1 + static_cast<double>(n));
      if (score > most) {
        most = score;
        best = i;
      }
    }
    return best;
  }

  Leaf Descend() {
    Leaf leaf;
    leaf.prefix = options_.root;
    TreeNode* node = &root_;
    while (!node->children.empty()) {
      size_t i = Select(*node);
      TreeNode::Child& child = node->children[i];
      ++child.under_way;
      ++node->visits;
      leaf.path.push_back({node, i});
      leaf.prefix.push_back(static_cast<int>(i));
      if (!child.node) return leaf;
      node = child.node.get();
    }
    return leaf;
  }

  void Play() {
    std::vector<Leaf> leaves;
    size_t left = static_cast<size_t>(options_.playouts - out_.playouts);
    while (leaves.size() < std::min(options_.batch, left)) leaves.push_back(Descend());
    std::vector<Prefix> prefixes, open;
    for (const Leaf& leaf : leaves) {
      prefixes.push_back(leaf.prefix);
      if (leaf.prefix.size() < game_.decisions()) open.push_back(leaf.prefix);
    }
    std::vector<double> values = game_.Values(prefixes);
    std::vector<std::vector<double>> priors;
    if (!open.empty()) priors = game_.Priors(open);
    size_t next = 0;
    for (size_t l = 0; l < leaves.size(); ++l) {
      ++out_.playouts;
      bool whole = leaves[l].prefix.size() == game_.decisions();
      std::vector<double> prior = whole ? std::vector<double>{} : std::move(priors[next++]);
      auto [parent, i] = leaves[l].path.back();
      TreeNode::Child& child = parent->children[i];
      if (!child.node) {  // another leaf of the batch may have created it
        child.node = std::make_unique<TreeNode>();
        child.node->own = values[l];
        Expand(*child.node, std::move(prior));
      }
      for (auto [node, at] : leaves[l].path) {
        --node->children[at].under_way;
        ++node->children[at].visits;
        node->children[at].sum += values[l];
      }
      if (values[l] > out_.value) {
        out_.value = values[l];
        out_.best = leaves[l].prefix;
        out_.found = out_.playouts;
        out_.improvements.push_back({out_.playouts, values[l]});
      }
    }
  }

  void Record(const TreeNode& node, const Prefix& prefix) {
    if (node.children.empty() || node.visits < options_.record) return;
    PrefixVisits at{prefix, {}};
    for (const TreeNode::Child& child : node.children) at.visits.push_back(child.visits);
    out_.recorded.push_back(std::move(at));
    Prefix below = prefix;
    below.push_back(0);
    for (size_t i = 0; i < node.children.size(); ++i) {
      if (!node.children[i].node) continue;
      below.back() = static_cast<int>(i);
      Record(*node.children[i].node, below);
    }
  }

  TreeGame& game_;
  const TreeOptions& options_;
  TreeNode root_;
  TreeResult out_;
};

}  // namespace

TreeResult SearchTree(TreeGame& game, const TreeOptions& options) {
  return Tree(game, options).Run();
}

}  // namespace heddle
