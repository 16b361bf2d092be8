// The floor: the minimum work of a server for memcached requests in user space. It finds the end of each request and
// appends a ready-made reply, without storage or lookup.
#pragma once

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "codec/binary.hpp"

namespace tandem::load {

// One line: the position of its '\n', and the number of spaces before it.
struct Line {
  const char* end;  // nullptr: no line end yet
  std::uint32_t spaces;
};

// Of 16 bits. std::popcount is a library call on the baseline x86-64.
inline std::uint32_t count_bits(std::uint32_t bits) {
  bits -= bits >> 1 & 0x5555;
  bits = (bits & 0x3333) + (bits >> 2 & 0x3333);
  bits = (bits + (bits >> 4)) & 0x0f0f;
  return (bits + (bits >> 8)) & 0x1f;
}

// REQUIRES: 15 bytes past `end` are readable.
inline Line find_line(const char* begin, const char* end) {
  std::uint32_t spaces = 0;
#if defined(__SSE2__)
  const __m128i newline = _mm_set1_epi8('\n');
  const __m128i space = _mm_set1_epi8(' ');
  for (const char* at = begin; at < end; at += 16) {
    const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const auto newlines = static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(block, newline)));
    auto blanks = static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(block, space)));
    if (newlines != 0) {
      const int offset = std::countr_zero(newlines);
      blanks &= (1U << offset) - 1;
      if (at + offset >= end) return {nullptr, 0};
      return {at + offset, spaces + count_bits(blanks)};
    }
    spaces += count_bits(blanks);
  }
  return {nullptr, 0};
#else
  const auto* found = static_cast<const char*>(std::memchr(begin, '\n', static_cast<std::size_t>(end - begin)));
  for (const char* at = begin; found != nullptr && at < found; ++at) spaces += *at == ' ';
  return {found, spaces};
#endif
}

// Answers `get`/`gets`, `set` and similar commands without noreply or cas, `mg`, `ms`, `mn`, `md`, `mr` with its limit
// last, `delete` and `touch`, and binary gets, getks and their quiet forms, noops and other requests with a plain
// success, for keys and values of one size: each with a hit or a success. Any other line counts as a command with a
// data block, like `set`. Thread safety: immutable.
class CannedReplies {
 public:
  static constexpr std::size_t read_margin = 16;  // readable bytes required after the input
  static constexpr std::size_t scan_items_max = 1024;

  CannedReplies(std::size_t key_bytes, std::size_t value_bytes) {
    const std::string length = std::to_string(value_bytes);
    const std::string value(value_bytes, 'v');
    const std::string data = "\r\n" + value + "\r\n";
    const std::string key(key_bytes, 'k');
    text_value_ = "VALUE " + key + " 0 " + length + data;
    text_hit_ = text_value_ + "END\r\n";
    meta_hit_ = "VA " + length + data;
    meta_keyed_hit_ = "VA " + length + " k" + key + data;
    binary_hit_ = binary_head(4, 0, value_bytes) + std::string(4, '\0') + value;
    binary_keyed_hit_ = binary_head(4, key_bytes, value_bytes) + std::string(4, '\0') + key + value;
    binary_success_ = binary_head(0, 0, 0);
  }

  // Appends the replies to all complete requests in [begin, end) to `out`; returns the end of the last of them.
  const char* answer(const char* begin, const char* end, std::vector<char>& out, std::size_t& out_bytes) const {
    const char* at = begin;
    while (at < end) {
      const char* const next = static_cast<std::uint8_t>(*at) == codec::binary::request_magic
                                   ? answer_binary(at, end, out, out_bytes)
                                   : answer_line(at, end, out, out_bytes);
      if (next == nullptr) break;
      at = next;
    }
    return at;
  }

 private:
  // Both return the end of the request; nullptr: it is incomplete.
  const char* answer_line(const char* at, const char* end, std::vector<char>& out, std::size_t& out_bytes) const {
    const Line line = find_line(at, end);
    if (line.end == nullptr) return nullptr;
    const char* next = line.end + 1;
    const bool is_scan = *at == 'm' && at[1] == 'r';
    const std::size_t items = is_scan ? std::min(last_number(at, line.end), scan_items_max) : 0;
    // The longest reply to another line of s spaces is s values and an END.
    const std::size_t room = out_bytes + text_value_.size() * (line.spaces + 1) + meta_keyed_hit_.size() * items + 16;
    if (out.size() < room) out.resize(2 * room);
    char* to = out.data() + out_bytes;
    if (*at == 'g') {
      if (line.spaces == 1) {
        to = put(to, text_hit_);
      } else {
        for (std::uint32_t i = 0; i < line.spaces; ++i) to = put(to, text_value_);
        to = put(to, "END\r\n");
      }
    } else if (*at == 'm' && at[1] == 'g') {
      const bool asks_for_value = line.spaces != 2 || line.end - at < 2 || line.end[-2] == 'v';
      to = put(to, !asks_for_value ? "HD\r\n" : line.spaces > 2 ? meta_keyed_hit_ : meta_hit_);
    } else if (is_scan) {
      for (std::size_t i = 0; i < items; ++i) to = put(to, meta_keyed_hit_);
      to = put(std::to_chars(put(to, "EN n"), to + 20, items).ptr, "\r\n");
    } else if (*at == 'm' && at[1] == 'n') {
      to = put(to, "MN\r\n");
    } else if (*at == 'm' && at[1] == 'd') {
      to = put(to, "HD\r\n");
    } else if (*at == 'd') {
      to = put(to, "DELETED\r\n");
    } else if (*at == 't') {
      to = put(to, "TOUCHED\r\n");
    } else {
      const bool has_flags = *at == 'm' && line.spaces > 2;
      const std::size_t block = (has_flags ? second_number(at, line.end) : last_number(at, line.end)) + 2;
      if (static_cast<std::size_t>(end - next) < block) return nullptr;
      next += block;
      to = put(to, *at == 'm' ? "HD\r\n" : "STORED\r\n");
    }
    out_bytes = static_cast<std::size_t>(to - out.data());
    return next;
  }

  const char* answer_binary(const char* at, const char* end, std::vector<char>& out, std::size_t& out_bytes) const {
    namespace b = codec::binary;
    if (static_cast<std::size_t>(end - at) < b::header_bytes) return nullptr;
    const std::size_t bytes = b::header_bytes + b::read<std::uint32_t>(at + b::at::body_bytes);
    if (static_cast<std::size_t>(end - at) < bytes) return nullptr;
    const b::Rule& rule = b::rule_of(b::read<std::uint8_t>(at + b::at::opcode));
    const bool is_get = rule.form == b::Form::get;
    if (!is_get && rule.quiet) return at + bytes;
    const std::string& reply = !is_get ? binary_success_ : rule.with_key ? binary_keyed_hit_ : binary_hit_;
    const std::size_t room = out_bytes + reply.size();
    if (out.size() < room) out.resize(2 * room);
    char* const to = out.data() + out_bytes;
    put(to, reply);
    to[b::at::opcode] = at[b::at::opcode];
    std::memcpy(to + b::at::opaque, at + b::at::opaque, 4);
    out_bytes += reply.size();
    return at + bytes;
  }

  static std::string binary_head(std::size_t extras, std::size_t key, std::size_t value) {
    namespace b = codec::binary;
    std::string head(b::header_bytes, '\0');
    b::write(head.data() + b::at::magic, b::response_magic);
    b::write(head.data() + b::at::key_bytes, static_cast<std::uint16_t>(key));
    b::write(head.data() + b::at::extras_bytes, static_cast<std::uint8_t>(extras));
    b::write(head.data() + b::at::body_bytes, static_cast<std::uint32_t>(extras + key + value));
    return head;
  }

  static char* put(char* to, std::string_view text) {
    std::memcpy(to, text.data(), text.size());
    return to + text.size();
  }

  // The number after the second space of a line that has more words.
  static std::size_t second_number(const char* begin, const char* end) {
    const char* at = begin;
    for (int spaces = 0; spaces < 2; ++at) spaces += *at == ' ' ? 1 : 0;
    std::size_t number = 0;
    for (; at < end && *at >= '0' && *at <= '9' && number < (std::size_t{1} << 40); ++at)
      number = number * 10 + static_cast<std::size_t>(*at - '0');
    return number;
  }

  // The number before the line's '\n', which is at `end`.
  static std::size_t last_number(const char* begin, const char* end) {
    if (end > begin && end[-1] == '\r') --end;
    std::size_t number = 0;
    for (std::size_t scale = 1; end > begin && end[-1] >= '0' && end[-1] <= '9'; scale *= 10)
      number += static_cast<std::size_t>(*--end - '0') * scale;
    return number;
  }

  std::string text_value_;
  std::string text_hit_;
  std::string meta_hit_;
  std::string meta_keyed_hit_;
  std::string binary_hit_;
  std::string binary_keyed_hit_;
  std::string binary_success_;
};

}  // namespace tandem::load
