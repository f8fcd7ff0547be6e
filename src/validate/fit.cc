#include "validate/fit.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "cost/constants.h"

namespace heddle {
namespace {

constexpr double kErrorScale = 0.05;

struct Slot {
  std::string name;
  double scale;  // expected distance of its logarithm from the default
};

const DeviceConstants& DeviceOf(const Prediction& row) {
  DeviceType type;
  type.name = row.device;
  return ConstantsOf(type);
}

// The constants to which a term of a row is proportional.
std::vector<Slot> SlotsOf(const Prediction& row, Term term) {
  constexpr double kDevice = 0.3, kStack = 0.12, kLinks = 0.5, kHost = 1.5;
  std::string device(DeviceOf(row).prefix);
  switch (term) {
    case Term::kProducts:
      return {{device + " products", kDevice}, {row.stack + " products", kStack}};
    case Term::kFp8:
      return {{device + " fp8", kDevice}, {row.stack + " products", kStack}};
    case Term::kAttention:
      return {{device + " attention", kDevice}, {row.stack + " attention", kDevice}};
    case Term::kTraffic:
    case Term::kOptimizer:
      return {{device + " traffic", kDevice}, {row.stack + " traffic", kDevice}};
    case Term::kNear:
      return {{device + " near", kDevice}, {row.stack + " links", kLinks}};
    case Term::kFar:
      return {{device + " far", kDevice}, {row.stack + " links", kLinks}};
    case Term::kHost:
      return {{row.stack + " host", kHost}};
    default:
      return {};
  }
}

double FactorOf(const FitFactors& factors, const std::string& name) {
  auto found = factors.find(name);
  return found == factors.end() ? 1 : found->second;
}

// Solves a x = b in place for a symmetric positive definite matrix (Cholesky).
std::vector<double> Solve(std::vector<std::vector<double>> a, std::vector<double> b) {
  size_t n = b.size();
  for (size_t j = 0; j < n; ++j) {
    for (size_t k = 0; k < j; ++k) {
      for (size_t i = j; i < n; ++i) a[i][j] -= a[i][k] * a[j][k];
    }
    double root = std::sqrt(a[j][j]);
    for (size_t i = j; i < n; ++i) a[i][j] /= root;
  }
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < i; ++k) b[i] -= a[i][k] * b[k];
    b[i] /= a[i][i];
  }
  for (size_t i = n; i-- > 0;) {
    for (size_t k = i + 1; k < n; ++k) b[i] -= a[k][i] * b[k];
    b[i] /= a[i][i];
  }
  return b;
}

class Fitter {
 public:
  Fitter(const std::vector<Prediction>& rows, const std::string& without)
      : current_(CurrentFactors(rows)) {
    std::map<std::string, double> counts;
    for (const Prediction& row : rows) {
      if (!row.error() || row.source == without) continue;
      rows_.push_back(&row);
      counts[row.source] += 1;
    }
    for (const Prediction* row : rows_) {
      weights_.push_back(1 / (counts[row->source] * kErrorScale * kErrorScale));
      for (size_t t = 0; t < kTermCount; ++t) {
        for (const Slot& slot : SlotsOf(*row, static_cast<Term>(t))) {
          if (index_.try_emplace(slot.name, index_.size()).second) slots_.push_back(slot);
        }
      }
    }
  }

  FitFactors Run() {
    std::vector<double> x(slots_.size(), 0);
    for (size_t i = 0; i < slots_.size(); ++i) x[i] = std::log(FactorOf(current_, slots_[i].name));
    for (int round = 0; round < 40; ++round) {
      std::vector<double> step = Step(x);
      for (size_t i = 0; i < x.size(); ++i) x[i] += std::clamp(step[i], -0.5, 0.5);
    }
    FitFactors fitted;
    for (size_t i = 0; i < slots_.size(); ++i) fitted[slots_[i].name] = std::exp(x[i]);
    return fitted;
  }

 private:
  std::vector<double> Step(const std::vector<double>& x) const {
    size_t n = slots_.size();
    std::vector<std::vector<double>> a(n, std::vector<double>(n, 0));
    std::vector<double> b(n, 0);
    for (size_t i = 0; i < n; ++i) {
      double weight = 1 / (slots_[i].scale * slots_[i].scale);
      a[i][i] += weight;
      b[i] -= weight * x[i];
    }
    for (size_t r = 0; r < rows_.size(); ++r) {
      const Prediction& row = *rows_[r];
      std::map<size_t, double> share;
      double predicted = 0;
      for (size_t t = 0; t < kTermCount; ++t) {
        double seconds = row.critical.seconds[t];
        std::vector<Slot> of = SlotsOf(row, static_cast<Term>(t));
        for (const Slot& slot : of) {
          seconds *= std::exp(x[index_.at(slot.name)]) / FactorOf(current_, slot.name);
        }
        for (const Slot& slot : of) share[index_.at(slot.name)] += seconds;
        predicted += seconds;
      }
      double residual = std::log(*row.measured) - std::log(predicted);
      for (const auto& [i, si] : share) {
        b[i] += weights_[r] * residual * si / predicted;
        for (const auto& [j, sj] : share) {
          a[i][j] += weights_[r] * si * sj / (predicted * predicted);
        }
      }
    }
    return Solve(std::move(a), std::move(b));
  }

  FitFactors current_;
  std::vector<const Prediction*> rows_;
  std::vector<double> weights_;
  std::vector<Slot> slots_;
  std::map<std::string, size_t> index_;
};

}  // namespace

FitFactors CurrentFactors(const std::vector<Prediction>& rows) {
  const DeviceConstants plain;
  const StackCosts usual;
  FitFactors factors;
  for (const Prediction& row : rows) {
    if (!row.predicted) continue;
    const DeviceConstants& device = DeviceOf(row);
    std::string name(device.prefix);
    factors[name + " products"] = plain.products / device.products;
    factors[name + " fp8"] = plain.fp8 / device.fp8;
    factors[name + " attention"] = plain.attention / device.attention;
    factors[name + " traffic"] = plain.traffic / device.traffic;
    factors[name + " near"] = plain.near / device.near;
    factors[name + " far"] = plain.far / device.far;
    const StackCosts& stack = FindStackCosts(row.stack);
    factors[row.stack + " products"] = stack.products;
    factors[row.stack + " attention"] = stack.attention;
    factors[row.stack + " traffic"] = stack.traffic;
    factors[row.stack + " links"] = stack.links;
    factors[row.stack + " host"] = stack.host / usual.host;
  }
  return factors;
}

FitFactors Fit(const std::vector<Prediction>& rows, const std::string& without) {
  return Fitter(rows, without).Run();
}

double Repredict(const Prediction& row, const FitFactors& current, const FitFactors& fitted) {
  double predicted = 0;
  for (size_t t = 0; t < kTermCount; ++t) {
    double seconds = row.critical.seconds[t];
    for (const Slot& slot : SlotsOf(row, static_cast<Term>(t))) {
      // Constants without any row in the fit have their defaults.
      seconds *= FactorOf(fitted, slot.name) / FactorOf(current, slot.name);
    }
    predicted += seconds;
  }
  return predicted;
}

}  // namespace heddle
