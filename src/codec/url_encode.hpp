// Keys in dumps, watch lines, statistics and on the live page: all but letters, digits and -._~ as %XX, so that they
// are safe in a line, in HTML and in a label.
#pragma once
#include <string>
#include <string_view>

namespace tandem::codec {

// At most three times the key's bytes at `to`; returns the end.
inline char* url_encode(std::string_view key, char* to) noexcept {
  constexpr char digits[] = "0123456789ABCDEF";
  for (const char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    const auto letter = static_cast<unsigned char>(byte | 0x20);
    const bool plain = (letter >= 'a' && letter <= 'z') || (byte >= '0' && byte <= '9') || byte == '-' || byte == '.' ||
                       byte == '_' || byte == '~';
    if (plain) {
      *to++ = c;
    } else {
      *to++ = '%';
      *to++ = digits[byte >> 4];
      *to++ = digits[byte & 15];
    }
  }
  return to;
}

inline void append_url_encoded(std::string& to, std::string_view key) {
  const std::size_t size = to.size();
  to.resize(size + 3 * key.size());
  to.resize(static_cast<std::size_t>(url_encode(key, to.data() + size) - to.data()));
}

inline std::string url_encoded(std::string_view key) {
  std::string out;
  append_url_encoded(out, key);
  return out;
}

}  // namespace tandem::codec
