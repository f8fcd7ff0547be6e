#!/usr/bin/env bash
# Fails where an op is told by its name: what an op is stands among its traits (src/ops/traits.h).
#
#   tests/op_names.sh ROOT          ROOT: the repository
#   tests/op_names.sh --self-check  runs the check on made-up trees and wants it to fail on each
#
# In src/ and bench/ the name of an op may be written where a node, rule or kernel of it is made or found: as an argument
# of the functions in `makers`. Everything else is an error: a comparison, a set, a map, a constant, an argument of another
# function, and the beginning or end of a name in starts_with, ends_with, find, contains or count. Names are those of
# tests/data/golden/rules.txt, which has all ops. Exempt are tests and
#   src/ops, src/runtime/kernels       declare the ops, and compute them
#   src/frontend/const_eval*           computes them at import
#   src/frontend/fuse*, rewriter*      rewrite graphs by patterns of ops
#   src/frontend/families              builds models of them
#   src/frontend/onnx/import_ops*,     tables of ONNX's operators, some of which have the names of ours
#     parameters.cc
#   src/report/kernel_table.cc         names of CUDA kernels
set -euo pipefail

exempt='^src/(ops|runtime/kernels|frontend/families)/|^src/frontend/(const_eval|fuse|rewriter)'
exempt+='|^src/frontend/onnx/(import_ops|parameters\.cc)|^src/report/kernel_table\.cc'
exempt+='|_test\.(cc|h)$|/testing\.h$|/random_model\.h$|_test_models\.h$'
makers='AddOp|AddNode|Emit|MakeRule|FindOp|FindKernel|curve'

check() {
  local root=$1 ops
  ops=$(sed -nE 's/^([A-Z][A-Za-z0-9]*) .* => .*/\1/p' "$root/tests/data/golden/rules.txt" | sort -u | paste -sd' ')
  (cd "$root" && find src bench -type f \( -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' \) |
    grep -vE "$exempt" | sort | xargs -r grep -HnE '"[A-Za-z0-9]+"' || true) |
    awk -v ops="$ops" -v makers="$makers" '
      BEGIN {
        count = split(ops, list, " ")
        for (i = 1; i <= count; i++) named[list[i]] = 1
        if (!count) { print "no ops found"; bad = 1 }
      }
      function is_part(word,   i) {  # the beginning or end of a name
        if (word !~ /^[A-Z]/) return 0
        for (i = 1; i <= count; i++) {
          if (substr(list[i], 1, length(word)) == word) return 1
          if (length(list[i]) > length(word) &&
              substr(list[i], length(list[i]) - length(word) + 1) == word) return 1
        }
        return 0
      }
      {
        match($0, /:[0-9]+:/)
        place = substr($0, 1, RSTART + RLENGTH - 2)
        text = substr($0, RSTART + RLENGTH)
        sub(/(^|[[:space:]])\/\/.*/, "", text)
        before = ""
        while (match(text, /"[A-Za-z0-9]+"/)) {
          before = before substr(text, 1, RSTART - 1)
          word = substr(text, RSTART + 1, RLENGTH - 2)
          made = before ~ "(^|[^A-Za-z_])(" makers ")\\([^()]*$"
          tells = before ~ /(starts_with|ends_with|find|contains|count)\($/ && is_part(word)
          if ((word in named && !made) || tells) {
            print place ": an op is told by its name, \"" word "\": ask for a trait (src/ops/traits.h)"
            bad = 1
          }
          before = before "_"
          text = substr(text, RSTART + RLENGTH)
        }
      }
      END { exit bad }'
}

self_check() {
  dir=$(mktemp -d)  # global: the trap needs it
  trap 'rm -rf "$dir"' EXIT
  local failures=0

  # try EXPECTATION FILE LINE: a tree of one file with one line besides what is allowed.
  try() {
    rm -rf "$dir/tree"
    mkdir -p "$dir/tree/src/base" "$dir/tree/bench" "$dir/tree/tests/data/golden" "$dir/tree/$(dirname "$2")"
    printf '%s f32[2] => x\n' Add Conv ConvTranspose Gather LayerNorm Split \
      >"$dir/tree/tests/data/golden/rules.txt"
    printf 'ValueId y = AddOp(graph, "Add", {}, {x, x}, "y")[0];  // "Gather"\n' >"$dir/tree/src/base/fine.cc"
    printf '%s\n' "$3" >"$dir/tree/$2"
    local got=pass
    check "$dir/tree" >"$dir/out" || got=fail
    if [[ $got != "$1" ]]; then
      echo "self-check: wanted $1, got $got for $2: $3"
      failures=1
    fi
  }
  try pass sim/a.cc ''
  try pass src/sim/a.cc 'if (TraitsOf(node.op).kind == OpKind::kConvolution) return;'
  try pass src/sim/a.cc 'const KernelFn kernel = FindKernel("Conv");'
  try pass src/sim/a.cc 'text += "Adding"; if (text.starts_with("Added")) return;'
  try pass src/sim/a.cc 'if (text.starts_with("conv")) return;'
  try pass src/ops/a.cc 'if (op == "Gather") return;'
  try pass src/runtime/kernels/a.cc '{"Gather", Gather},'
  try pass src/frontend/fuse_a.cc 'if (rw.node(id).op == "Add") return;'
  try pass src/sim/a_test.cc 'if (op == "Gather") return;'
  try fail src/sim/a.cc 'if (op == "Gather") return;'
  try fail src/sim/a.h 'return "Gather" != node.op;'
  try fail src/frontend/onnx/a.cc 'case HashOf("Gather"): return;'
  try fail src/runtime/cuda/a.cu 'static const std::set<std::string> kOps = {"Add", "Split"};'
  try fail src/sim/a.cc '    "Add",'
  try fail src/sim/a.cc 'constexpr std::string_view kLookup = "Gather";'
  try fail src/sim/a.cc 'if (Is(node, "Gather")) return AddOp(graph, "Add", {}, {x, x}, "y");'
  try fail src/sim/a.cc 'AddOp(graph, "Add", {}, {x}, name); if (op == "Split") return;'
  try fail src/sim/a.cc 'if (node.op.starts_with("Conv")) return;'
  try fail src/sim/a.cc 'if (node.op.ends_with("Norm")) return;'
  try fail src/sim/a.cc 'if (node.op.find("Transpose") != node.op.npos) return;'
  try fail bench/a.cc 'if (node.op == "Conv") ++count;'
  return $failures
}

if [[ ${1:-} == --self-check ]]; then
  self_check
elif [[ $# == 1 && -r $1/tests/data/golden/rules.txt ]]; then
  check "$1"
else
  echo "usage: tests/op_names.sh ROOT | --self-check" >&2
  exit 2
fi
