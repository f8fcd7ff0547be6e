// The text form of a graph: what a `.heddle` file holds, made to be read, written and diffed by
// people.
//
//   heddle 1
//   model "tiny"
//   input %ids: i64[4,32]
//   param %wte: f32[256,64]
//   const %scale: f32[] = 0.25
//   const %axes: i64[3] = [1, 2, 3]
//   const %zero: f32[8,8] = splat 0
//   const %mask: bool[1,1,32,32] = data xxh64:0123456789abcdef
//   %e: f32[4,32,64] = Gather(%wte, %ids) {axis=0}
//   %top: f32[4,2], %at: i64[4,2] = TopK(%x) {axis=1, k=2, largest=1}
//   output %loss
//
// Lines. The first says the version. Inputs, parameters and constants come in the order of their
// ids, then the nodes in theirs; `output` is last (several outputs stand in one line, with commas).
// Blank lines, and from `#` to the end of a line, are skipped, and not printed again. Names. %name
// where it has only letters, digits and _ . : / - and does not end in a colon, otherwise
// %"name"; quoted text escapes \" \\ \n \t \r and any other byte outside printable ASCII as \xNN.
// Ops and attributes have no % and are quoted by the same rule, unless they begin with a letter or
// _. Attributes. Integers 2, floats 2.0 1e-05 inf -inf nan (never mistaken for an integer), strings
// "a", lists [1, 2] and [1.0, 2.0], empty lists []i and []f. Constants. A number for a scalar;
// `splat` where all elements are equal; up to 64 elements row-major; else `data` and the hash of
// the bytes, and the bytes come from elsewhere (AttachData). `data none` is a constant of unknown
// content. Floats are shortest that round-trip; all NaNs are one NaN; bools are 0 and 1.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace heddle {

// What FromText accepts at most. Each has its own message; a file's own claims never allocate
// memory.
struct TextLimits {
  int64_t line_bytes = int64_t{16} << 20;
  int64_t name_bytes = 1024;
  int64_t values = 10'000'000;
  // Splats become dense tensors: at most so large each, and together (equal ones are shared).
  int64_t splat_bytes = int64_t{64} << 20;
  int64_t all_splat_bytes = int64_t{1} << 30;
};

// The graph must be sound (Verify). ToText(FromText(t)) == t for every t that ToText made, and
// FromText(ToText(g)) is g with its values numbered in the order of the text and without the data
// of parameters and of constants too large to print.
std::string ToText(const Graph& graph);

// Throws InputError "file:line:column: what is wrong; remedy". The result is sound (Verify), but
// its ops and types are not yet checked against the rules. Constants given by hash have no data
// yet. Linear in the size of the text.
Graph FromText(std::string_view text, std::string_view file, const TextLimits& limits = {});

// Gives data to the constants that wait for it (those with a data_hash, which must match) and to
// the parameters, from tensors by name; names the graph does not know are passed over. Where
// `tensors` has none of the parameters, they stay as they are; where it has some it must have all.
// Throws InputError naming in one line every tensor that is missing or has the wrong type or hash;
// the graph is then unchanged. `file` is where the tensors came from.
void AttachData(Graph& graph, std::map<std::string, HostTensor> tensors, std::string_view file);

// The quoted form of a string: "a\"b\n".
std::string Quote(std::string_view text);

// A value as the text names it: %w or %"odd name".
std::string ValueReference(std::string_view name);

// Whether a value, op or attribute may be written without quotes.
bool IsPlainName(std::string_view name);
bool IsPlainIdentifier(std::string_view name);

}  // namespace heddle
