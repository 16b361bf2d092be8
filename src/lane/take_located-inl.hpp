// In place of the parser and the search: what a device has told of the input. Part of lane-inl.hpp, inside its
// namespace.

// --- keys that it has located (frames/located_keys.hpp). Their locations are candidates like those of a search on the
// host, only older: the answer stage compares the item's key, and asks the index if it is another's.

static_assert(LocatedKey::get == kind::get && LocatedKey::gets == kind::gets &&
              LocatedKey::meta_read == kind::meta_read && LocatedKey::set == kind::set &&
              LocatedKey::meta_store == kind::meta_store && LocatedKey::command_mask == kind::command_mask);
static_assert(LocatedKey::last_of_line == kind::last_of_line && LocatedKey::continues == kind::continues &&
              LocatedKey::begins_many == kind::begins_many);
static_assert(LocatedKeys::bytes_before_key[kind::get] == bytes_before_key[kind::get] &&
              LocatedKeys::bytes_before_key[kind::gets] == bytes_before_key[kind::gets] &&
              LocatedKeys::bytes_before_key[kind::meta_read] == bytes_before_key[kind::meta_read] &&
              LocatedKeys::bytes_before_key[kind::set] == bytes_before_key[kind::set] &&
              LocatedKeys::bytes_before_key[kind::meta_store] == bytes_before_key[kind::meta_store]);

// What the device has found for query i. Where it alone has the index, nothing is the answer, too.
TD_INLINE void put_candidate(const State& s, Strip& strip, std::uint32_t i, Location location) noexcept {
  if (TD_LIKELY(location != no_location)) {
    const char* const item = s.items + std::uint64_t{location} * granule_bytes;
    strip.item[i] = reinterpret_cast<const Item*>(item);
    strip.located |= 1u << i;
    for (std::uint32_t more = 0; more <= s.more_lines; ++more) prefetch_read(item + more * cache_line_bytes);
  } else if (s.is_elsewhere) {
    strip.item[i] = &no_item.header;
  }
}

// What devices have found for query i, which is number `place` of those that they were asked for. False: they were not
// asked for it, or it is discarded.
TD_INLINE bool put_found(const State& s, Strip& strip, std::uint32_t i, std::uint32_t place) noexcept {
  if (TD_UNLIKELY(!s.found->searched_at(place))) return false;
  put_candidate(s, strip, i, s.found->locations()[place]);
  strip.first[i] = strip.second[i] = &no_bucket;
  return true;
}

// Takes the set of which find() has found the key. False: the lane does not take it.
TD_NOINLINE inline bool take_located_set(State& s, Filling& filling, const LaneSegment& segment) noexcept {
  LocatedKeys& keys = *s.located;
  const LocatedKey& key = *keys.next();
  const auto i = static_cast<std::uint32_t>(filling.count);
  Words words(s.at, segment.begin, segment.end);
  const char* const next = (key.kind & kind::command_mask) == kind::set ? take_set(s, filling, words, s.at)
                                                                        : take_meta_store(s, filling, words, s.at);
  if (TD_UNLIKELY(next == nullptr)) return false;
  put_candidate(s, filling.strip, i, key.location);
  filling.strip.first[i] = filling.strip.second[i] = &no_bucket;
  keys.pass(&key + 1);
  s.line = nullptr;
  s.at = next;
  return true;
}

// Takes a set, or keys of reads that follow each other, as many as there are and the strip has room for, from the one
// on that find() has found. False: the lane does not take it.
TD_INLINE bool take_located(State& s, Filling& filling, const LaneSegment& segment) noexcept {
  constexpr std::ptrdiff_t keys_ahead = 24, bytes_ahead = 4 * cache_line_bytes;
  constexpr std::uint8_t ends = LocatedKey::set_bit | LocatedKey::behind_gap,
                         special = ends | kind::begins_many | kind::continues;
  LocatedKeys& keys = *s.located;
  const LocatedKey* const first = keys.next();
  const LocatedKey* next = first;
  prefetch_read(next + keys_ahead);
  prefetch_read(keys.key_of(*next) + bytes_ahead);
  if (TD_UNLIKELY((first->kind & LocatedKey::set_bit) != 0)) return take_located_set(s, filling, segment);
  for (; next != keys.behind() && !filling.full(); ++next) {
    const char* const key = keys.key_of(*next);
    const auto i = static_cast<std::uint32_t>(filling.count);
    std::uint8_t kind = next->kind;
    if (TD_UNLIKELY((kind & special) != 0)) {
      if ((kind & ends) != 0 && next != first) break;
      if ((kind & kind::begins_many) != 0) s.line = LocatedKeys::command_of(key, kind);
      filling.strip.line[i] = s.line;
      kind = static_cast<std::uint8_t>(kind & ~LocatedKey::behind_gap);
    }
    put_candidate(s, filling.strip, i, next->location);
    filling.put(key, next->key_bytes, kind);
  }
  keys.pass(next);
  s.line_kind = kind::continues;
  if (next != keys.behind() && (next->kind & kind::continues) != 0) {
    s.line_kind |= next->kind & kind::command_mask;
    s.at = keys.key_of(*next);
  } else {
    s.line = nullptr;
    s.at = keys.end_of(next[-1]);
  }
  return true;
}

// As parse(): located keys, and lines between them.
TD_INLINE void take_located_and_parse(State& s, Strip& strip) noexcept {
  fill(s, strip, [&s](Filling& filling, const LaneSegment& segment) {
    if (TD_UNLIKELY(s.line == within_row)) return;
    while (s.at != segment.end) {
      if (TD_LIKELY(s.located->find(s.at, s.line != nullptr))) {
        if (TD_UNLIKELY(!take_located(s, filling, segment)) || filling.full()) return;
        continue;
      }
      if (TD_UNLIKELY(s.is_elsewhere)) return;  // only a device can say where the key is
      const char* const next = s.located->next_line();
      const char* const until = next != nullptr && next < segment.end ? next : segment.end;
      parse_lines<true>(s, filling, segment, until);
      if (filling.full() || s.at < until) return;
    }
  });
  if (TD_UNLIKELY(s.is_elsewhere)) strip.located = all_located;
}

// --- runs that it has answered (frames/frame_runs.hpp)

// The begin of the run's replies, for when it is answered.
TD_INLINE void prefetch_replies(const FrameRuns& runs) noexcept {
  constexpr std::uint32_t bytes_max = 8 * cache_line_bytes;
  const char* const replies = runs.reply(runs.run());
  for (std::uint32_t at = 0; at < std::min(runs.run().reply_bytes, bytes_max); at += cache_line_bytes)
    prefetch_read(replies + at);
}

// As parse(): runs, and lines between them. Notes the lines' keys.
TD_INLINE void take_runs_and_parse(State& s, Strip& strip) noexcept {
  fill(s, strip, [&s](Filling& filling, const LaneSegment& segment) {
    FrameRuns& runs = *s.runs;
    runs.enter(segment.end);
    if (TD_UNLIKELY(s.line == within_row)) return;
    while (s.at != segment.end && !filling.full()) {
      if (s.line == nullptr && runs.take(s.at)) {
        prefetch_replies(runs);
        filling.put_run(s.at, runs.run(), runs.tile());
        s.at += runs.run().bytes;
        continue;
      }
      const char* const until = runs.next(segment.end);
      const auto first = static_cast<std::uint32_t>(filling.count);
      parse_lines<true>(s, filling, segment, until);
      for (std::uint32_t i = first; i < filling.count; ++i) runs.note_executed(filling.strip.key_of(i));
      if (s.at < until) return;
    }
  });
}

// --- what they have found by number (Lane::collect())

// As parse(). A query's number is known by its segment and those before it there.
TD_INLINE void parse_found(State& s, Strip& strip) noexcept {
  parse(s, strip);
  for (std::uint32_t i = 0; i < strip.count; ++i) {
    if (const std::uint32_t segment = strip.segment(i); segment != s.found_segment) {
      s.found_segment = segment;
      s.found_next = s.segments[segment].first_key;
    }
    if (TD_LIKELY(put_found(s, strip, i, s.found_next++))) continue;
    if (TD_UNLIKELY(s.is_elsewhere)) end_before(s, strip, i);
  }
  if (TD_UNLIKELY(s.is_elsewhere)) strip.located = all_located;
}

// --- the host's hot keys

// Query i is answered as its hot key is, or marked: the lane stops before it. It does before a line with several keys,
// which devices take as a whole, and never within one.
TD_INLINE void put_hot(const State& s, Strip& strip, std::uint32_t i) noexcept {
  const std::uint32_t key_bytes = info::key_bytes(strip.info[i]);
  const bool is_alone = (strip.kind(i) & (kind::begins_many | kind::continues)) == 0 &&
                        (!strip.is_row(i) || is_whole_command(s, strip, i));
  HotTable::Seen seen;
  if (TD_LIKELY(is_alone && key_bytes != 0)) seen = s.hot->find(fingerprint_of(strip.key[i], key_bytes, s.seed));
  if (TD_LIKELY(seen.is_hot)) {
    put_candidate(s, strip, i, seen.location);
  } else {
    strip.item[i] = &cold_item.header;
  }
  strip.first[i] = strip.second[i] = &no_bucket;
}

// As parse().
TD_NOINLINE inline void parse_hot(State& s, Strip& strip) noexcept {
  parse(s, strip);
  for (std::uint32_t i = 0; i < strip.count; ++i) put_hot(s, strip, i);
  strip.located = all_located;
}

// --- any of them

TD_NOINLINE inline void take_and_parse(State& s, Strip& strip) noexcept {
  if (TD_UNLIKELY(s.source == Source::found)) return parse_found(s, strip);
  if (TD_UNLIKELY(s.source == Source::hot)) return parse_hot(s, strip);
  s.source == Source::runs ? take_runs_and_parse(s, strip) : take_located_and_parse(s, strip);
}

// Adds the keys of the segments' commands, one strip after the other in the same place.
inline void collect(State& s, Collected& to) noexcept {
  Strip& strip = s.ring_begin[0];
  do {
    strip.count = 0;
    strip.rows = 0;
    parse(s, strip);
  } while (to.add(s, strip) && strip.count == strip_queries);
  strip.count = 0;
}

// Counts the queries of the strip, which was answered as far as its segments have not stopped.
TD_NOINLINE inline void count_located(State& s, const Strip& strip) noexcept {
  std::uint32_t queries = 0;
  for (std::uint32_t left = strip.located & ((1u << strip.count) - 1); left != 0; left &= left - 1) {
    const auto i = static_cast<std::uint32_t>(std::countr_zero(left));
    const LaneSegment& segment = s.segments[strip.segment(i)];
    if (TD_LIKELY(!segment.stopped) || strip.key[i] < segment.rest) ++queries;
  }
  (s.source == Source::hot ? s.hot_queries : s.located_queries) += queries;
  if (TD_UNLIKELY(s.is_elsewhere && s.context.samples != nullptr) && s.context.samples->is_due(queries))
    sample_hot(s, strip);
}
