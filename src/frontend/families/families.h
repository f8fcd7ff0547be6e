// The families, one file each. To add one, write its file and add a line here and in the list in built_in.cc; published
// members go to names.cc.
#pragma once

#include "frontend/families/built_in.h"

namespace heddle {

Family GptFamily();
Family LlamaFamily();
Family MoeFamily();
Family BertFamily();
Family T5Family();
Family VitFamily();
Family ResnetFamily();
Family WideResnetFamily();
Family VggFamily();
Family InceptionFamily();

}  // namespace heddle
