// Flows over links, max-min fair, event driven.
//
//   FairShare net({100, 40});                   // two links of 100 and 40 units per second
//   const Load both[] = {{0, 1}, {1, 1}};
//   const Load first[] = {{0, 1}};
//   int a = net.Start(0, 400, both);            // rate 40: link 1 is its bottleneck
//   int b = net.Start(0, 300, first);           // rate 60: what a leaves of link 0
//   net.NextEnd();                              // 5, b's end; a has 200 left
//   net.Advance(5, ended);                      // ended == {b}; a goes on at 40, ends at 10
//
// A flow at rate r uses weight x r of each of its links. Rates are those of progressive filling: all
// rise together until a link is full; its flows stay at that rate, the others rise on (Bertsekas and
// Gallager, Data Networks, 6.5.2). A change touches only the flows connected with it through shared
// links, and all changes at one time cost one computation, made when NextEnd or Advance asks for it.
//
// Time: a flow alone on its links costs O(loads + log flows) to start and to end. Otherwise a
// change costs O(E log E) with E the loads of all flows connected with it.
//
// Exact reproducibility. Rates and ends are a function of the history of starts (time, volume,
// loads) as a set: they depend neither on the order of calls at one time, nor on ids, nor on the order of a
// flow's loads, nor on flows that share no link with it, directly or through others, and a flow whose
// rate does not change keeps its end to the last bit whatever happens around it. Weights that are
// equal are counted in integers (`copies`) and multiplied once, link by link, lowest weight first:
//
//   sum of weights on a link = sum over distinct w, ascending, of w x (number of loads with weight w)
//
// So a system of identical flows and links may be folded: one flow and one link of each class are
// kept, and a load states in `copies` how many flows of the class cross each link of the other class.
// The folded system then has the same rates and ends as the whole one, bit for bit, for any
// weights, volumes, capacities and times. With copies = 1 and weight k x w in place of k copies of w it has so
// whenever the sums of weights are exact in binary, as they are for integers or dyadic fractions of up to
// 53 bits. What it needs in both cases is that the fold is equitable: every link of a
// class is crossed by the same number of flows of each class with each weight, and each flow of a class
// crosses the same number of links of a class with that weight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace heddle {

struct Load {
  int link = 0;
  double weight = 1;
  std::int64_t copies = 1;  // flows like this one on that link, itself included

  friend bool operator==(const Load&, const Load&) = default;
};

class FairShare {
 public:
  // Capacities are positive and finite; links are their indices.
  explicit FairShare(std::vector<double> capacities);

  // Adds a flow that moves `volume` units and returns its id, one that is free. Times never go
  // back and never pass NextEnd(). Weights are not negative; loads of weight 0 do not count. A flow
  // without volume or loads ends at `now`.
  int Start(double now, double volume, std::span<const Load> loads);

  // When the next flow ends; infinity where there is none. Computes what has changed, if anything has.
  double NextEnd();

  // Moves to `now`, at most NextEnd(), and ends the flows whose end it is: `ended` is replaced by their ids,
  // ascending. They are free from then on.
  void Advance(double now, std::vector<int>& ended);

  std::size_t active() const { return active_; }  // flows started and not ended
  double Rate(int flow);                          // now; infinite for one that ends at once
  double End(int flow);                           // as things stand

 private:
  struct Entry {  // a load of a flow
    int link;
    int place;  // in the list of the link
    double weight;
    std::int64_t copies;
  };
  struct Flow {
    std::vector<Entry> loads;
    double remaining = 0;  // at `since`
    double since = 0;
    double rate = 0;
    double end = 0;
    int heap_place = -1;
    bool active = false;
  };

  std::vector<double> capacities_;
  std::vector<Flow> flows_;
  std::size_t active_ = 0;
  double now_ = 0;
};

}  // namespace heddle
