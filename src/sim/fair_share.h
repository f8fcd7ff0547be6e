// Flows over links, max-min fair, event driven.
//
//   FairShare net({100, 40});                   // two links of 100 and 40 units per second
//   const Load both[] = {{0, 1}, {1, 1}};
//   const Load first[] = {{0, 1}};
//   int a = net.Start(0, 400, both);            // rate 40: link 1 is its bottleneck
//   int b = net.Start(0, 300, first);           // rate 60: what a leaves of link 0
//   net.NextEnd();                              // 5: b ends, a has 200 left
//   net.Advance(5, ended);                      // ended == {b}; a keeps its rate and ends at 10
//
// A flow at rate r uses weight x r of each of its links. Rates are those of progressive filling:
// all rise together until a link is full; its flows stay there and the others rise on (Bertsekas
// and Gallager, Data Networks, 6.5.2). A change touches only the flows connected with it through
// shared links, and all changes at one time cost one computation, made when somebody asks.
//
// Time: a flow alone on its links costs O(its loads + log flows) to start and to end. Otherwise a
// change costs O(E log E) with E the loads of all flows connected with it.
//
// Reproducible to the last bit. The rate of a flow is a function of the flows that are active, as a
// set, and of nothing else: not of the order of calls, of ids, of the order of loads, nor of flows
// that have no connection with it. A flow whose rate does not change keeps its end whatever happens
// around it. Where the rate does change, what is left is reduced by rate x time since the last
// change, and the end computed anew.
//
// Folding. Of a system in which flows and links come in classes of equals, one flow and one link of
// each class may be kept, where
//   - all flows of a class start together, with the same volume,
//   - all links of a class have the same capacity, and each is crossed by the same number of flows
//     of a class with the same weight: `copies` of the load that is kept,
//   - all flows of a class cross links of the same classes with the same weights.
// A flow that crosses several links of one class with one weight states them as one load.
// Rates and ends are then those of the whole system, bit for bit, whatever the weights, volumes,
// capacities and times. For this, equal weights on a link are counted in integers:
//
//   weight on a link = sum over distinct w, ascending, of w x (sum of copies of loads with that w)
//
// and so are those of the flows that stay behind at each rate. Stating one load of weight k x w
// rather than k copies of w also gives the same bits where sums of weights are exact in binary, as
// they are for integers and for fractions with a power of two below, within 53 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace heddle {

struct Load {
  int link = 0;
  double weight = 1;
  std::int64_t copies = 1;  // flows like this one on the link, itself included

  friend bool operator==(const Load&, const Load&) = default;
};

class FairShare {
 public:
  // Capacities are positive and finite; links are their indices.
  explicit FairShare(std::vector<double> capacities);

  // Adds a flow that moves `volume` units and returns its id, reused after the flow has ended.
  // Times never go back, and never past NextEnd(). Weights and volume are finite and not negative,
  // copies positive. A flow without volume, or with no load of positive weight, ends at `now`.
  int Start(double now, double volume, std::span<const Load> loads);

  // When the next flow ends; infinity where there is none.
  double NextEnd();

  // Moves to `now`, at most NextEnd(), and ends the flows whose end that is: `ended` is replaced by
  // their ids, ascending.
  void Advance(double now, std::vector<int>& ended);

  std::size_t active() const { return active_; }  // flows started and not ended
  double Rate(int flow);                          // infinite for one that ends at once
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
    double rate = 0;  // 0: not computed yet
    double end = 0;
    int place = -1;            // in the heap; -1: not in it
    std::int64_t reached = 0;  // the computation that last collected it
    std::int64_t frozen = 0;   // and the one that gave it its rate
    bool active = false;
  };
  struct User {  // of a link
    int flow;
    int load;  // which of the flow's
  };
  struct Link {
    std::vector<User> users;
    std::int64_t reached = 0;
    int filling = -1;  // its place in fillings_, while it is `reached`
  };
  // A link while rates are computed.
  struct Filling {
    int link;
    std::size_t first, last;  // its classes_
    double used = 0;          // by frozen flows
    double share = 0;         // the rate at which it is full
    bool touched = false;     // flows on it froze in this round
  };
  struct WeightClass {  // loads of one weight on one link
    double weight;
    std::int64_t rising;    // copies not yet frozen
    std::int64_t freezing;  // in this round
  };
  struct Limit {  // a rate that stops a link (filling >= 0), or one flow for a link of its own
    double rate;
    int filling;
    int flow;
  };
  static bool Higher(const Limit& a, const Limit& b) { return a.rate > b.rate; }
  struct Timed {
    double end;
    int flow;
  };

  void MoveTo(double now);
  void Flush();
  bool AloneRate(const Flow& flow, double& rate) const;
  void Collect(int flow);
  void AddFilling(int link);
  void Fill();
  bool Holds(const Limit& limit) const;
  void Reach(const Limit& limit);
  void Freeze(int flow, double rate);
  void CloseRound(double rate);
  double RisingWeight(const Filling& filling) const;
  void SetRate(int flow, double rate);
  void Unlink(int flow);
  void Sift(std::size_t place);  // restores the heap around a changed entry
  void Put(std::size_t place, const Timed& timed);
  void PopHeap();

  std::vector<double> capacities_;
  std::vector<Link> links_;
  std::vector<Flow> flows_;
  std::vector<int> free_;
  // Of flows with a rate, by end. A heap that knows where each flow is, as ends change: with a std::set of ends the
  // engine takes 10 to 15 % longer (bench/sim).
  std::vector<Timed> heap_;
  std::size_t active_ = 0;
  double now_;
  std::vector<int> new_flows_, changed_links_;  // since rates were computed
  std::int64_t computation_ = 0;

  // Of one computation, kept for their memory.
  std::vector<int> component_;
  std::vector<Filling> fillings_;
  std::vector<WeightClass> classes_;
  std::vector<Limit> limits_;  // a heap, lowest first
  std::vector<int> touched_;
};

}  // namespace heddle
