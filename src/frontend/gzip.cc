#include "frontend/gzip.h"

#include <zlib.h>

#include <array>

#include "base/check.h"
#include "base/error.h"

namespace heddle {

std::string Gunzip(std::string_view bytes, std::string_view file, int64_t max_bytes) {
  z_stream stream{};
  constexpr int kGzipOnly = 16 + MAX_WBITS;
  HEDDLE_CHECK_EQ(inflateInit2(&stream, kGzipOnly), Z_OK);
  std::string unzipped;
  std::array<char, 1 << 16> chunk;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  int status = Z_OK;
  while (status == Z_OK || (status == Z_STREAM_END && stream.avail_in > 0)) {
    if (status == Z_STREAM_END) inflateReset(&stream);  // gzip files may be concatenated
    stream.next_out = reinterpret_cast<Bytef*>(chunk.data());
    stream.avail_out = static_cast<uInt>(chunk.size());
    status = inflate(&stream, Z_NO_FLUSH);
    unzipped.append(chunk.data(), chunk.size() - stream.avail_out);
    if (static_cast<int64_t>(unzipped.size()) > max_bytes) break;
  }
  bool whole = status == Z_STREAM_END && stream.avail_in == 0;
  inflateEnd(&stream);
  if (static_cast<int64_t>(unzipped.size()) > max_bytes) {
    ThrowInput("{}: decompresses to more than {} bytes", file, max_bytes);
  }
  if (!whole) ThrowInput("{}: not a complete gzip file; run gunzip on it to see why", file);
  return unzipped;
}

}  // namespace heddle
