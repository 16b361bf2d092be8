// In place of the parser and the search: what a device has told of the input. Part of lane-inl.hpp, inside its
// namespace.

// --- keys that it has located (frames/located_keys.hpp). Their locations are candidates like those of a search on the
// host, only older: the answer stage compares the item's key, and asks the index if it is another's.

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
TD_INLINE void take_located_and_parse(State& s, Strip& strip) noexcept {
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

// --- either of them

TD_NOINLINE inline void take_and_parse(State& s, Strip& strip) noexcept {
  s.source == Source::runs ? take_runs_and_parse(s, strip) : take_located_and_parse(s, strip);
}

// Counts the queries of the strip, which was answered as far as its segments have not stopped.
TD_NOINLINE inline void count_located(State& s, const Strip& strip) noexcept {
  for (std::uint32_t left = strip.located; left != 0; left &= left - 1) {
    const auto i = static_cast<std::uint32_t>(std::countr_zero(left));
    const LaneSegment& segment = s.segments[strip.segment(i)];
    if (TD_LIKELY(!segment.stopped) || strip.key[i] < segment.rest) ++s.located_queries;
  }
}
