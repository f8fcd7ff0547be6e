// Whether a plan is sound.
//
// Verify returns every rule it finds broken, one line each:
//   model       the hash is the model's
//   cluster     sound (cluster/cluster.h)
//   batch       the model's; divisible into the micro-batches; no node forbids them (FindMicrobatchSums)
//   stages      at least one; in order they cover all blocks of the model, each once
//   meshes      at most five axes, with names of small letters and digits, each once, and sizes of at least 1;
//               unlike shares are one for each device, at least 1, and divide a micro-batch together; along such an
//               axis nodes split the batch or nothing;
//               devices are the cluster's, named ones ascend
//   chunks      at least 1, and divide the stages; with several, stage i is on the devices of stage
//               i mod (stages / chunks) and on no others; with one, stages may share devices
//   strategies  every node of the stage and every side node it reads has one, others have none; one choice per
//               axis: replicate, a factor of the node's rule that is not whole (expanded: where the op has an
//               expansion), or a set of operands in which the op is linear
//   parameters  one that several stages read is stored alike on each: axes of the mesh and sharding are the same
//   recompute   a choice per block
//   sync        as SyncRules has it (plan/gradient_sync.h); nothing but kReduce with ZeRO 2 and 3
//   times       finite and positive
//   the rest    schedule and optimizer are named; compute and gradients are f32, bf16 or f16, master weights and
//               moments f32 or bf16, products of fp8 come with a compute type of 16 bits; ZeRO's level is 0 to 3 and
//               its axes are axes of a mesh; what is offloaded is so by devices with a link to a host; bucket_bytes is
//               positive; prefetch 0 to 64
// Whether the schedule is known is not asked here. O(nodes x stages).
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"

namespace heddle {

constexpr int kMaxPrefetch = 64;

std::vector<std::string> Verify(const Plan& plan, const Model& model);

// Throws InputError beginning with `what` where the plan is not sound: the first line, and how many more there are.
void RequireSound(const Plan& plan, const Model& model, const std::string& what);

}  // namespace heddle
