// The smallest parts of the text form: elements of tensors and values of attributes.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/dtype.h"
#include "graph/graph.h"
#include "graph/text_cursor.h"

namespace heddle {

// Reads one number and appends it as `dtype` stores it. Throws an InputError where it is outside of the range of `dtype`.
void AppendElement(LineCursor& line, DType dtype, std::vector<std::byte>& out);

// Reads a number, a string, or a list of integers or of floats.
Attribute ParseAttribute(LineCursor& line);

}  // namespace heddle
