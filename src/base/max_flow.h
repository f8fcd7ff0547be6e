// The largest flow from a source to a sink, and with it the cheapest cut between them.
//
//   MaxFlow flow(4);
//   flow.Add(0, 1, 3);  flow.Add(1, 3, 2);  flow.Add(0, 2, 1);  flow.Add(2, 3, infinity);
//   flow.Solve(0, 3)          // 3
//   flow.source_side()        // {true, true, false, false}: 1 -> 3 and 0 -> 2 are cut
//
// Dinic (1970): blocking flows along shortest ways, O(V^2 E) at worst. Capacities are seconds, hence doubles: every push
// empties an edge to exactly 0, so rounding cannot keep it from ending, and the cut is the best one but for rounding in
// the sums. Of several cheapest cuts that with the smallest source side. The order of Add decides nothing else.
#pragma once

#include <cstddef>
#include <vector>

namespace heddle {

class MaxFlow {
 public:
  explicit MaxFlow(int vertices) : vertices_(vertices) {}
  int AddVertex() { return vertices_++; }

  // Capacities are at least 0; infinite ones may not make up a whole way from source to sink.
  void Add(int from, int to, double capacity);

  // Once. The flow, which is what the cut costs.
  double Solve(int source, int sink);

  // Per vertex, afterwards: on the source's side of the cut.
  const std::vector<bool>& source_side() const { return source_side_; }

 private:
  struct Edge {
    int from, to;
    double capacity;
  };
  struct Arc {
    double residual;
    int head;
    int back;  // the arc that leads back
  };

  void Index();
  bool FindLevels();
  double PushAll();
  double Push();
  int NextArc(size_t from);
  void FindSourceSide();
  Arc& arc(int index) { return arcs_[static_cast<size_t>(index)]; }

  int vertices_ = 0, source_ = -1, sink_ = -1;
  std::vector<Edge> edges_;
  std::vector<Arc> arcs_;    // by vertex they leave
  std::vector<int> starts_;  // per vertex, into arcs_; and the end
  std::vector<int> levels_;  // steps to the sink; -1: no way there
  std::vector<int> next_;    // per vertex, into arcs_: what was not tried yet
  std::vector<int> queue_, path_;
  std::vector<bool> source_side_;
};

}  // namespace heddle
