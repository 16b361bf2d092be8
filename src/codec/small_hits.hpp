// Replies to gets that found a small item, which are most replies. The output is reserved for a whole strip of them.
// Each part is stored in pieces of 8 or 16 bytes, and the next part overwrites the excess.
#pragma once
#include <array>

#include "codec/binary.hpp"
#include "codec/digits.hpp"
#include "codec/reply.hpp"
#include "codec/reply_writer.hpp"
#include "codec/scan.hpp"

namespace tandem::codec {

// Lengths of three digits: with the surrounding text of a reply they fit a piece of 8 bytes.
inline constexpr std::uint32_t small_value_bytes_max = 999;

namespace detail {
// " 0 LENGTH\r\n" of each length.
inline constexpr std::size_t length_text_bytes = 8;
inline constexpr auto length_texts = [] {
  std::array<char, (small_value_bytes_max + 2) * length_text_bytes>
      all{};  // one more: a piece may start inside the last
  for (std::uint32_t length = 0; length <= small_value_bytes_max; ++length) {
    char* p = all.data() + length * length_text_bytes;
    for (const char c : {' ', '0', ' '}) *p++ = c;
    if (length >= 100) *p++ = static_cast<char>('0' + length / 100);
    if (length >= 10) *p++ = static_cast<char>('0' + length / 10 % 10);
    for (const char c : {static_cast<char>('0' + length % 10), '\r', '\n'}) *p++ = c;
  }
  return all;
}();

// The number of bytes of each.
inline constexpr auto length_text_ends = [] {
  std::array<std::uint8_t, small_value_bytes_max + 1> all{};
  for (std::uint32_t length = 0; length <= small_value_bytes_max; ++length)
    all[length] = static_cast<std::uint8_t>(6 + (length >= 10 ? 1 : 0) + (length >= 100 ? 1 : 0));
  return all;
}();

inline constexpr std::size_t piece_bytes_max = 16;

template <std::size_t Bytes>
TD_INLINE void put(char* to, const char* from) noexcept {
  std::memcpy(to, from, Bytes);
}

// The part of " 0 LENGTH\r\n" from `from` on.
TD_INLINE char* put_length(char* p, std::uint32_t length, std::size_t from) noexcept {
  put<length_text_bytes>(p, length_texts.data() + length * length_text_bytes + from);
  return p + length_text_ends[length] - from;
}

// The parts of a reply, loaded before the first store, because a store through a char pointer may alias anything.
struct SmallHit {
  const Item* item;
  const char *key, *value;
  std::uint32_t value_bytes, key_bytes;
  bool has_flags;

  TD_INLINE SmallHit(const Item* it, const char* k, std::uint32_t of_key, std::uint32_t of_value, bool flags) noexcept
      : item(it),
        key(k),
        value(it->bytes() + sizeof(Item) + (flags ? sizeof(std::uint32_t) : 0) + of_key),
        value_bytes(of_value),
        key_bytes(of_key),
        has_flags(flags) {}
};

// Copies a small value; most are short.
TD_INLINE char* copy_small_value(char* to, const char* from, std::uint32_t bytes) noexcept {
#if !TD_THREAD_SANITIZER
  if (TD_LIKELY(bytes - 8 <= 8)) {
    using namespace tandem::detail;  // NOLINT(google-build-using-namespace): the pieces that it is made of
    racing_8(to, from);
    racing_8(to + bytes - 8, from + bytes - 8);
    return to + bytes;
  }
#endif
  return racing_copy(to, from, bytes);
}

// Copies the key of an item without flags. It starts in the middle of a granule, so pieces of half a granule never
// leave the slot.
TD_INLINE char* put_key_without_flags(char* to, const Item* item, std::uint32_t key_bytes) noexcept {
  const char* const from = item->bytes() + sizeof(Item);
  static_assert(sizeof(Item) == 16 && granule_bytes == 32);
  return racing_copy_pieces(to, from, key_bytes);  // may copy a part of the value, too
}
TD_INLINE char* put_key(char* to, const SmallHit& hit) noexcept {
  if (TD_UNLIKELY(hit.has_flags)) return copy_short(to, hit.key, hit.key_bytes);
  return put_key_without_flags(to, hit.item, hit.key_bytes);
}

TD_INLINE char* put_text_hit(char* p, const SmallHit& hit, bool last_of_line, bool with_cas,
                             std::uint64_t cas) noexcept {
  put<8>(p, "VALUE   ");
  p = put_key(p + 6, hit);
  if (TD_LIKELY(!hit.has_flags)) {
    p = put_length(p, hit.value_bytes, 0);
  } else {
    *p = ' ';
    p = put_length(write_digits(p + 1, hit.item->client_flags()), hit.value_bytes, 2);
  }
  if (TD_UNLIKELY(with_cas)) {
    p[-2] = ' ';  // in place of the line end
    p = write_line_end(write_digits(p - 1, cas));
  }
  p = copy_small_value(p, hit.value, hit.value_bytes);
  put<8>(p, "\r\nEND\r\n");
  return p + (last_of_line ? 7 : 2);
}

TD_INLINE char* put_meta_hit(char* p, const SmallHit& hit) noexcept {
  put<2>(p, "VA");
  p = put_length(p + 2, hit.value_bytes, 2);
  return write_line_end(copy_small_value(p, hit.value, hit.value_bytes));
}

// The same with the item's key, which may differ from the requested one.
TD_INLINE char* put_meta_key_hit(char* p, const Item* item, std::uint32_t key_bytes, const char* value,
                                 std::uint32_t value_bytes, bool has_flags) noexcept {
  put<2>(p, "VA");
  p = put_length(p + 2, value_bytes, 2);
  put<2>(p - 2, " k");  // in place of the line end
  if (TD_LIKELY(!has_flags)) {
    p = put_key_without_flags(p, item, key_bytes);
  } else {
    p = copy_short(p, value - key_bytes, key_bytes);
  }
  return write_line_end(copy_small_value(write_line_end(p), value, value_bytes));
}
TD_INLINE char* put_binary_hit(char* p, const SmallHit& hit, const char* request, bool with_key,
                               std::uint64_t cas) noexcept {
  namespace at = binary::at;
  static constexpr char header[] = {'\x81', 0, 0, 0, binary::flags_bytes, 0, 0, 0};
  static_assert(sizeof header == at::body_bytes && header[0] == static_cast<char>(binary::response_magic));
  const std::uint32_t key_bytes = with_key ? hit.key_bytes : 0;
  const char opcode = request[at::opcode];
  put<sizeof header>(p, header);
  p[at::opcode] = opcode;
  p[at::key_bytes + 1] = static_cast<char>(key_bytes);
  binary::write(p + at::body_bytes, static_cast<std::uint32_t>(binary::flags_bytes) + key_bytes + hit.value_bytes);
  put<sizeof(std::uint32_t)>(p + at::opaque, request + at::opaque);
  binary::write(p + at::cas, cas);
  binary::write(p + binary::header_bytes, TD_LIKELY(!hit.has_flags) ? 0 : hit.item->client_flags());
  p += binary::header_bytes + binary::flags_bytes;
  if (with_key) p = put_key(p, hit);
  return copy_small_value(p, hit.value, hit.value_bytes);
}

}  // namespace detail

// A text reply's line, with flags and CAS id, is longer than a packet's header.
inline constexpr std::size_t small_hit_bytes_max = sizeof("VALUE ") + key_bytes_max + 3 * (1 + digits_max) +
                                                   small_value_bytes_max + line::end.size() + 4 +
                                                   detail::piece_bytes_max;
static_assert(sizeof("VALUE ") + 3 * (1 + digits_max) > binary::header_bytes + binary::flags_bytes);

}  // namespace tandem::codec
