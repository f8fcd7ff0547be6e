# cmake -DIN=file -DOUT=file.cc -DFUNCTION=name -P Bundle.cmake: the bytes of a file as C++ (see heddle_bundle).
file(READ "${IN}" bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE "${OUT}" "#include <string_view>

namespace heddle {
namespace {
constexpr unsigned char kBytes[] = {
${bytes}};
}  // namespace

std::string_view ${FUNCTION}() { return {reinterpret_cast<const char*>(kBytes), sizeof(kBytes)}; }

}  // namespace heddle
")
