// Plans as files: JSON that a person can read, change and diff.
//
//   {"heddle_plan": 1,
//    "model": {"source": "gpt2", "hash": "0123456789abcdef", "fused": true},
//    "batch": 8, "microbatches": 2, "batch_statistics": "global",
//    "schedule": "1f1b", "chunks": 1,
//    "precision": {"compute": "bf16", "gradients": "f32", "master": "f32", "moments": "f32", "products": "fp8"},
//    "optimizer": "adamw", "zero": {"level": 1, "axes": ["dp"]}, "bucket_bytes": 33554432, "prefetch": 1,
//    "search_stopped": true,
//    "stages": [
//      {"blocks": [0, 7], "devices": [0, 7], "mesh": {"dp": 2, "tp": 4}, "recompute": "none",
//       "times": {"forward": 1.0, "backward": 1.0, "weight": 1.0},
//       "strategies": {
//         "chain 0": ["LayerNorm dp=a0", "Linear dp=i0 tp=j", ...],
//         "nodes": {"gather": "Gather dp=i0 tp=v", ...},
//         "exceptions": {"h.3.ln_1": "LayerNorm dp=a0 tp=a1"}}}],
//    "cluster": {...}}
//
// Blocks and devices are from the first to the last, both counted in. A chain's list is one strategy per node of
// its block (fold/fold.h), for all copies of it in the stage; "as stage 2" repeats what that stage says of the
// chain. Other nodes of the stage, and side nodes it reads, are named by their first result; so are nodes of a
// copy that differ. Bytes outside printable ASCII, and backslashes, are \xNN in names. `recompute` is a word, or a
// list of one per block. `products` is there where matrix products are not as compute is, `search_stopped` where
// `--budget` or an interrupt ended the search. The cluster is in the schema of cluster files (docs/clusters.md).
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "plan/plan.h"

namespace heddle {

// [first, last], or a list of such ranges.
Json DevicesToJson(const Mesh& mesh);

// What one needs to load the model that the rest of the plan is about.
struct PlanHeader {
  ModelRef model;
  int64_t batch = 1;
};

// The plan must be sound (plan/verify.h). The same plan gives the same bytes.
std::string ToJson(const Plan& plan, const Model& model);

// Both throw InputError "file: path: value: remedy". A plan that is returned is sound.
PlanHeader ReadPlanHeader(const Json& json, std::string_view file);
Plan FromJson(const Json& json, const Model& model, std::string_view file);

}  // namespace heddle
