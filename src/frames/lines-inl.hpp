// A tile's tables, and its lines and keys: PP of frames-inl.hpp, which says what T is.
#pragma once
#include <cstdint>

#include "frames/frames.hpp"
#include "index/cuckoo/cell.hpp"

namespace tandem::frames {

// A part's memory as the processor reaches it.
struct Job {
  const char* input;
  const FramePiece* pieces;
  const FrameTile* tiles;
  FrameTileAnswer* answers;
  FrameRun* runs;
  FrameMiss* misses;
  Location* reads;
  char* replies;
  FrameCursors* cursors;
  std::uint32_t runs_max, misses_max, reads_max, reply_bytes_max;
  std::uint32_t now_s;
  bool cas;
  SearchedTable table;
  ItemImages images;
};

inline constexpr std::uint32_t window_bytes = 9216;
inline constexpr std::uint32_t datagram_header_bytes = 8, datagram_reply_bytes_max = 1400;

// What a tile's pieces are, all raw frames or none, and what their answers are. Each has code of its own.
enum class Form : std::uint8_t {
  lines,
  raw,
  located,  // lines with located keys
};

// set, meta_store: the begin of a SET, of which the kernel reads the key alone. meta: `mg key v`; with other flags:
// meta_flags, with q among them meta_quiet.
enum class LineKind : std::uint8_t { set, meta_store, plain, with_cas, meta, meta_flags, meta_quiet };
TD_WORD constexpr bool is_meta(LineKind kind) { return kind >= LineKind::meta; }

// What a line or a key comes to.
namespace mark {
inline constexpr std::uint8_t good = 0;  // else 1 + FrameLeft, or:
inline constexpr std::uint8_t foreign = 0xff;
// Of a key.
inline constexpr std::uint8_t miss = 1 << 0, first_read = 1 << 1, left = 1 << 2;
TD_WORD constexpr std::uint8_t of(FrameLeft why) { return static_cast<std::uint8_t>(1 + static_cast<unsigned>(why)); }
}  // namespace mark

// A tile's tables, in memory that its threads share.
struct Scratch {
  struct alignas(16) Unit {
    std::uint64_t word[2];
  };
  Unit input[tile_units_max + 1];                // one more: words are read beyond the end
  Unit window[window_bytes / sizeof(Unit) + 1];  // one more: likewise
  FramePiece piece[tile_pieces_max];
  std::uint8_t unit_piece[tile_units_max];

  // Positions are bytes from `input`.
  std::uint16_t line_begin[tile_lines_max], line_end[tile_lines_max];  // of the '\n'
  std::uint16_t line_first_key[tile_lines_max];
  std::uint16_t line_rank[tile_lines_max];  // runs that begin before it
  std::uint16_t run_line[tile_lines_max];
  std::uint8_t line_piece[tile_lines_max], line_keys[tile_lines_max], line_state[tile_lines_max];
  LineKind line_kind[tile_lines_max];

  Fingerprint key_f[tile_keys_max];
  std::uint32_t key_location[tile_keys_max];
  std::uint32_t sum[tile_keys_max];  // in turn: line ends of units, keys of lines, replies of keys
  std::uint16_t key_at[tile_keys_max], key_line[tile_keys_max];
  std::uint16_t key_rank[tile_keys_max];  // among the tile's first reads, then among its misses
  std::uint8_t key_bytes[tile_keys_max], key_mark[tile_keys_max];

  std::uint32_t keys, next, misses, metas, fits;
  std::uint32_t good, good_keys;  // lines that are answered, and their keys
  std::uint32_t run_at, miss_at, read_at, reply_at;
  std::uint32_t left[frame_left_count];

  TD_LANE const char* bytes() const { return reinterpret_cast<const char*>(input); }
};

// --- the lines

TD_LANE std::uint32_t first_byte(const FramePiece& p) { return p.tile_unit * frame_unit_bytes + p.skip; }
// Where the position is in the arena.
TD_LANE std::uint32_t in_arena(const FramePiece& p, std::uint32_t position) {
  return p.first_unit * frame_unit_bytes + (position - p.tile_unit * frame_unit_bytes);
}

TD_LANE std::uint32_t piece_of_unit(const Scratch& s, std::uint32_t pieces, std::uint32_t unit) {
  std::uint32_t low = 0, high = pieces;
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    if (s.piece[middle].tile_unit <= unit) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

// Bit i: byte i of the word is a line end.
TD_LANE std::uint32_t line_ends_of(std::uint64_t word) {
  constexpr std::uint64_t low_7 = 0x7f7f7f7f7f7f7f7f;
  const std::uint64_t differs = word ^ 0x0a0a0a0a0a0a0a0a;
  const std::uint64_t same = ~(((differs & low_7) + low_7) | differs | low_7);  // the top bit of each byte
  return static_cast<std::uint32_t>(same * 0x0002040810204081 >> 56);
}

// Bit i: byte i of the unit is a line end, of those that are the piece's, a datagram's header apart.
TD_LANE std::uint32_t line_ends(const Scratch& s, const FramePiece& p, std::uint32_t unit) {
  std::uint32_t ends = line_ends_of(s.input[unit].word[0]) | line_ends_of(s.input[unit].word[1]) << 8;
  const std::uint32_t at = (unit - p.tile_unit) * frame_unit_bytes;
  const std::uint32_t header = p.kind == FramePiece::datagram ? datagram_header_bytes : 0;
  const std::uint32_t begin = p.skip + header - (p.continues ? 1u : 0u), end = std::uint32_t{p.skip} + p.bytes + p.more;
  if (begin >= at + frame_unit_bytes || end <= at) return 0;
  if (begin > at) ends &= 0xffffu << (begin - at);
  if (end < at + frame_unit_bytes) ends &= 0xffffu >> (at + frame_unit_bytes - end);
  return ends;
}

// Loads the tile's pieces and lists their line ends. Returns the number of lines.
template <class T>
TD_LANE std::uint32_t find_lines(T& t, Scratch& s, const Job& job, const FrameTile& tile) {
  t.each(tile.pieces, [&](std::uint32_t i) { s.piece[i] = job.pieces[tile.first_piece + i]; });
  t.each(tile.units, [&](std::uint32_t u) {
    const std::uint32_t p = piece_of_unit(s, tile.pieces, u);
    const std::uint64_t unit = s.piece[p].first_unit + std::uint64_t{u} - s.piece[p].tile_unit;
    s.unit_piece[u] = static_cast<std::uint8_t>(p);
    s.input[u] = reinterpret_cast<const Scratch::Unit*>(job.input)[unit];
    const std::uint32_t ends = line_ends(s, s.piece[p], u);
    s.key_at[u] = static_cast<std::uint16_t>(ends);
    std::uint32_t count = 0;
    for (std::uint32_t left = ends; left != 0; left &= left - 1) ++count;
    s.sum[u] = count;
  });
  const std::uint32_t all = t.scan(s.sum, tile.units);
  t.each(tile.units, [&](std::uint32_t u) {
    std::uint32_t line = s.sum[u];
    const std::uint32_t ends = s.key_at[u];
    for (std::uint32_t i = 0; i < frame_unit_bytes && line < tile_lines_max; ++i) {
      if ((ends >> i & 1) == 0) continue;
      s.line_end[line] = static_cast<std::uint16_t>(u * frame_unit_bytes + i);
      s.line_piece[line++] = s.unit_piece[u];
    }
  });
  return all < tile_lines_max ? all : tile_lines_max;
}

// Whether the datagram is one line behind a header that calls it the only one of its request.
TD_LANE bool is_one_line(const Scratch& s, const FramePiece& p, std::uint32_t line_end) {
  const char* const header = s.bytes() + first_byte(p);
  return line_end + 1 == first_byte(p) + p.bytes && p.bytes > datagram_header_bytes && header[4] == 0 && header[5] == 1;
}

// Calls key(at, bytes) for each word from position `at` on, up to the line's end. False: they are not all keys.
template <class F>
TD_LANE bool for_each_key(const char* bytes, std::uint32_t at, std::uint32_t end, F key) {
  for (;;) {
    const std::uint32_t begin = at;
    while (static_cast<unsigned char>(bytes[at]) > ' ') ++at;
    if (at == begin || at - begin > frame_key_bytes_max) return false;
    key(begin, at - begin);
    if (bytes[at] == '\r') return at + 1 == end;
    if (bytes[at] != ' ') return false;
    ++at;
  }
}

TD_LANE bool starts(const char* p, const char* with, std::uint32_t bytes) {
  for (std::uint32_t i = 0; i < bytes; ++i) {
    if (p[i] != with[i]) return false;
  }
  return true;
}

constexpr std::uint64_t flag_bit(char flag) { return std::uint64_t{1} << (flag & 63); }
inline constexpr std::uint64_t meta_flags_known = flag_bit('v') | flag_bit('k') | flag_bit('K') | flag_bit('f') |
                                                  flag_bit('s') | flag_bit('c') | flag_bit('t') | flag_bit('q') |
                                                  flag_bit('O');

// The flags of an `mg` line from the space behind the key on. False: they are not of the grammar.
TD_LANE bool parse_meta_flags(const char* bytes, std::uint32_t at, std::uint32_t end, LineKind& kind) {
  std::uint64_t seen = 0;
  while (bytes[at] == ' ') {
    const char flag = bytes[at + 1];
    const std::uint64_t bit = std::uint64_t{1} << (flag & 63);
    if (flag < 'A' || (meta_flags_known & bit) == 0 || (seen & bit) != 0) return false;
    seen |= bit;
    const std::uint32_t begin = at + 1;
    at += 2;
    if (flag != 'O') continue;
    while (static_cast<unsigned char>(bytes[at]) > ' ') ++at;
    if (at - begin > frame_opaque_bytes_max) return false;
  }
  constexpr std::uint64_t keys = flag_bit('k') | flag_bit('K');
  if (bytes[at] != '\r' || at + 1 != end || (seen & flag_bit('v')) == 0 || (seen & keys) == keys) return false;
  kind = (seen & flag_bit('q')) != 0 ? LineKind::meta_quiet : LineKind::meta_flags;
  return true;
}

// The line is one of the grammar: its command and its number of keys. 0: it is not. `first`: where its keys begin.
TD_LANE std::uint32_t parse_line(const char* bytes, std::uint32_t begin, std::uint32_t end, LineKind& kind,
                                 std::uint32_t& first) {
  const std::uint32_t length = end + 1 - begin;
  if (length < frame_line_bytes_min || length > frame_line_bytes_max) return 0;
  const char* const line = bytes + begin;
  if (starts(line, "get", 3) && (line[3] == ' ' || (line[3] == 's' && line[4] == ' '))) {
    kind = line[3] == ' ' ? LineKind::plain : LineKind::with_cas;
    first = begin + (line[3] == ' ' ? 4 : 5);
    std::uint32_t keys = 0;
    const bool plain = for_each_key(bytes, first, end, [&](std::uint32_t, std::uint32_t) { ++keys; });
    return plain && keys <= frame_line_keys_max ? keys : 0;
  }
  if (starts(line, "mg ", 3) && length >= 3 + 1 + 4) {
    kind = LineKind::meta;
    first = begin + 3;
    std::uint32_t at = first;
    while (static_cast<unsigned char>(bytes[at]) > ' ') ++at;
    if (at == first || at - first > frame_key_bytes_max) return 0;
    if (at + 3 == end && starts(bytes + at, " v\r", 3)) return 1;
    return parse_meta_flags(bytes, at, end, kind) ? 1 : 0;
  }
  return 0;
}

// Whether the line begins a SET. What follows its key is the host's to read.
TD_LANE bool parse_set(const char* bytes, std::uint32_t begin, std::uint32_t end, LineKind& kind,
                       std::uint32_t& first) {
  const std::uint32_t length = end + 1 - begin;
  if (length < frame_line_bytes_min || length > frame_line_bytes_max) return false;
  const bool is_meta = starts(bytes + begin, "ms ", 3);
  if (!is_meta && !starts(bytes + begin, "set ", 4)) return false;
  kind = is_meta ? LineKind::meta_store : LineKind::set;
  first = begin + (is_meta ? 3 : 4);
  std::uint32_t at = first;
  while (static_cast<unsigned char>(bytes[at]) > ' ') ++at;
  return at != first && at - first <= frame_key_bytes_max && bytes[at] == ' ';
}

template <Form form>
TD_LANE void begin_line(Scratch& s, std::uint32_t j) {
  const FramePiece& p = s.piece[s.line_piece[j]];
  const std::uint32_t first = first_byte(p), end = s.line_end[j];
  const bool is_first = j == 0 || s.line_piece[j - 1] != s.line_piece[j];
  const bool is_datagram = p.kind == FramePiece::datagram;
  s.line_keys[j] = 0;
  s.line_state[j] = mark::foreign;
  if (is_first && p.continues) return;
  const std::uint32_t begin = is_first ? first + (is_datagram ? datagram_header_bytes : 0) : s.line_end[j - 1] + 1u;
  s.line_begin[j] = static_cast<std::uint16_t>(begin);
  if (begin >= first + p.bytes) return;
  s.line_state[j] = mark::of(FrameLeft::other);
  if (is_datagram && !(is_first && is_one_line(s, p, end))) return;
  std::uint32_t first_key = 0;
  std::uint32_t keys = parse_line(s.bytes(), begin, end, s.line_kind[j], first_key);
  if constexpr (form == Form::located) {
    if (keys == 0 && parse_set(s.bytes(), begin, end, s.line_kind[j], first_key)) keys = 1;
  }
  if (keys == 0 || (is_datagram && s.line_kind[j] == LineKind::meta_quiet)) return;
  if (form == Form::located && (is_datagram || s.line_kind[j] > LineKind::meta)) return;
  s.line_state[j] = mark::good;
  s.line_keys[j] = static_cast<std::uint8_t>(keys);
  s.line_first_key[j] = static_cast<std::uint16_t>(first_key);  // a position, until the keys have numbers
}

// Lists the keys of the parsed lines; their number is s.keys then.
template <class T>
TD_LANE void list_keys(T& t, Scratch& s, std::uint32_t lines) {
  t.each(lines, [&](std::uint32_t j) { s.sum[j] = s.line_keys[j]; });
  const std::uint32_t all = t.scan(s.sum, lines);
  t.once([&] { s.keys = all; });
  t.each(lines, [&](std::uint32_t j) {
    std::uint32_t key = s.sum[j];
    const std::uint32_t first = s.line_first_key[j];
    s.line_first_key[j] = static_cast<std::uint16_t>(key);  // of a line without keys, the next line's
    if (s.line_state[j] != mark::good) return;
    if (key + s.line_keys[j] > tile_keys_max) {
      s.line_state[j] = mark::of(FrameLeft::room);
      t.lower(&s.keys, key);
      return;
    }
    std::uint32_t at = first;
    for (std::uint32_t i = 0; i < s.line_keys[j]; ++i, ++key) {
      std::uint32_t end = at;
      while (static_cast<unsigned char>(s.bytes()[end]) > ' ') ++end;
      s.key_at[key] = static_cast<std::uint16_t>(at);
      s.key_bytes[key] = static_cast<std::uint8_t>(end - at);
      s.key_line[key] = static_cast<std::uint16_t>(j);
      at = end + 1;
    }
  });
}

}  // namespace tandem::frames
