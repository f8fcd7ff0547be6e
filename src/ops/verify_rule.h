// What holds of every rule, whatever op made it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ops/rule.h"

namespace heddle {

// Everything wrong with a rule for operands of these types, one line each; empty when it is sound. It
// checks that
//  - factors have names of their own and sizes other than 1, and each stands in some tensor
//  - operands have the shapes of their types; results have dtypes and sizes that can be counted
//  - a factor stands in at most one dimension of a tensor and at most once in a product
//  - a factor that can be split stands in every term of a concatenation or in none
//  - a parallel factor of an operand is one of a result too; a summed or maxed one is missing in some
//    result
//  - work, keep, linear and differentiable name operands, results and factors that exist, each once
//  - only floats are differentiable, and no gradient is asked of what is maxed or not a float
//  - a view has one operand, of which its results have the dtype, and no work
std::vector<std::string> Verify(const Rule& rule, std::span<const TensorType> operands);

}  // namespace heddle
