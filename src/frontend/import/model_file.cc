#include "frontend/import/model_file.h"

namespace heddle {

CallName CallNames::Add(const std::string& name) {
  const auto [it, fresh] = ids_.try_emplace(name, CallName::FromIndex(names_.size()));
  if (fresh) names_.push_back(&it->first);
  return it->second;
}

}  // namespace heddle
