// A published run as heddle's own model, cluster and plan.
//
//   for (const PublishedRun& run : BundledRuns()) {
//     RunSetup setup = Configure(run);
//     if (!setup.reason.empty()) continue;             // the reason why it cannot be predicted
//     Program program = Lower(setup.model, setup.plan);
//   }
//
// Descriptions in words are read as follows.
//
//   recompute   "none", "full" and "selective: attention core" are the three policies. "selective per operator"
//               (torchtitan: results of attention and of every second matrix product are kept, about a third of what
//               a layer keeps) is full recomputation of two layers of three, which recomputes a little more; "selective
//               per layer" (of an unpublished share of the layers) that of every second layer
//   sharding    none, zero1 or Megatron's distributed optimizer, zero2 (FSDP's SHARD_GRAD_OP), zero3 (FSDP); "HSDP" is
//               zero3 within a node. Ranks of the context axis share in it
//   schedule    1F1B, interleaved with virtual stages; zero bubble at the memory of 1F1B ("1p") is zb-h1, at twice
//               that ("2p") zb
//   stages      of equal layers; where these do not divide, embedding and head count as a layer each, as in BLOOM and
//               the zero-bubble runs; otherwise as even as can be
//   precision   fp8 is bf16 with products of fp8. In which type gradients are: see stacks.h
//   cluster     nodes of equal devices behind a switch; rates that were not published are those of NVIDIA's own
//               machines of that generation
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"
#include "validate/published_runs.h"
#include "validate/stacks.h"

namespace heddle {

struct RunSetup {
  std::string reason;                // why there is no plan; empty if there is one
  std::string stack;                 // its name
  Model model;                       // at the global batch
  Plan plan;                         // valid; the source of its model is a built-in expression
  std::vector<std::string> remarks;  // differences between the plan and the run
};

// Does not throw InputError: a run that cannot be configured has a `reason`. The cost is that of building and analysing
// the model.
RunSetup Configure(const PublishedRun& run);

// The parts of Configure. They throw InputError for descriptions that they do not know.

// The built-in model, such as "gpt:layers=24,...,batch=512".
std::string ModelExpression(const PublishedRun& run, const Stack& stack, int64_t batch);
Cluster ClusterOf(const PublishedRun& run, std::vector<std::string>& remarks);

// The number of layers of each stage.
std::vector<int64_t> LayerLayout(int64_t layers, int64_t stages);

}  // namespace heddle
