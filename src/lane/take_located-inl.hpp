// In place of the parser and the search: keys that a device has located (frames/located_keys.hpp). Their locations are
// candidates like those of a search on the host, only older: whoever answers compares the item's key, and asks the
// index where it is another's. Part of lane-inl.hpp, inside its namespace.

static_assert(LocatedKey::get == kind::get && LocatedKey::gets == kind::gets &&
              LocatedKey::meta_read == kind::meta_read);
static_assert(LocatedKey::last_of_line == kind::last_of_line && LocatedKey::continues == kind::continues &&
              LocatedKey::begins_many == kind::begins_many);
static_assert(LocatedKeys::bytes_before_key[kind::get] == bytes_before_key[kind::get] &&
              LocatedKeys::bytes_before_key[kind::gets] == bytes_before_key[kind::gets] &&
              LocatedKeys::bytes_before_key[kind::meta_read] == bytes_before_key[kind::meta_read]);

// Takes keys of the run that find() has found, as many as it has and the strip has room for.
TD_INLINE void take_located(State& s, Filling& filling) noexcept {
  constexpr std::ptrdiff_t keys_ahead = 24, bytes_ahead = 4 * cache_line_bytes;
  LocatedKeys& keys = *s.located;
  Strip& strip = filling.strip;
  const LocatedKey* next = keys.next();
  prefetch_read(next + keys_ahead);
  prefetch_read(keys.key_of(*next) + bytes_ahead);
  for (; next != keys.behind() && !filling.full(); ++next) {
    const char* const key = keys.key_of(*next);
    const auto i = static_cast<std::uint32_t>(filling.count);
    if (TD_UNLIKELY((next->kind & (kind::begins_many | kind::continues)) != 0)) {
      if ((next->kind & kind::begins_many) != 0) s.line = LocatedKeys::command_of(key, next->kind);
      strip.line[i] = s.line;
    }
    if (TD_LIKELY(next->location != no_location)) {
      const char* const item = s.items + std::uint64_t{next->location} * granule_bytes;
      strip.item[i] = reinterpret_cast<const Item*>(item);
      strip.located |= 1u << i;
      for (std::uint32_t more = 0; more <= s.more_lines; ++more) prefetch_read(item + more * cache_line_bytes);
    }
    filling.put(key, next->key_bytes, next->kind);
  }
  keys.pass(next);
  s.line_kind = kind::continues;
  if (next == keys.behind()) {
    s.line = nullptr;
    s.at = keys.end();
  } else if ((next->kind & kind::continues) != 0) {
    s.line_kind |= next->kind & kind::command_mask;
    s.at = keys.key_of(*next);
  } else {
    s.line = nullptr;
    s.at = LocatedKeys::command_of(keys.key_of(*next), next->kind);
  }
}

// As parse(): located keys, and lines between them.
TD_NOINLINE inline void take_and_parse(State& s, Strip& strip) noexcept {
  fill(s, strip, [&s](Filling& filling, const LaneSegment& segment) {
    while (s.at != segment.end) {
      if (TD_LIKELY(s.located->find(s.at, s.line != nullptr))) {
        take_located(s, filling);
        if (filling.full()) return;
        continue;
      }
      const char* const next = s.located->next_line();
      const char* const until = next != nullptr && next < segment.end ? next : segment.end;
      parse_lines<true>(s, filling, segment, until);
      if (filling.full() || s.at < until) return;
    }
  });
}

// Counts the queries of the strip, which was answered as far as its segments have not stopped.
TD_NOINLINE inline void count_located(State& s, const Strip& strip) noexcept {
  for (std::uint32_t left = strip.located; left != 0; left &= left - 1) {
    const auto i = static_cast<std::uint32_t>(std::countr_zero(left));
    const LaneSegment& segment = s.segments[strip.segment(i)];
    if (TD_LIKELY(!segment.stopped) || strip.key[i] < segment.rest) ++s.located_queries;
  }
}
