#include "plan/units.h"

#include <algorithm>
#include <tuple>

#include "base/integers.h"

namespace heddle {
namespace {

// One way of cutting, being improved: how many of the layers that count each stage has.
class EvenStages {
 public:
  EvenStages(const ModelUnits& units, const EvenCut& cut, const std::vector<double>& work,
             int devices, int stages)
      : units_(units), cut_(cut), devices_(devices), counts_(ToSize(stages), cut.most), sums_{0} {
    for (double unit : work) sums_.push_back(sums_.back() + unit);
  }

  void Run() {
    Place();
    std::vector<double> busy;
    for (int left = cut_.smaller; left > 0; --left) {
      FindDeviceWork(busy);
      // One less where a device has most to do; the last stage that can.
      int worst = -1;
      double longest = -1;
      size_t device = busy.size();  // stages are a multiple of devices
      for (size_t s = counts_.size(); s-- > 0;) {
        if (device == 0) device = busy.size();
        --device;
        if (counts_[s] < cut_.most) continue;
        double work = busy[device];
        if (work > longest * (1 + 1e-9)) {
          longest = work;
          worst = ToInt(s);
        }
      }
      --counts_[ToSize(worst)];
      Place();
    }
  }

  const std::vector<int>& ends() const { return ends_; }  // in units

  // Of the busiest device; of stages, squared.
  std::pair<double, double> Score() const {
    std::vector<double> busy;
    FindDeviceWork(busy);
    double squares = 0;
    for (size_t s = 0; s < ends_.size(); ++s) squares += StageWork(s) * StageWork(s);
    return {*std::max_element(busy.begin(), busy.end()), squares};
  }

 private:
  void Place() {
    ends_.clear();
    int at = units_.embedding && !cut_.embedding_counts ? 1 : 0;
    for (int count : counts_) ends_.push_back(std::min(at += count, units_.count()));
    ends_.back() = units_.count();
  }

  double StageWork(size_t s) const {
    size_t first = s == 0 ? 0 : ToSize(ends_[s - 1]);
    return sums_[ToSize(ends_[s])] - sums_[first];
  }

  void FindDeviceWork(std::vector<double>& busy) const {
    busy.assign(ToSize(devices_), 0);
    double before = sums_[0];
    for (size_t s = 0, device = 0; s < ends_.size(); ++s, ++device) {
      if (device == busy.size()) device = 0;
      double end = sums_[ToSize(ends_[s])];
      busy[device] += end - before;
      before = end;
    }
  }

  const ModelUnits& units_;
  EvenCut cut_;
  int devices_;
  std::vector<int> counts_, ends_;  // per stage
  std::vector<double> sums_;        // of the units before each
};

}  // namespace

ModelUnits UnitsOf(const Model& model) {
  ModelUnits units;
  int blocks = ToInt(model.blocks.size()), last_layer = -1;
  for (int b = 0; b < blocks; ++b) {
    if (model.blocks[ToSize(b)].chain < 0) continue;
    if (last_layer < 0) units.embedding = b > 0;
    last_layer = b;
    units.begins.push_back(b);
  }
  if (last_layer < 0) {
    for (int b = 0; b <= blocks; ++b) units.begins.push_back(b);
    return units;
  }
  if (units.embedding) units.begins.insert(units.begins.begin(), 0);
  units.head = last_layer + 1 < blocks;
  if (units.head) units.begins.push_back(last_layer + 1);
  units.begins.push_back(blocks);
  return units;
}

std::vector<EvenCut> EvenCuts(const ModelUnits& units, int stages) {
  std::vector<EvenCut> cuts;
  for (bool embedding : {false, true}) {
    for (bool head : {false, true}) {
      if ((embedding && !units.embedding) || (head && !units.head)) continue;
      EvenCut cut{embedding, head};
      cut.layers = units.layers() + (embedding ? 1 : 0) + (head ? 1 : 0);
      if (cut.layers < stages) continue;
      cut.most = (cut.layers + stages - 1) / stages;
      cut.smaller = cut.most * stages - cut.layers;
      cuts.push_back(cut);
    }
  }
  return cuts;
}

std::vector<int> CutEvenly(const ModelUnits& units, const std::vector<double>& work, int devices,
                           int chunks) {
  int stages = devices * chunks;
  std::vector<int> best;
  std::pair<double, double> score;
  for (const EvenCut& cut : EvenCuts(units, stages)) {
    EvenStages even(units, cut, work, devices, stages);
    even.Run();
    auto [busiest, squares] = even.Score();
    constexpr double kSame = 1e-9;
    bool better = busiest < score.first * (1 - kSame) ||
                  (busiest <= score.first * (1 + kSame) && squares < score.second * (1 - kSame));
    if (!best.empty() && !better) continue;
    best = even.ends();
    score = {busiest, squares};
  }
  return best;
}

bool IsEvenCut(const ModelUnits& units, const std::vector<int>& ends) {
  std::vector<int> counts;  // units of each stage
  int first = 0;
  for (int end : ends) {
    auto at = std::find(units.begins.begin(), units.begins.end(), end);
    if (at == units.begins.end()) return false;
    int last = ToInt(at - units.begins.begin());
    counts.push_back(last - first);
    first = last;
  }
  for (const EvenCut& cut : EvenCuts(units, ToInt(ends.size()))) {
    std::vector<int> layers = counts;
    if (units.embedding && !cut.embedding_counts) --layers.front();
    if (units.head && !cut.head_counts) --layers.back();
    if (std::all_of(layers.begin(), layers.end(),
                    [&](int n) { return n == cut.most || (n + 1 == cut.most && n > 0); })) {
      return true;
    }
  }
  return false;
}

}  // namespace heddle
