#include "learn/contest.h"

#include <algorithm>

#include "base/check.h"
#include "plan/precision.h"

namespace heddle {

class Contest::Changing : public Prior {
 public:
  std::vector<std::vector<double>> Of(const PlacementGraph& graph,
                                      const std::vector<PrefixState>& states) override {
    return now->Of(graph, states);
  }
  Prior* now = nullptr;
};

Contest::Contest(const Lesson& lesson)
    : problem_{.model = lesson.model, .cluster = lesson.cluster} {
  problem_.precision = DType::kF32;
  problem_.local_batch_statistics = true;
  computed_ = WithComputeType(lesson.model, problem_.precision);
  space_ = std::make_unique<Placements>(problem_, computed_);
  prior_ = std::make_unique<Changing>();
  game_ = std::make_unique<PlacementGame>(*space_, *prior_);
}

Contest::~Contest() = default;

bool Contest::IsOpen() const {
  return game_->baseline() > 0 && game_->Of(space_->Everywhere()).fits &&
         space_->actions().size() > 1;
}

TreeResult Contest::Run(Prior& prior, const TreeOptions& options) {
  prior_->now = &prior;
  TreeResult result = SearchTree(*game_, options);
  prior_->now = nullptr;
  return result;
}

TreeResult Contest::Run(Prior& prior, int64_t playouts) {
  TreeOptions options;
  options.playouts = playouts;
  return Run(prior, options);
}

double Contest::BestSeconds() const {
  std::vector<PlacementStrategy> best = game_->Best(1);
  HEDDLE_CHECK(!best.empty(), "no strategy fits: call IsOpen first");
  return game_->Of(best.front()).seconds;
}

int64_t Contest::PlayoutsToBest(const TreeResult& result, double within, int64_t most) const {
  Evaluated near;
  near.possible = near.fits = true;
  near.seconds = BestSeconds() * (1 + within);
  double wanted = game_->ValueOf(near);
  for (const TreeResult::Improvement& improvement : result.improvements) {
    if (improvement.value >= wanted) {
      return std::clamp<int64_t>(improvement.playout, 1, most);
    }
  }
  return most;
}

}  // namespace heddle
