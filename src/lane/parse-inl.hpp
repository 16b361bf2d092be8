// PP of the lane: lines and packets into strips. A part of lane-inl.hpp, inside its namespace.

#include "lane/words-inl.hpp"

// A strip while it is filled.
struct Filling {
  Strip& strip;
  std::uint32_t unusual_layout;  // State's
  std::uint32_t segment = 0;     // as info has it
  std::uint64_t count = 0;
  std::uint32_t sets = 0;
  std::uint32_t first = 0, differ = 0;  // the expected info, and the bits in which any differs
  std::uint32_t longest = 0;            // top bit: there is a long key

  TD_INLINE bool full() const noexcept { return count == strip_queries; }
  TD_INLINE void put(const char* key, std::size_t key_bytes, std::uint8_t kind) noexcept {
    differ |= place(key, key_bytes, kind) ^ first;
  }
  // The same for a key of at most short_key_bytes_max bytes.
  TD_INLINE void put_short(const char* key, std::size_t key_bytes, std::uint8_t kind) noexcept {
    place_short(key, key_bytes, kind);
    differ |= (segment + (std::uint32_t{kind} << info::kind_shift)) ^ first;
  }
  // A run of tile `tile`, in the place of a query. Its columns of search are defined, and not used.
  TD_INLINE void put_run(const char* begin, const FrameRun& run, std::uint32_t tile) noexcept {
    static_assert(sizeof(FrameRun) == sizeof(SetPart));
    differ |= (note(begin, 0, kind::run) ^ first) | std::uint32_t{kind::run} << info::kind_shift;
    strip.line[count] = begin;
    strip.item[count] = &item_of_run.header;
    strip.run[count] = run;
    strip.tile[count] = tile;
    strip.located |= 1u << count;
    std::memset(strip.key16[count++], 0, short_key_bytes_max);
  }
  // A row: its key may be anywhere, and as long as it likes. Without one it is searched for like a key of no bytes.
  TD_INLINE void put_row(const Query& query) noexcept {
    const std::string_view key = query.operation().has_key ? query.key_view() : std::string_view(query.wire, 0);
    differ |= (note(key.data(), key.size(), kind::row) ^ first) | std::uint32_t{kind::row} << info::kind_shift;
    longest |= static_cast<std::uint32_t>(short_key_bytes_max) - static_cast<std::uint32_t>(key.size());
    strip.line[count] = query.wire;
    strip.layout[count] = no_layout;
    const ShortKey short_key = load_short_key(strip.key[count], std::min(key.size(), short_key_bytes_max));
    strip.rows |= static_cast<std::uint8_t>(1u << count);
    std::memcpy(strip.key16[count++], &short_key, sizeof short_key);
  }
  // Sets of different kinds do not end a strip's uniformity, so only the segment is compared.
  TD_INLINE void put_set(const char* key, std::size_t key_bytes, std::uint8_t kind, const SetPart& set) noexcept {
    constexpr std::uint32_t segment_mask = ~std::uint32_t{0} << info::segment_shift;
    strip.set[count] = set;
    strip.layout[count] = layout_of(key_bytes, set) | unusual_layout;
    sets |= 1u << count;
    differ |= (place(key, key_bytes, kind) ^ first) & segment_mask;
  }

 private:
  TD_INLINE std::uint32_t note(const char* key, std::size_t key_bytes, std::uint8_t kind) noexcept {
    const std::uint32_t word =
        segment + (std::uint32_t{kind} << info::kind_shift) + static_cast<std::uint32_t>(key_bytes);
    strip.key[count] = key;
    strip.info[count] = word;
    return word;
  }
  TD_INLINE std::uint32_t place(const char* key, std::size_t key_bytes, std::uint8_t kind) noexcept {
    const std::uint32_t word = note(key, key_bytes, kind);
    longest |= static_cast<std::uint32_t>(short_key_bytes_max) - static_cast<std::uint32_t>(key_bytes);
    K::load_key(strip.key16[count++], key, key_bytes);
    return word;
  }
  TD_INLINE void place_short(const char* key, std::size_t key_bytes, std::uint8_t kind) noexcept {
    note(key, key_bytes, kind);
    K::load_short_key(strip.key16[count++], key, key_bytes);
  }
};

// Calls f(copy): so the original stays in registers for the usual lines.
template <class F>
TD_INLINE auto on_copy(Filling& filling, F f) noexcept {
  Filling copy{filling.strip,        filling.unusual_layout, filling.segment,        opaque(filling.count),
               opaque(filling.sets), opaque(filling.first),  opaque(filling.differ), opaque(filling.longest)};
  const auto result = f(copy);
  filling.count = copy.count;
  filling.sets = copy.sets;
  filling.differ = copy.differ;
  filling.longest = copy.longest;
  return result;
}

// Takes keys of a line with several, which are known to be plain.
TD_INLINE void parse_keys(State& s, Filling& filling, Words& words) noexcept {
  const char* p = s.at;
  std::uint8_t kind = s.line_kind;
  while (!filling.full()) {
    const char* const key_end = words.end_of(p);
    const bool last = *key_end != ' ';
    filling.strip.line[filling.count] = s.line;
    filling.put(p, static_cast<std::size_t>(key_end - p),
                static_cast<std::uint8_t>(kind | (last ? kind::last_of_line : 0)));
    kind = static_cast<std::uint8_t>((kind & ~kind::begins_many) | kind::continues);
    p = key_end + (last ? 2 : 1);
    if (!last) continue;
    s.line = nullptr;
    break;
  }
  s.at = p;
  s.line_kind = kind;
}

// Each of the following takes the command that begins at `p` and returns where the next one begins. nullptr: it is
// another command, not plain, or incomplete.

// The end of a read's key. Short: the command's blanks are in the block of its first one, and the key has at most
// short_key_bytes_max bytes; else it may have any length.
struct KeyEnd {
  const char* p;
  std::uint64_t blanks;  // Short: from this end on
};
template <bool Short>
TD_INLINE KeyEnd end_of_key(Words& words, const char* p, const char* key) noexcept {
  if constexpr (!Short) return {words.end_of(key), 0};
  const std::uint64_t blanks = words.behind_word(p);
  return {words.block + std::countr_zero(blanks), blanks};  // without a blank the key appears to be longer
}
template <bool Short>
inline constexpr std::size_t read_key_bytes_max = Short ? short_key_bytes_max : key_bytes_max;
// Adds a read to the strip. Its command has Blanks blanks from the key's end on.
template <bool Short, int Blanks>
TD_INLINE void put_read(Filling& filling, Words& words, const char* key, const KeyEnd& end,
                        std::uint8_t kind) noexcept {
  const auto key_bytes = static_cast<std::size_t>(end.p - key);
  if constexpr (Short) {
    filling.put_short(key, key_bytes, kind);
    words.pass<Blanks>(end.blanks);
  } else {
    filling.put(key, key_bytes, kind);
  }
}

// "get key".
template <bool Short>
TD_INLINE const char* take_get(Filling& filling, Words& words, const char* p) noexcept {
  using codec::load;
  const char* const key = p + 4;
  const KeyEnd end = end_of_key<Short>(words, p, key);
  if (TD_UNLIKELY(static_cast<std::size_t>(end.p - key) - 1 >= read_key_bytes_max<Short>)) return nullptr;
  if (TD_UNLIKELY(!Short && words.end - end.p < 2)) return nullptr;
  if (TD_UNLIKELY(load<std::uint16_t>(end.p) != load<std::uint16_t>("\r\n"))) return nullptr;
  put_read<Short, 2>(filling, words, key, end, kind::get | kind::last_of_line);
  return end.p + 2;
}

// "mg key v" and "mg key v K".
template <bool Short>
TD_INLINE const char* take_meta_read(Filling& filling, Words& words, const char* p) noexcept {
  using codec::load;
  const char* const key = p + 3;
  const KeyEnd end = end_of_key<Short>(words, p, key);
  if (TD_UNLIKELY(static_cast<std::size_t>(end.p - key) - 1 >= read_key_bytes_max<Short> || words.end - end.p < 4))
    return nullptr;
  if (TD_LIKELY(load<std::uint32_t>(end.p) == load<std::uint32_t>(" v\r\n"))) {
    put_read<Short, 3>(filling, words, key, end, kind::meta_read | kind::last_of_line);
    return end.p + 4;
  }
  if (TD_UNLIKELY(words.end - end.p < 6 || load<std::uint32_t>(end.p) != load<std::uint32_t>(" v K") ||
                  load<std::uint16_t>(end.p + 4) != load<std::uint16_t>("\r\n")))
    return nullptr;
  put_read<Short, 4>(filling, words, key, end, kind::meta_read_key | kind::last_of_line);
  return end.p + 6;
}

// Reads a number of up to nine digits at `p` and moves `p` behind it. False: no digit, or more than nine. REQUIRES: 10
// readable bytes.
TD_INLINE bool read_length(const char*& p, std::uint32_t& to) noexcept {
  const char* const first = p;
  const auto digit = [&p] { return static_cast<std::uint32_t>(static_cast<unsigned char>(*p)) - '0'; };
  std::uint32_t d = digit();
  if (TD_UNLIKELY(d > 9)) return false;
  to = d;
  for (++p; TD_UNLIKELY((d = digit()) <= 9); ++p) {
    if (p - first == 9) return false;
    to = to * 10 + d;
  }
  return true;
}

// Whether the value and its line end are complete, and the item is within the size limit.
TD_INLINE bool has_value(const State& s, const SetPart& set, const char* end, std::size_t key_bytes) noexcept {
  using codec::load;
  if (TD_UNLIKELY(end - set.value < std::ptrdiff_t{2} + set.value_bytes)) return false;
  return TD_LIKELY(load<std::uint16_t>(set.value + set.value_bytes) == load<std::uint16_t>("\r\n")) &&
         TD_LIKELY(Item::total_bytes(set.client_flags, key_bytes, set.value_bytes) <= s.item_bytes_max);
}

// "set key flags exptime bytes[ noreply]\r\nvalue\r\n".
TD_INLINE const char* take_set(const State& s, Filling& filling, Words& words, const char* p) noexcept {
  using codec::load;
  const char* const key = p + 4;
  const char* const key_end = words.end_of_next(p, key);
  const auto key_bytes = static_cast<std::size_t>(key_end - key);
  if (TD_UNLIKELY(key_bytes - 1 >= key_bytes_max || words.end - key_end < 10)) return nullptr;
  const char* at = key_end + 5;
  std::uint32_t value_bytes = 0;
  const bool usual = load<std::uint32_t>(key_end) == load<std::uint32_t>(" 0 0") && key_end[4] == ' ';
  if (TD_LIKELY(usual && read_length(at, value_bytes) && load<std::uint16_t>(at) == load<std::uint16_t>("\r\n"))) {
    const SetPart set{at + 2, value_bytes, 0, Clock::never};
    if (TD_UNLIKELY(!has_value(s, set, words.end, key_bytes))) return nullptr;
    filling.put_set(key, key_bytes, kind::set | kind::last_of_line, set);
    return set.value + value_bytes + 2;
  }
  SetPart set{nullptr, 0, 0, Clock::never};
  std::uint8_t kind = kind::set | kind::last_of_line;
  at = read_set_words(s, key_end, words.end, set, kind);
  if (at == nullptr) return nullptr;
  set.value = at + 2;
  if (!has_value(s, set, words.end, key_bytes)) return nullptr;
  filling.put_set(key, key_bytes, kind, set);
  return set.value + set.value_bytes + 2;
}

// "ms key bytes[ Texptime]\r\nvalue\r\n".
TD_INLINE const char* take_meta_store(const State& s, Filling& filling, Words& words, const char* p) noexcept {
  using codec::load;
  constexpr std::uint8_t kind = kind::meta_store | kind::last_of_line;
  const char* const key = p + 3;
  const char* const key_end = words.end_of_next(p, key);
  const auto key_bytes = static_cast<std::size_t>(key_end - key);
  if (TD_UNLIKELY(key_bytes - 1 >= key_bytes_max || words.end - key_end < 6 || *key_end != ' ')) return nullptr;
  const char* at = key_end + 1;
  std::uint32_t value_bytes = 0;
  if (TD_LIKELY(read_length(at, value_bytes) && load<std::uint16_t>(at) == load<std::uint16_t>("\r\n"))) {
    const SetPart set{at + 2, value_bytes, 0, Clock::never};
    if (TD_UNLIKELY(!has_value(s, set, words.end, key_bytes))) return nullptr;
    filling.put_set(key, key_bytes, kind, set);
    return set.value + value_bytes + 2;
  }
  SetPart set{nullptr, 0, 0, Clock::never};
  at = read_meta_store_words(s, key_end, words.end, set);
  if (at == nullptr) return nullptr;
  set.value = at + 2;
  if (!has_value(s, set, words.end, key_bytes)) return nullptr;
  filling.put_set(key, key_bytes, kind, set);
  return set.value + set.value_bytes + 2;
}

// "get key", "get key key ...", "gets key ...": takes as many keys as the strip has room for.
TD_NOINLINE inline const char* take_keys(State& s, Filling& filling, Words& words, const char* p,
                                         bool is_gets) noexcept {
  const char* const key = p + (is_gets ? 5 : 4);
  if (!are_plain_keys(key, words.end, words.begin)) return nullptr;
  s.line = p;
  s.line_kind = is_gets ? kind::gets : kind::get;
  if (*codec::find_delimiter(key, words.end, words.begin) == ' ') s.line_kind |= kind::begins_many;
  s.at = key;
  parse_keys(s, filling, words);
  return s.at;
}

// Takes lines from State::at on until the strip is full. If it is not full afterwards, the lane's part of the segment
// ends at State::at. Until: or lines begin at `until` or behind it, where it may go on.
template <bool Until = false>
TD_INLINE void parse_lines(State& s, Filling& filling, const LaneSegment& segment,
                           const char* until = nullptr) noexcept {
  using codec::load;
  Words words(s.at, segment.begin, segment.end);
  if (TD_UNLIKELY(s.line != nullptr)) {
    if (s.line == within_row) return;
    parse_keys(s, filling, words);
    words.go_to(s.at);
  }
  const auto take_any_keys = [&](const char* p, bool is_gets) noexcept {
    Words theirs = words;
    return on_copy(filling, [&](Filling& copy) { return take_keys(s, copy, theirs, p, is_gets); });
  };
  const char* p = s.at;
  while (!filling.full() && (!Until || p < until)) {
    const auto word = load<std::uint32_t>(p);
    const char* next = nullptr;
    if (TD_LIKELY(word == load<std::uint32_t>("get "))) {
      next = take_get<true>(filling, words, p);
      if (TD_LIKELY(next != nullptr)) {
        p = next;
        continue;
      }
      next = take_get<false>(filling, words, p);
      if (TD_UNLIKELY(next == nullptr)) next = take_any_keys(p, false);
    } else if (word == load<std::uint32_t>("set ")) {
      next = take_set(s, filling, words, p);
    } else if (const std::uint32_t name = word & load<std::uint32_t>("\xff\xff\xff\0");
               name == load<std::uint32_t>("mg \0")) {
      next = take_meta_read<true>(filling, words, p);
      if (TD_LIKELY(next != nullptr)) {
        p = next;
        continue;
      }
      next = take_meta_read<false>(filling, words, p);
    } else if (name == load<std::uint32_t>("ms \0")) {
      next = take_meta_store(s, filling, words, p);
    } else if (word == load<std::uint32_t>("gets") && p[4] == ' ') {
      next = take_any_keys(p, true);
    }
    if (TD_UNLIKELY(next == nullptr)) break;
    p = next;
    words.go_to(p);
  }
  s.at = p;
}

// Whether the packet is a complete plain SET; `set` then describes it.
TD_INLINE bool is_plain_set_packet(const State& s, const char* p, const char* end, const codec::binary::Request& r,
                                   SetPart& set) noexcept {
  namespace binary = codec::binary;
  constexpr std::size_t before_key = binary::header_bytes + binary::store_extras_bytes;
  const binary::Rule& rule = binary::rule_of(r.opcode);
  if (rule.form != binary::Form::store || rule.mode != StoreMode::set) return false;
  if (r.extras_bytes != binary::store_extras_bytes || std::size_t{r.key_bytes} - 1 >= key_bytes_max) return false;
  if (r.before_value_bytes() > r.body_bytes) return false;
  if (static_cast<std::uint64_t>(end - p) < binary::header_bytes + std::uint64_t{r.body_bytes}) return false;
  if (s.options.cas && codec::load<std::uint64_t>(p + binary::at::cas) != 0) return false;
  const auto exptime = binary::read<std::uint32_t>(p + binary::header_bytes + binary::flags_bytes);
  set = {p + before_key + r.key_bytes, r.value_bytes(), binary::read<std::uint32_t>(p + binary::header_bytes),
         TD_LIKELY(exptime == 0) ? Clock::never : s.context.shared.clock.expiry_s(exptime)};
  return Item::total_bytes(set.client_flags, r.key_bytes, set.value_bytes) <= s.item_bytes_max;
}

// Bit n: opcode n is a plain get. All of them are below 64.
inline constexpr std::uint64_t plain_get_opcodes = [] {
  namespace binary = codec::binary;
  std::uint64_t all = 0;
  for (std::size_t opcode = 0; opcode < binary::rule_count; ++opcode) {
    const binary::Rule& rule = binary::rules[opcode];
    if (rule.form == binary::Form::get && rule.options == 0) all |= std::uint64_t{1} << opcode;
  }
  return all;
}();

// As parse_lines() for packets. First: at most the segment's first one.
template <bool First = false>
TD_INLINE void parse_packets(State& s, Filling& filling, const LaneSegment& segment) noexcept {
  namespace binary = codec::binary;
  if (TD_UNLIKELY(s.line == within_row)) return;
  const char* p = s.at;
  const char* const end = segment.end;
  while (!filling.full() && (!First || p == segment.begin) &&
         end - p >= static_cast<std::ptrdiff_t>(binary::header_bytes)) {
    if (TD_UNLIKELY(binary::read<std::uint8_t>(p) != binary::request_magic)) break;
    const binary::Request r = binary::Request::read(p);
    const std::size_t key_bytes = r.key_bytes;
    if (TD_LIKELY(r.opcode < 64 && (plain_get_opcodes >> r.opcode & 1) != 0)) {
      if (TD_UNLIKELY(r.extras_bytes != 0 || r.body_bytes != key_bytes || key_bytes - 1 >= key_bytes_max)) break;
      const char* const key = p + binary::header_bytes;
      if (TD_UNLIKELY(end - key < static_cast<std::ptrdiff_t>(key_bytes))) break;
      filling.put(key, key_bytes, kind::binary_read | kind::last_of_line);
      p = key + key_bytes;
      continue;
    }
    SetPart set;
    if (!is_plain_set_packet(s, p, end, r, set)) break;
    const char* const key = p + binary::header_bytes + binary::store_extras_bytes;
    filling.put_set(key, key_bytes, kind::binary_store | kind::last_of_line, set);
    p = set.value + set.value_bytes;
  }
  s.at = p;
}

// False: the lane's part of the segment ends at State::at.
TD_NOINLINE inline bool put_rows(State& s, Filling& filling, LaneSegment& segment) noexcept {
  const std::uint32_t place = place_of(s, filling.strip) + static_cast<std::uint32_t>(filling.count);
  const std::uint32_t rows = take_rows(s, segment, place, strip_queries - static_cast<std::uint32_t>(filling.count));
  for (std::uint32_t i = 0; i < rows; ++i) {
    const Query& query = s.rows->batch.query(place + i);
    filling.put_row(query);
    // The key as it is stored: in the line it may be encoded. What has no key changes nothing.
    if (TD_UNLIKELY(s.source == Source::runs) && !segment.binary && query.operation().has_key)
      s.runs->note_executed(query.key_view());
  }
  return rows != 0;
}

// Rows, and what fill() takes behind them, until the strip is full or the lane's part of the segment ends.
template <class Lines>
TD_NOINLINE inline bool fill_from_rows(State& s, Filling& filling, LaneSegment& segment, Lines lines) noexcept {
  while (!filling.full() && s.at != segment.end && put_rows(s, filling, segment)) {
    if (filling.full()) return true;
    segment.binary ? parse_packets(s, filling, segment) : lines(filling, segment);
  }
  return filling.full();
}

// Of a datagram: the first command, if it is plain, and rows. False: the lane's part of it ends at State::at.
TD_NOINLINE inline bool fill_from_datagram(State& s, Filling& filling, LaneSegment& segment) noexcept {
  if (s.line != nullptr || s.at == segment.begin)
    segment.binary ? parse_packets<true>(s, filling, segment)
                   : parse_lines<true>(s, filling, segment, segment.begin + 1);
  while (!filling.full() && s.at != segment.end && put_rows(s, filling, segment)) {
  }
  return filling.full();
}

// Sets what the strip's queries have in common.
TD_INLINE void end_filling(State& s, Strip& strip, const Filling& filling) noexcept {
  strip.count = static_cast<std::uint32_t>(filling.count);
  strip.has_long_key = filling.longest >> 31 != 0;
  if (TD_UNLIKELY(filling.count == 0)) return;
  strip.sets = filling.sets;
  strip.gets = info::kind(filling.first);
  const std::uint32_t differ = filling.differ >> info::kind_shift;
  strip.is_uniform =
      differ == 0 && filling.full() && !strip.has_long_key && (strip.gets & (kind::continues | kind::begins_many)) == 0;
  if (TD_UNLIKELY(differ != 0)) expect_kind(s, strip, ~filling.sets & ((2u << (filling.count - 1)) - 1));
  if (TD_UNLIKELY(s.keys != nullptr)) sample_keys(s, strip);
}

// Fills the strip: lines(filling, segment) takes lines as parse_lines() does.
template <class Lines>
TD_INLINE void fill(State& s, Strip& strip, Lines lines) noexcept {
  Filling filling{strip, s.unusual_layout};
  while (s.parsing < s.segments.size()) {
    LaneSegment& segment = s.segments[s.parsing];
    if (TD_LIKELY(!segment.stopped)) {
      filling.segment = s.parsing << info::segment_shift;
      if (filling.count == 0) {
        filling.first =
            filling.segment |
            static_cast<std::uint32_t>(segment.binary ? kind::binary_read | kind::last_of_line : s.usual_kind)
                << info::kind_shift;
      }
      if (TD_UNLIKELY(segment.frame != nullptr)) {
        on_copy(filling, [&](Filling& copy) { return fill_from_datagram(s, copy, segment); });
      } else {
        segment.binary ? parse_packets(s, filling, segment) : lines(filling, segment);
        if (TD_UNLIKELY(!filling.full() && s.at != segment.end))
          on_copy(filling, [&](Filling& copy) { return fill_from_rows(s, copy, segment, lines); });
      }
      if (filling.full()) break;
      segment.rest = s.at;
    }
    if (++s.parsing == s.segments.size()) break;
    s.at = s.segments[s.parsing].begin;
    s.line = line_at(s, s.segments[s.parsing]);
  }
  end_filling(s, strip, filling);
}

TD_INLINE void parse(State& s, Strip& strip) noexcept {
  fill(s, strip,
       [&s](Filling& filling, const LaneSegment& segment) TD_INLINE_LAMBDA { parse_lines(s, filling, segment); });
}
