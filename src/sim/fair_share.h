// Max-min fair rates of flows over links, event-driven.
//
//   FairShare net({100, 40});                   // two links of 100 and 40 units per second
//   const Load both[] = {{0, 1}, {1, 1}};
//   const Load first[] = {{0, 1}};
//   int a = net.Start(0, 400, both);            // rate 40: link 1 is its bottleneck
//   int b = net.Start(0, 300, first);           // rate 60: the rest of link 0
//   net.NextEnd();                              // 5: b ends, a has 200 left
//   net.Advance(5, ended);                      // ended == {b}; a keeps its rate and ends at 10
//
// A flow at rate r uses weight x r of each of its links. Rates follow progressive filling: all rates rise together
// until a link is full; its flows keep their rate and the others continue to rise (Bertsekas and Gallager, Data
// Networks, 6.5.2). A change affects only the flows that are connected with it through shared links. All changes at one
// time cost one computation, which is made when a rate or end is requested.
//
// Time. A flow that shares no link costs O(its loads + log flows) to start and to end. Otherwise a change costs O(E log
// E), where E is the number of loads of all flows connected with it.
//
// Reproducibility. Results are reproducible to the last bit. The rate of a flow is a function of the set of active
// flows and of nothing else: neither of the order of calls, of ids, of the order of loads, nor of flows that are not
// connected with it. A flow whose rate does not change keeps its end. Where the rate changes, the remaining volume is
// reduced by rate x time since the last change, and the end is computed again.
//
// Folding. In a system in which flows and links form classes of equals, one flow and one link of each class are enough,
// where
//   - all flows of a class start together, with the same volume,
//   - all links of a class have the same capacity, and each is crossed by the same number of flows
//     of a class with the same weight: `copies` of the load that is kept,
//   - all flows of a class cross links of the same classes with the same weights.
// A flow that crosses several links of one class with the same weight has one load for all of them. Rates and ends are
// then those of the whole system, bit for bit, for all weights, volumes, capacities and times. For this, equal weights
// on a link are counted in integers:
//
//   weight on a link = sum over distinct w, ascending, of w x (sum of copies of loads with that w)
//
// The weights of the flows that freeze at each rate are counted in the same way. One load of weight k x w gives the
// same bits as k copies of w where sums of weights are exact in binary, as they are for integers and for fractions
// whose denominator is a power of two, within 53 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace heddle {

struct Load {
  int link = 0;
  double weight = 1;
  std::int64_t copies = 1;  // the number of equal flows on the link, itself included

  friend bool operator==(const Load&, const Load&) = default;
};

class FairShare {
 public:
  // Capacities are positive and finite; links are indices into them.
  explicit FairShare(std::vector<double> capacities);

  // Adds a flow that moves `volume` units and returns its id, which is reused after the flow has ended. Times must not
  // decrease and must not pass NextEnd(). Weights and volume are finite and not negative, copies positive. A flow
  // without volume, or without a load of positive weight, ends at `now`.
  int Start(double now, double volume, std::span<const Load> loads);

  // The time at which the next flow ends; infinity where there is none.
  double NextEnd();

  // Advances the time to `now`, at most NextEnd(), and ends the flows that end then. `ended` is replaced by their ids,
  // ascending.
  void Advance(double now, std::vector<int>& ended);

  std::size_t active() const { return active_; }  // flows started and not ended
  double Rate(int flow);                          // infinite for a flow that ends at once
  double End(int flow);                           // at current rates

 private:
  struct Entry {  // a load of a flow
    int link;
    int place;  // index in the link's list of users
    double weight;
    std::int64_t copies;
  };
  struct Flow {
    std::vector<Entry> loads;
    double remaining = 0;  // volume at the time `since`
    double since = 0;
    double rate = 0;  // 0: not computed yet
    double end = 0;
    int place = -1;            // in the heap; -1: not in it
    std::int64_t reached = 0;  // the last computation that collected it
    std::int64_t frozen = 0;   // the computation that gave it its rate
    bool active = false;
  };
  struct User {  // of a link
    int flow;
    int load;  // index among the loads of the flow
  };
  struct Link {
    std::vector<User> users;
    std::int64_t reached = 0;
    int filling = -1;  // its index in fillings_, if the current computation has reached it
  };
  // A link while rates are computed.
  struct Filling {
    int link;
    std::size_t first, last;  // range of its entries in classes_
    double used = 0;          // by frozen flows
    double share = 0;         // the rate at which it is full
    bool touched = false;     // whether flows on it froze in this round
  };
  struct WeightClass {  // loads of equal weight on one link
    double weight;
    std::int64_t rising;    // copies not yet frozen
    std::int64_t freezing;  // copies that freeze in this round
  };
  // the rate that stops the flows of a link (filling >= 0), or one flow because of a link it does not share
  struct Limit {
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
  // The flows that have a rate, by end. The heap knows the place of each flow, because ends change. With a std::set of
  // ends instead, the engine takes 10 to 15 % longer (bench/sim).
  std::vector<Timed> heap_;
  std::size_t active_ = 0;
  double now_;
  std::vector<int> new_flows_, changed_links_;  // since the last computation of rates
  std::int64_t computation_ = 0;

  // Data of one computation, kept to reuse its memory.
  std::vector<int> component_;
  std::vector<Filling> fillings_;
  std::vector<WeightClass> classes_;
  std::vector<Limit> limits_;  // a heap, lowest first
  std::vector<int> touched_;
};

}  // namespace heddle
