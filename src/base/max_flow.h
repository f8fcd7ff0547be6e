// The maximum flow from a source to a sink, and the minimum cut between them.
//
//   MaxFlow flow(4);
//   flow.Add(0, 1, 3);  flow.Add(1, 3, 2);  flow.Add(0, 2, 1);  flow.Add(2, 3, infinity);
//   flow.Solve(0, 3)          // 3
//   flow.source_side()        // {true, true, false, false}: 1 -> 3 and 0 -> 2 are cut
//
// The algorithm is Dinic's (1970): blocking flows along shortest paths, O(V^2 E) in the worst case. Capacities are
// seconds and therefore doubles. Every push sets the residual of one arc to exactly 0, so rounding cannot prevent
// termination, and the cut is minimal up to rounding in the sums. Of several minimum cuts the one with the smallest
// source side is returned. The result does not depend on the order of the calls of Add in any other way.
#pragma once

#include <cstddef>
#include <vector>

namespace heddle {

class MaxFlow {
 public:
  explicit MaxFlow(int vertices) : vertices_(vertices) {}
  int AddVertex() { return vertices_++; }

  // Capacities are at least 0. Infinite capacities must not form a whole path from source to sink.
  void Add(int from, int to, double capacity);

  // To be called once. Returns the maximum flow, which is the cost of the minimum cut.
  double Solve(int source, int sink);

  // After Solve, for each vertex, whether it is on the source's side of the cut.
  const std::vector<bool>& source_side() const { return source_side_; }

 private:
  struct Edge {
    int from, to;
    double capacity;
  };
  struct Arc {
    double residual;
    int head;
    int back;  // the index of the reverse arc
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
  std::vector<Arc> arcs_;    // grouped by the vertex they leave
  std::vector<int> starts_;  // per vertex, the index of its first arc; then the number of arcs
  std::vector<int> levels_;  // number of arcs to the sink; -1 where there is no path
  std::vector<int> next_;    // per vertex, the index of the first arc that was not tried yet
  std::vector<int> queue_, path_;
  std::vector<bool> source_side_;
};

}  // namespace heddle
