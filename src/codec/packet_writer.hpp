// Packets of the binary protocol's replies, with opcode and opaque from the request's header (Query::wire).
#pragma once
#include <cstdint>
#include <cstring>
#include <string_view>

#include "codec/binary.hpp"
#include "codec/output.hpp"
#include "query/query.hpp"

namespace tandem::codec {

// Returns the end of the header, behind which the parts belong. REQUIRES: binary::header_bytes are writable.
TD_INLINE char* write_header(char* p, const Query& q, binary::Status status, std::uint32_t extras_bytes,
                             std::uint32_t key_bytes, std::uint32_t value_bytes, std::uint64_t cas) noexcept {
  namespace at = binary::at;
  p[at::magic] = static_cast<char>(binary::response_magic);
  p[at::opcode] = q.wire[at::opcode];
  binary::write(p + at::key_bytes, static_cast<std::uint16_t>(key_bytes));
  p[at::extras_bytes] = static_cast<char>(extras_bytes);
  p[at::data_type] = 0;
  binary::write(p + at::status, static_cast<std::uint16_t>(status));
  binary::write(p + at::body_bytes, extras_bytes + key_bytes + value_bytes);
  std::memcpy(p + at::opaque, q.wire + at::opaque, sizeof(std::uint32_t));
  binary::write(p + at::cas, cas);
  return p + binary::header_bytes;
}

inline void write_packet(const Query& q, binary::Status status, std::string_view key, std::string_view value,
                         std::uint64_t cas, Output& out) {
  write_header(out.reserve(binary::header_bytes), q, status, 0, static_cast<std::uint32_t>(key.size()),
               static_cast<std::uint32_t>(value.size()), cas);
  out.commit(binary::header_bytes);
  out.append(key);
  out.append(value);
}

inline void write_status(const Query& q, binary::Status status, std::string_view text, Output& out) {
  write_packet(q, status, {}, text, 0, out);
}

}  // namespace tandem::codec
