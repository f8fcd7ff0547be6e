// The text form of a graph, which `.heddle` files hold. It is made to be read, written and compared by people.
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
// Lines. The first line gives the version. Inputs, parameters and constants come in the order of their ids, then the
// nodes in theirs; `output` is last, with several outputs on one line, separated by commas. Blank lines and comments
// from `#` to the end of the line are skipped and not printed again.
//
// Names. A value is %name where the name has only letters, digits and _ . : / - and does not end in a colon, otherwise
// %"name". Quoted text escapes \" \\ \n \t \r, and any other byte outside of printable ASCII as \xNN. Ops and
// attributes have no % and are quoted by the same rule; they must also begin with a letter or _.
//
// Attributes. Integers are 2, floats 2.0 1e-05 inf -inf nan (never written like an integer), strings "a", lists [1, 2]
// and [1.0, 2.0], empty lists []i and []f.
//
// Constants. A scalar is a number. A tensor is `splat` and a number where all elements are equal, a row-major list of
// up to 64 elements, or else `data` and the hash of the bytes, which AttachData adds from elsewhere. `data none` is a
// constant of unknown content. Floats are printed with the fewest digits that read back as the same value; all NaNs are
// one NaN; bools are 0 and 1.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace heddle {

// The limits of FromText. Each has its own error message. Sizes that a file claims never allocate memory.
struct TextLimits {
  int64_t line_bytes = int64_t{16} << 20;
  int64_t name_bytes = 1024;
  int64_t values = 10'000'000;
  // Splats become dense tensors. These limits hold for each splat and for all together; equal splats are shared.
  int64_t splat_bytes = int64_t{64} << 20;
  int64_t all_splat_bytes = int64_t{1} << 30;
};

// The graph must be sound (Verify). ToText(FromText(t)) == t for every t that ToText made. FromText(ToText(g)) is g
// with its values numbered in the order of the text, without the data of parameters and of constants too large to
// print.
std::string ToText(const Graph& graph);

// Throws an InputError "file:line:column: what is wrong; remedy". The result is sound (Verify), but its ops and types
// are not checked against the rules. Constants given by hash have no data. Linear in the size of the text.
Graph FromText(std::string_view text, std::string_view file, const TextLimits& limits = {});

// Sets the data of constants that have only a data_hash, which must match, and of parameters, from tensors by name.
// Names that the graph does not have are ignored. If `tensors` has no parameter at all, parameters stay as they are; if
// it has some, it must have all. Throws an InputError that names in one line every tensor that is missing or has the
// wrong type or hash; the graph is then unchanged. `file` is the source of the tensors.
void AttachData(Graph& graph, std::map<std::string, HostTensor> tensors, std::string_view file);

// The quoted form of a string: "a\"b\n".
std::string Quote(std::string_view text);

// The reference to a value in the text: %w or %"odd name".
std::string ValueReference(std::string_view name);

// Whether a value, op or attribute may be written without quotes.
bool IsPlainName(std::string_view name);
bool IsPlainIdentifier(std::string_view name);

}  // namespace heddle
