// Part of lane-inl.hpp: a run over an embedding program's requests (calls.hpp).

// --- in place of the parser

TD_INLINE void note_key(Strip& strip, std::string_view key, std::uint8_t kind) noexcept {
  const std::uint32_t i = strip.count;
  strip.key[i] = key.data();
  strip.info[i] = static_cast<std::uint32_t>(key.size()) | std::uint32_t{kind} << info::kind_shift;
  strip.has_long_key |= key.size() > short_key_bytes_max;
  const ShortKey k = load_short_key(strip.key[i], std::min(key.size(), short_key_bytes_max));
  std::memcpy(strip.key16[i], &k, sizeof k);
}

// A request without a plain form, or with a key that no item can have. That one is not looked at in its turn.
TD_NOINLINE inline void take_row(Strip& strip, std::string_view key) noexcept {
  strip.rows = static_cast<std::uint8_t>(strip.rows | 1u << strip.count);
  note_key(strip, is_good_key(key) ? key : std::string_view(""), kind::row);
}

TD_INLINE void take(const CallState&, Strip& strip, std::string_view key, std::uint8_t key_kind) noexcept {
  if (TD_UNLIKELY(!is_good_key(key))) return take_row(strip, key);
  note_key(strip, key, key_kind);
}

TD_INLINE void take(const CallState& s, Strip& strip, const Request& request, std::uint8_t) noexcept {
  if (TD_UNLIKELY(!is_good_key(request.key))) return take_row(strip, request.key);
  if (TD_LIKELY(request.action == Action::get))
    return note_key(strip, request.key, request.key_check == KeyCheck::store ? kind::get : kind::get | kind::any_key);
  if (TD_UNLIKELY(request.action != Action::set || request.value.size() > s.item_bytes_max))
    return take_row(strip, request.key);
  const std::uint32_t i = strip.count;
  const char* const value = request.value.data() != nullptr ? request.value.data() : "";
  strip.set[i] = {value, static_cast<std::uint32_t>(request.value.size()), request.flags,
                  request.ttl_s == 0 ? Clock::never : s.context.shared.clock.expiry_s(request.ttl_s)};
  strip.layout[i] = layout_of(request.key.size(), strip.set[i]) | s.unusual_layout;
  strip.sets |= 1u << i;
  note_key(strip, request.key, kind::set);
}

// The candidates that devices have found for requests from number `first` on. Beside devices that alone have the index
// nothing is the answer, too.
TD_NOINLINE inline void put_all_found(const CallState& s, Strip& strip, std::size_t first) noexcept {
  for (std::uint32_t i = 0; i < strip.count; ++i) {
    const auto place = static_cast<std::uint32_t>(s.found_at + first + i);
    TD_DEBUG_ASSERT(!s.is_elsewhere || s.found->searched_at(place));
    if (!put_found(s, strip, i, place)) break;
  }
  if (TD_UNLIKELY(s.is_elsewhere)) strip.located = all_located;
}

// The same of hot keys, as all of them were when the run began.
TD_NOINLINE inline void put_all_hot(const CallState& s, Strip& strip) noexcept {
  for (std::uint32_t i = 0; i < strip.count; ++i) put_hot(s, strip, i);
  strip.located = all_located;
}

TD_INLINE const char* key_data(std::string_view key) noexcept { return key.data(); }
TD_INLINE const char* key_data(const Request& request) noexcept { return request.key.data(); }

// Fills the strip with requests [first, end). One: it is one.
template <bool One, class From>
TD_INLINE void fill_strip(CallState& s, Strip& strip, std::span<const From> from, std::size_t first,
                          std::size_t end) noexcept {
  constexpr std::size_t keys_ahead = 2 * strip_queries;  // the caller's keys may be anywhere in memory
  strip.sets = 0;
  strip.has_long_key = false;
  const std::uint8_t key_kind = s.key_kind;
  for (std::size_t next = first; One || next != end; ++next) {
    if (!One && TD_LIKELY(next + keys_ahead < from.size())) prefetch_read(key_data(from[next + keys_ahead]));
    take(s, strip, from[next], key_kind);
    ++strip.count;
    if constexpr (One) break;
  }
  if (TD_LIKELY(s.source == Source::text)) return;
  s.source == Source::hot ? put_all_hot(s, strip) : put_all_found(s, strip, first);
}

// --- in place of WR

TD_INLINE void set_version(Reply& reply, const Hit& hit) noexcept {
  reply.flags = TD_UNLIKELY(word::HasFlags::get(hit.fixed) != 0) ? hit.item->client_flags() : 0;
  reply.cas = word::CasHigh::get(hit.state) << word::CasLow::width | word::CasLow::get(hit.fixed);
}

// Copies key and value of a hit again, because its item was rewritten during the first copy.
TD_NOINLINE inline void copy_again(Reply& reply, const Hit& hit, const char* from, std::size_t bytes,
                                   char* to) noexcept {
  copy_slowly(hit.item, hit.state, [&](const ItemVersion& seen) noexcept {
    racing_copy(to, from, bytes);
    set_version(reply, {hit.item, seen.state, seen.fixed});
  });
}

// The reply to a hit. A short value is copied, with its key before it. A longer one is never rewritten in place, so the
// reply points into the item, which the epoch keeps.
TD_INLINE void set_reply(CallState& s, std::uint32_t i, const Hit& hit) noexcept {
  Reply& reply = s.replies[i];
  const std::size_t key_bytes = word::KeyBytes::get(hit.fixed);  // with any_key not the query's
  const std::size_t value_bytes = word::ValueBytes::get(hit.fixed);
  const bool has_flags = word::HasFlags::get(hit.fixed) != 0;
  const char* const from = hit.item->bytes() + sizeof(Item) + (TD_UNLIKELY(has_flags) ? sizeof(std::uint32_t) : 0);
  reply.code = Code::hit;
  reply.key_bytes = static_cast<std::uint8_t>(key_bytes);
  reply.number = 0;
  set_version(reply, hit);
  if (TD_UNLIKELY(value_bytes > rewritten_value_bytes_max)) {
    reply.value = {from + key_bytes, value_bytes};
    return;
  }
  char* const to = s.copies[i];
  racing_copy(to, from, key_bytes + value_bytes);
  reply.value = {to + key_bytes, value_bytes};
  if (TD_UNLIKELY(!is_whole(hit))) copy_again(reply, hit, from, key_bytes + value_bytes, to);
}

// Predicts: as expect_like() for the strips that follow.
template <bool Predicts>
TD_INLINE bool answer_get(CallState& s, Strip& strip, std::uint32_t i) noexcept {
  Hit hit;
  const Found found = check(s, strip, i, hit);
  if (TD_UNLIKELY(found == Found::other)) return answer_call_as_row(s, strip, i, s.answered + i);
  if (TD_LIKELY(found == Found::hit)) {
    if (Predicts && i == 0) expect_like(s, hit);
    set_reply(s, i, hit);
    ++s.hits;
  } else {
    s.replies[i] = {};
  }
  return true;
}

// Answers query i. False: it needs what can be had only outside an epoch, and nothing has changed.
template <bool Predicts>
TD_INLINE bool answer_call(CallState& s, Strip& strip, std::uint32_t i) noexcept {
  if (TD_LIKELY(strip.is_set(i))) {
    ItemVersion stored;
    if (TD_UNLIKELY(!store_usually(s, strip, i, true, stored) &&
                    !store_slowly(s, strip, i, true, cell_of_candidate(s, strip, i), stored)))
      return false;
    s.replies[i] = {.code = Code::stored, .cas = stored.cas()};
    return true;
  }
  if (TD_UNLIKELY(strip.is_row(i))) return answer_call_as_row(s, strip, i, s.answered + i);
  return answer_get<Predicts>(s, strip, i);
}

// Answers the strip, and has the replies visited. Count: of its queries; 0: they are as many as it says.
template <std::uint32_t Count = 0>
TD_INLINE void answer_calls(CallState& s, Strip& strip) noexcept {
  constexpr bool predicts = Count == 0;
  const std::uint32_t count = Count != 0 ? Count : strip.count, sets = strip.sets;
  std::uint32_t i = 0;
  if (TD_LIKELY((sets | strip.rows) == 0)) {
    while (i != count && TD_LIKELY(answer_get<predicts>(s, strip, i))) ++i;
  } else {
    while (i != count && TD_LIKELY(answer_call<predicts>(s, strip, i))) ++i;
  }
  s.stopped = i != count;
  if (TD_LIKELY(i != 0)) s.visit(s.visitor, s.first + s.answered, {s.replies, i});
  s.answered += i;
  if (sets == 0) return;
  if constexpr (Count == 1) {
    s.sets = i;
    if (TD_LIKELY(i != 0)) count_set(s, strip, 0);
  } else {
    count_sets(s, strip, sets & ((1u << i) - 1));
  }
}

// Of requests that one strip has: its stages one after the other, as there is no strip to overlap them with. Count: as
// for answer_calls().
template <std::uint32_t Count, class From>
TD_INLINE void run_strip(CallState& s, std::span<const From> from) noexcept {
  Strip& strip = s.ring[0];
  strip.count = strip.added = 0;
  strip.located = strip.rows = 0;
  fill_strip<Count == 1>(s, strip, from, 0, from.size());
  if constexpr (Count == 1) {
    search_one(s, strip);
  } else {
    search_alone(s, strip);
  }
  answer_calls<Count>(s, strip);
  strip.count = 0;
}

template <class From>
TD_NOINLINE inline void run_few(CallState& s, std::span<const From> from) noexcept {
  run_strip<0>(s, from);
}
template <class From>
TD_NOINLINE inline void run_ring(CallState& s, std::span<const From> from) noexcept {
  std::size_t taken = 0;
  run_strips<Mode{}, true>(
      s,
      [&s, from, &taken](Strip& strip) TD_INLINE_LAMBDA {
        const std::size_t first = taken;
        taken = std::min(from.size(), first + strip_queries);
        fill_strip<false>(s, strip, from, first, taken);
      },
      [&s](Strip& strip, std::uint32_t) TD_INLINE_LAMBDA {
        answer_calls(s, strip);
        return TD_LIKELY(!s.stopped && s.context.retired_bytes < task::retired_bytes_per_epoch_max);
      });
}

template <class From>
inline void run_calls(CallState& s, std::span<const From> from) noexcept {
  if (TD_LIKELY(from.size() == 1)) return run_strip<1>(s, from);
  if (TD_LIKELY(from.size() <= strip_queries)) return run_few(s, from);
  run_ring(s, from);
}
