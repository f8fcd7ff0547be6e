// The elimination tree of an additive problem, with Lagrangian bounds for the entries of its tables.
//
// A bucket is a variable together with the tables that are added up when it is eliminated
// (factors.h). Its message, the minimum over the variable, is added up by the bucket of the
// variable of its scope that is eliminated next. With the Lagrangian cost + multiplier x bytes, the
// pass up gives for each entry of a message the least cost of the subtree below it, and the pass
// down the least cost of everything else.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "search/solver/problem.h"

namespace heddle {

class BucketTree {
 public:
  // A table that a bucket adds up.
  struct Addend {
    const Table* table = nullptr;
    std::vector<size_t> strides;  // by position in the bucket's scope
    size_t own = 0;               // stride of the bucket's variable
    int child = -1;               // the bucket whose message this is; -1: a pair of the problem
  };

  struct Bucket {
    int variable = 0;
    std::vector<int> scope;  // in ascending order
    std::vector<Addend> parts;
    TableRef message;  // least Lagrangian of the subtree, per choice of the scope
    // Set by Down:
    std::vector<double> around;  // per entry of the message: least Lagrangian of everything else
    std::vector<size_t> live;    // entries of the message that may belong to a choice below the cut
    std::vector<int> place;      // per entry of the message: its index in `live`, or -1
  };

  struct Limits {
    int64_t max_entries = 0;  // of all messages together
    std::function<bool()> stop = {};
  };

  // The weight of bytes is ignored: `multiplier` takes its place.
  BucketTree(const Problem& problem, const Weights& weights, double multiplier, Limits limits);

  // False: the tables would be too large, or the search was stopped. Then nothing else may be called.
  bool made() const { return made_; }
  // In the order of elimination.
  const std::vector<Bucket>& buckets() const { return buckets_; }

  // Finds the entries that may belong to a choice whose Lagrangian is below the cut, and their
  // bounds. Returns the least Lagrangian of all choices.
  double Down(double cut);

  // The offsets of a message's entry in the tables of the bucket's parts, for choice 0 of its variable.
  std::vector<size_t> OffsetsOf(const Bucket& bucket, size_t entry) const;

 private:
  size_t domain(int v) const { return problem_.domain(v); }
  void Weigh(Weights weights, double multiplier);
  void Order();
  bool Up(const Limits& limits);
  size_t Entries(const Bucket& bucket) const;
  Addend AddendOf(const Bucket& bucket, const Table* table, const std::vector<int>& scope) const;
  size_t FirstOf(const std::vector<int>& variables) const;
  TableRef MessageOf(const Bucket& bucket) const;
  void Spread(const Bucket& bucket, size_t entry, double cut);

  const Problem& problem_;
  std::vector<TableRef> unary_, pairs_;  // Lagrangians
  std::vector<Bucket> buckets_;
  std::vector<int> bucket_of_;  // per variable
  bool made_ = false;
};

}  // namespace heddle
