// One function per model type of Hugging Face. It reads the keys of a `config.json` and translates them to keys of a
// built-in family. model_types.cc lists the types.
#pragma once

#include "frontend/hf/model_types.h"

namespace heddle {

Translation FromGpt2(const ConfigFile& c);
Translation FromLlama(const ConfigFile& c);
Translation FromMistral(const ConfigFile& c);
Translation FromQwen2(const ConfigFile& c);
Translation FromMixtral(const ConfigFile& c);
Translation FromNeox(const ConfigFile& c);
Translation FromOpt(const ConfigFile& c);
Translation FromBert(const ConfigFile& c);
Translation FromT5(const ConfigFile& c);
Translation FromVit(const ConfigFile& c);

}  // namespace heddle
