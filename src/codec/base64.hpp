// Base64 (RFC 4648) for binary keys of the meta protocol, as lenient as memcached's decoder is.
//
// No packaged library fits: the decoders of OpenSSL and libb64 accept other inputs than memcached's, which replies must
// match.
#pragma once
#include <cstddef>

namespace tandem::codec {

constexpr std::size_t base64_bytes(std::size_t binary_bytes) noexcept { return (binary_bytes + 2) / 3 * 4; }
constexpr std::size_t base64_binary_bytes_max(std::size_t text_bytes) noexcept { return text_bytes / 4 * 3; }

// Writes base64_bytes(bytes) at `to`; returns the end.
char* base64_encode(char* to, const char* from, std::size_t bytes) noexcept;

// Writes at most base64_binary_bytes_max(bytes) at `to`; returns their number, 0 for an error. Bytes outside the
// alphabet are skipped, the rest must form whole groups of four, and the first group with padding ends the text.
// Padding counts as zeros anywhere in a group.
std::size_t base64_decode(char* to, const char* from, std::size_t bytes) noexcept;

}  // namespace tandem::codec
