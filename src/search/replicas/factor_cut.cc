#include "search/replicas/factor_cut.h"

#include <algorithm>
#include <limits>
#include <span>

#include "base/error.h"
#include "base/max_flow.h"
#include "search/solver/cbc.h"

namespace heddle {
namespace {

// Numbers the operations that may be whole 0, 1, ...; -1 for the others, which belong to the sink.
std::vector<int> FreeVertices(const CutProblem& problem, int* count) {
  std::vector<int> vertex(problem.operations.size(), -1);
  *count = 0;
  for (size_t i = 0; i < vertex.size(); ++i) {
    if (!problem.operations[i].forced) vertex[i] = (*count)++;
  }
  return vertex;
}

// The vertices of readers that may be whole; none where the value costs nothing.
void FreeReaders(const CutValue& value, const std::vector<int>& vertex, std::vector<int>& readers) {
  readers.clear();
  if (value.cost <= 0) return;
  for (int reader : value.readers) {
    int at = vertex[static_cast<size_t>(reader)];
    if (at >= 0 && reader != value.producer) readers.push_back(at);
  }
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

namespace {

// Per operation the values that it reads and those that it makes, in one list.
class ValueLists {
 public:
  explicit ValueLists(const CutProblem& problem) : ends_(2 * problem.operations.size() + 1, 0) {
    ForAll(problem, [&](size_t list, size_t) { ++ends_[list + 1]; });
    for (size_t l = 1; l < ends_.size(); ++l) ends_[l] += ends_[l - 1];
    values_.resize(ends_.back());
    std::vector<size_t> next(ends_.begin(), ends_.end() - 1);
    ForAll(problem, [&](size_t list, size_t v) { values_[next[list]++] = v; });
  }

  std::span<const size_t> reads(size_t operation) const { return List(2 * operation); }
  std::span<const size_t> makes(size_t operation) const { return List(2 * operation + 1); }

 private:
  template <class Function>
  static void ForAll(const CutProblem& problem, const Function& function) {
    for (size_t v = 0; v < problem.values.size(); ++v) {
      const CutValue& value = problem.values[v];
      for (int reader : value.readers) {
        function(2 * static_cast<size_t>(reader), v);
      }
      if (value.producer >= 0) {
        function(2 * static_cast<size_t>(value.producer) + 1, v);
      }
    }
  }
  std::span<const size_t> List(size_t list) const {
    return std::span(values_).subspan(ends_[list], ends_[list + 1] - ends_[list]);
  }

  std::vector<size_t> ends_, values_;
};

// Fixes operations whose decision is certain, until no more can be fixed. An operation is whole if
// that gains even when it pays for everything it reads; it is not whole if that costs more than all
// its results could save for their readers. Usually few or no operations remain for the cut.
class Settling {
 public:
  Settling(const CutProblem& problem, Payment payment)
      : problem_(problem),
        per_reader_(payment == Payment::kPerReader),
        state_(problem.operations.size(), kOpen),
        waits_(problem.operations.size(), true),
        lists_(problem) {
    for (const CutOperation& at : problem.operations) linear_.push_back(at.linear);
    for (const CutValue& value : problem.values) {
      open_.push_back(value.cost > 0);
      producers_.push_back(value.producer);
      readers_.push_back(static_cast<int>(value.readers.size()));
    }
    for (size_t v = 0; v < open_.size(); ++v) {
      if (producers_[v] < 0) LoseProducer(v);
    }
    for (size_t i = 0; i < state_.size(); ++i) {
      queue_.push_back(static_cast<int>(i));
      if (problem.operations[i].forced) Settle(i, kPart);
    }
  }

  std::vector<bool> Solve() {
    for (size_t q = 0; q < queue_.size(); ++q) {
      size_t i = static_cast<size_t>(queue_[q]);
      waits_[i] = false;
      if (state_[i] == kOpen) Look(i);
    }
    if (std::find(state_.begin(), state_.end(), kOpen) != state_.end()) CutRest();
    std::vector<bool> whole;
    for (State state : state_) whole.push_back(state == kWhole);
    return whole;
  }

 private:
  enum State : uint8_t { kOpen, kPart, kWhole };

  void Look(size_t i) {
    double most = linear_[i], least = linear_[i];
    for (size_t v : lists_.reads(i)) most += open_[v] ? problem_.values[v].cost : 0;
    if (most < 0) return Settle(i, kWhole);
    for (size_t v : lists_.makes(i)) {
      if (open_[v] && readers_[v] > 0) {
        least -= problem_.values[v].cost * (per_reader_ ? readers_[v] : 1);
      }
    }
    if (least >= 0) Settle(i, kPart);
  }

  void Settle(size_t i, State state) {
    if (state_[i] != kOpen) return;
    state_[i] = state;
    for (size_t v : lists_.makes(i)) {
      if (state == kWhole) {
        Close(v);
      } else if (open_[v]) {
        producers_[v] = -1;
        LoseProducer(v);
      }
    }
    for (size_t v : lists_.reads(i)) {
      if (!open_[v]) continue;
      --readers_[v];
      int producer = producers_[v];
      if (state == kWhole) {  // the value is paid, unless its producer becomes whole
        if (producer >= 0) linear_[static_cast<size_t>(producer)] -= problem_.values[v].cost;
        if (!per_reader_) Close(v);
      }
      if (producer >= 0) Wait(producer);
    }
  }

  // The value cannot cost more, whoever reads it.
  void Close(size_t v) {
    if (!open_[v]) return;
    open_[v] = false;
    for (int reader : problem_.values[v].readers) Wait(reader);
  }

  // Every whole reader pays in any case.
  void LoseProducer(size_t v) {
    for (int reader : problem_.values[v].readers) {
      size_t i = static_cast<size_t>(reader);
      if (per_reader_ && open_[v] && state_[i] == kOpen) linear_[i] += problem_.values[v].cost;
      Wait(reader);
    }
    if (per_reader_) open_[v] = false;
  }

  void Wait(int operation) {
    size_t i = static_cast<size_t>(operation);
    if (state_[i] != kOpen || waits_[i]) return;
    waits_[i] = true;
    queue_.push_back(operation);
  }

  void CutRest() {
    std::vector<int> vertex(state_.size(), -1);
    int sink = 0, source = 1;
    MaxFlow flow(2);
    for (size_t i = 0; i < state_.size(); ++i) {
      if (state_[i] != kOpen) continue;
      vertex[i] = flow.AddVertex();
      if (linear_[i] < 0) flow.Add(source, vertex[i], -linear_[i]);
      if (linear_[i] > 0) flow.Add(vertex[i], sink, linear_[i]);
    }
    for (size_t v = 0; v < open_.size(); ++v) {
      if (!open_[v] || readers_[v] == 0) continue;
      const CutValue& value = problem_.values[v];
      int to = producers_[v] < 0 ? sink : vertex[static_cast<size_t>(producers_[v])];
      bool own = !per_reader_ && readers_[v] > 1;
      int between = own ? flow.AddVertex() : to;
      if (own) flow.Add(between, to, value.cost);
      for (int reader : value.readers) {
        int from = vertex[static_cast<size_t>(reader)];
        if (from >= 0) flow.Add(from, between, own ? kForbidden : value.cost);
      }
    }
    flow.Solve(source, sink);
    for (size_t i = 0; i < state_.size(); ++i) {
      if (vertex[i] < 0) continue;
      state_[i] = flow.source_side()[static_cast<size_t>(vertex[i])] ? kWhole : kPart;
    }
  }

  const CutProblem& problem_;
  bool per_reader_;
  std::vector<State> state_;
  std::vector<bool> waits_;  // is queued
  std::vector<int> queue_;
  ValueLists lists_;
  std::vector<double> linear_;  // including costs and savings that are certain
  std::vector<bool> open_;      // per value: its payment is undecided
  std::vector<int> producers_;  // with undecided payment, or -1
  std::vector<int> readers_;    // number of undecided readers
};

}  // namespace

Cut SolveByCut(const CutProblem& problem, Payment payment) {
  Cut cut;
  cut.whole = Settling(problem, payment).Solve();
  cut.objective = Evaluate(problem, cut.whole, payment);
  return cut;
}

namespace {

// Columns: x of the operations that may be whole, then b of gathered values. Rows: b - x_reader +
// x_producer >= 0.
class CutProgram {
 public:
  CutProgram(const CutProblem& problem, Payment payment) : vertex_(FreeVertices(problem, &count_)) {
    double benefit = 0;
    for (const CutOperation& at : problem.operations) benefit += std::max(0.0, -at.linear);
    // CBC's tolerances are absolute, so benefits are scaled to this sum
    constexpr double kScaled = 1e5;
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
    FreeReaders(value, vertex_, readers_);
    for (int reader : readers_) {
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
  std::vector<int> vertex_, readers_;
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
