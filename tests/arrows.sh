#!/usr/bin/env bash
# Fails on an #include that is not an arrow of the design.
#
#   tests/arrows.sh ARROWS SRC     ARROWS: lines "module dep dep..." (the build writes it from
#                                  CMakeLists.txt), transitive; SRC: the folder of the modules.
#                                  Lines "module/folder module/folder..." are the arrows between the
#                                  folders of a module; its root may include all of them, they not it
#   tests/arrows.sh --self-check   runs the check on made-up trees and wants it to fail on each
#
# Also: includes between modules are written from src/ ("graph/graph.h"), and the headers of
# libtorch are seen by learn/ and runtime/ only.
set -euo pipefail

check() {
  local arrows=$1 src=$2
  find "$src" -mindepth 2 -type f \( -name '*.h' -o -name '*.cc' \) -print0 | sort -z |
    xargs -0 -r grep -HnE '^[[:space:]]*#[[:space:]]*include' |
    awk -v src="$src/" -v arrows="$arrows" '
      function complain(text) { print place ": " text; bad = 1 }
      function folder(path,   words) {  # module/folder of a path, where that has arrows, or ""
        split(path, words, "/")
        return (words[1] "/" words[2]) in known ? words[1] "/" words[2] : ""
      }
      function reach(from, to,   i, n, names) {  # is there a path of arrows?
        if (from == to) return 1
        n = split(deps[from], names, " ")
        for (i = 1; i <= n; i++) if (reach(names[i], to)) return 1
        return 0
      }
      BEGIN {
        while ((getline line < arrows) > 0) {
          split(line, words, " ")
          known[words[1]] = 1
          deps[words[1]] = substr(line, length(words[1]) + 2)
        }
      }
      {
        line = substr($0, length(src) + 1)
        match(line, /:[0-9]+:/)
        place = substr(line, 1, RSTART + RLENGTH - 2)
        module = place; sub(/\/.*/, "", module)
        text = substr(line, RSTART + RLENGTH)
        if (!match(text, /["<][^">]*[">]/)) next
        quote = substr(text, RSTART, 1)
        path = substr(text, RSTART + 1, RLENGTH - 2)
        target = path
        if (!sub(/\/.*/, "", target)) target = ""
        total++
        if (!(module in known)) complain("src/" module " is not a module of CMakeLists.txt")
        else if (target ~ /^(torch|ATen|c10|caffe2)$/) {
          if (module != "learn" && module != "runtime")
            complain(path ": libtorch is for learn/ and runtime/ only")
        }
        else if (target in known) {
          from = folder(place); to = folder(path)
          if (!reach(module, target)) complain("no arrow from " module " to " target " (" path ")")
          else if (module == target && from != "" && !reach(from, to == "" ? module : to))
            complain("no arrow from " from " to " (to == "" ? module : to) " (" path ")")
        }
        else if (quote == "\"") complain("\"" path "\": write the path from src/, or use <> for a library")
      }
      END {
        if (!total) { print "no #include found under " src; bad = 1 }
        exit bad
      }'
}

self_check() {
  dir=$(mktemp -d)  # global: the trap needs it
  trap 'rm -rf "$dir"' EXIT
  printf 'base \ngraph base\nops graph\nops/low \nops/high ops/low\nruntime ops\nlearn ops\n' >"$dir/arrows"
  local failures=0

  # try EXPECTATION FILE LINE: a tree of one file with one line besides what is allowed.
  try() {
    rm -rf "$dir/src"
    mkdir -p "$dir/src/ops" "$dir/src/$(dirname "$2")"
    printf '#include "base/error.h"\n#include <vector>\n' >"$dir/src/ops/fine.cc"
    printf '%s\n' "$3" >"$dir/src/$2"
    local got=pass
    check "$dir/arrows" "$dir/src" >"$dir/out" || got=fail
    if [[ $got != "$1" ]]; then
      echo "self-check: wanted $1, got $got for $2: $3"
      failures=1
    fi
  }
  try pass ops/a.cc '#include "graph/graph.h"'
  try pass ops/a.cc '#include "base/error.h"'            # transitive
  try pass ops/deep/a.h '#include "ops/rule.h"'
  try pass runtime/a.cc '#include <ATen/ATen.h>'
  try pass learn/a.cc '#include <torch/types.h>'
  try pass graph/a.cc '// #include "ops/rule.h"'
  try fail graph/a.cc '#include "ops/rule.h"'
  try fail graph/a_test.cc '  #  include "ops/rule.h"'
  try fail graph/deep/a.h '#include "ops/rule.h"'
  try fail graph/a.h '#include <ops/rule.h>'
  try fail base/a.h '#include "graph/graph.h"'
  try fail learn/a.cc '#include "runtime/executor.h"'
  try fail ops/a.cc '#include <torch/types.h>'
  try fail ops/a.cc '#include "c10/util/Half.h"'
  try fail ops/a.cc '#include <ATen/ATen.h>'
  try fail ops/a.cc '#include "../base/error.h"'
  try fail ops/a.cc '#include "rule.h"'
  try pass ops/high/a.cc '#include "ops/low/a.h"'
  try pass ops/high/a.cc '#include "ops/high/b.h"'
  try pass ops/a.cc '#include "ops/low/a.h"'             # the root
  try pass ops/low/a.cc '#include "graph/graph.h"'
  try fail ops/low/a.cc '#include "ops/high/a.h"'
  try fail ops/low/a.cc '#include "ops/rule.h"'
  try fail ops/low/a.cc '#include "runtime/a.h"'
  try fail stray/a.cc '#include <vector>'
  return $failures
}

if [[ ${1:-} == --self-check ]]; then
  self_check
elif [[ $# == 2 && -r $1 && -d $2 ]]; then
  check "$1" "${2%/}"
else
  echo "usage: tests/arrows.sh ARROWS SRC | --self-check" >&2
  exit 2
fi
