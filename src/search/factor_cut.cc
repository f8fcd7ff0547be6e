#include "search/factor_cut.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "search/cbc.h"
#include "search/max_flow.h"

namespace heddle {
namespace {

// Operations that may be whole as vertices 0, 1, ...; -1 for the others, which are with the sink.
std::vector<int> FreeVertices(const CutProblem& problem, int* count) {
  std::vector<int> vertex(problem.operations.size(), -1);
  *count = 0;
  for (size_t i = 0; i < vertex.size(); ++i) {
    if (!problem.operations[i].forced) vertex[i] = (*count)++;
  }
  return vertex;
}

// Readers that may be whole; none where that costs nothing anyway.
std::vector<int> FreeReaders(const CutValue& value, const std::vector<int>& vertex) {
  std::vector<int> readers;
  if (value.cost <= 0) return readers;
  for (int reader : value.readers) {
    if (vertex[static_cast<size_t>(reader)] >= 0 && reader != value.producer) {
      readers.push_back(vertex[static_cast<size_t>(reader)]);
    }
  }
  return readers;
}

int VertexOf(int operation, const std::vector<int>& vertex) {
  return operation < 0 ? -1 : vertex[static_cast<size_t>(operation)];
}

}  // namespace

double Evaluate(const CutProblem& problem, const std::vector<bool>& whole, Payment payment) {
  double sum = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    if (!whole[i]) continue;
    if (problem.operations[i].forced) return kForbidden;
    sum += problem.operations[i].linear;
  }
  for (const CutValue& value : problem.values) {
    if (value.producer >= 0 && whole[static_cast<size_t>(value.producer)]) continue;
    auto paying = std::count_if(value.readers.begin(), value.readers.end(),
                                [&](int reader) { return whole[static_cast<size_t>(reader)]; });
    if (paying == 0) continue;
    sum += payment == Payment::kOnce ? value.cost : static_cast<double>(paying) * value.cost;
  }
  return sum;
}

Cut SolveByCut(const CutProblem& problem, Payment payment) {
  int count = 0;
  std::vector<int> vertex = FreeVertices(problem, &count);
  // What is paid with a vertex itself, whatever the others do.
  std::vector<double> linear(static_cast<size_t>(count), 0);
  for (size_t i = 0; i < vertex.size(); ++i) {
    if (vertex[i] >= 0) linear[static_cast<size_t>(vertex[i])] = problem.operations[i].linear;
  }
  struct Edge {
    int from, to;
    double capacity;
  };
  std::vector<Edge> edges;
  int sink = count, source = count + 1, vertices = count + 2;
  for (const CutValue& value : problem.values) {
    std::vector<int> readers = FreeReaders(value, vertex);
    int producer = VertexOf(value.producer, vertex);
    if (payment == Payment::kOnce && readers.size() > 1) {
      int own = vertices++;
      for (int reader : readers) edges.push_back({reader, own, kForbidden});
      readers = {own};
    }
    for (int reader : readers) {
      if (producer < 0 && reader < count && value.cost < kForbidden) {
        linear[static_cast<size_t>(reader)] += value.cost;
      } else {
        edges.push_back({reader, producer < 0 ? sink : producer, value.cost});
      }
    }
  }
  MaxFlow flow(vertices);
  for (int v = 0; v < count; ++v) {
    double cost = linear[static_cast<size_t>(v)];
    if (cost < 0) flow.Add(source, v, -cost);
    if (cost > 0) flow.Add(v, sink, cost);
  }
  for (const Edge& edge : edges) flow.Add(edge.from, edge.to, edge.capacity);
  flow.Solve(source, sink);
  Cut cut;
  for (int v : vertex) {
    cut.whole.push_back(v >= 0 && flow.source_side()[static_cast<size_t>(v)]);
  }
  cut.objective = Evaluate(problem, cut.whole, payment);
  return cut;
}

namespace {

// x of the operations that may be whole, then b of what is gathered: b - x_reader + x_producer >= 0.
class CutProgram {
 public:
  CutProgram(const CutProblem& problem, Payment payment) : vertex_(FreeVertices(problem, &count_)) {
    double benefit = 0;
    for (const CutOperation& at : problem.operations) benefit += std::max(0.0, -at.linear);
    constexpr double kScaled = 1e5;  // CBC's tolerances are absolute: all benefits become this
    double unit = benefit > 0 ? benefit / kScaled : 1;
    of_x_.resize(static_cast<size_t>(count_));
    for (const CutValue& value : problem.values) AddRows(value, payment);
    for (size_t i = 0; i < vertex_.size(); ++i) {
      if (vertex_[i] < 0) continue;
      AddColumn(of_x_[static_cast<size_t>(vertex_[i])], problem.operations[i].linear / unit);
    }
    program_.binaries = count_;
    for (const Gathered& b : gathered_) AddColumn(b.entries, b.cost / unit);
  }

  std::vector<bool> Solve(double seconds) const {
    std::vector<bool> whole(vertex_.size(), false);
    if (count_ == 0) return whole;
    CbcResult result = SolveCbc(program_, seconds);
    if (!result.proven) {
      ThrowInput("CBC did not solve {} columns within {} s", program_.costs.size(), seconds);
    }
    for (size_t i = 0; i < vertex_.size(); ++i) {
      whole[i] = vertex_[i] >= 0 && result.values[static_cast<size_t>(vertex_[i])] > 0.5;
    }
    return whole;
  }

 private:
  struct Entry {
    int row;
    double factor;
  };
  struct Gathered {
    double cost = 0;
    std::vector<Entry> entries = {};
  };

  void AddRows(const CutValue& value, Payment payment) {
    int producer = VertexOf(value.producer, vertex_);
    size_t before = gathered_.size();
    for (int reader : FreeReaders(value, vertex_)) {
      int row = program_.AddRow(0, std::numeric_limits<double>::max());
      of_x_[static_cast<size_t>(reader)].push_back({row, -1});
      if (producer >= 0) of_x_[static_cast<size_t>(producer)].push_back({row, 1});
      if (value.cost == kForbidden) continue;
      bool fresh = payment == Payment::kPerReader || gathered_.size() == before;
      if (fresh) gathered_.push_back({value.cost});
      gathered_.back().entries.push_back({row, 1});
    }
  }
  void AddColumn(const std::vector<Entry>& entries, double cost) {
    for (const Entry& entry : entries) program_.Put(entry.row, entry.factor);
    program_.EndColumn(cost);
  }

  int count_ = 0;
  std::vector<int> vertex_;
  std::vector<std::vector<Entry>> of_x_;
  std::vector<Gathered> gathered_;
  IntegerProgram program_;
};

}  // namespace

Cut SolveByCbc(const CutProblem& problem, Payment payment, double seconds) {
  RequireCbc();
  Cut cut;
  cut.whole = CutProgram(problem, payment).Solve(seconds);
  cut.objective = Evaluate(problem, cut.whole, payment);
  return cut;
}

}  // namespace heddle
