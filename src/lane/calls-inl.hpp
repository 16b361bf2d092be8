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

TD_INLINE const char* key_data(std::string_view key) noexcept { return key.data(); }
TD_INLINE const char* key_data(const Request& request) noexcept { return request.key.data(); }

// Fills the strip with the next requests. Fewer than eight: the input ends.
template <class From>
TD_INLINE void take_strip(CallState& s, Strip& strip, std::span<const From> from) noexcept {
  constexpr std::size_t keys_ahead = 2 * strip_queries;  // the caller's keys may be anywhere in memory
  strip.sets = 0;
  strip.has_long_key = false;
  const std::uint8_t key_kind = s.key_kind;
  std::size_t next = s.taken;
  const std::size_t end = std::min(from.size(), next + strip_queries);
  for (; next != end; ++next) {
    if (TD_LIKELY(next + keys_ahead < from.size())) prefetch_read(key_data(from[next + keys_ahead]));
    take(s, strip, from[next], key_kind);
    ++strip.count;
  }
  if (TD_UNLIKELY(s.source == Source::found)) put_all_found(s, strip, s.taken);
  s.taken = next;
}

// --- in place of WR

// The reply to a hit. A short value is copied, with its key before it. A longer one is never rewritten in place, so the
// reply points into the item, which the epoch keeps.
TD_INLINE void set_reply(CallState& s, std::uint32_t i, const Hit& hit) noexcept {
  Reply& reply = s.replies[i];
  const auto key_bytes = static_cast<std::uint32_t>(word::KeyBytes::get(hit.fixed));  // with any_key not the query's
  const auto value_bytes = static_cast<std::uint32_t>(word::ValueBytes::get(hit.fixed));
  const bool has_flags = word::HasFlags::get(hit.fixed) != 0;
  const char* const from = hit.item->bytes() + sizeof(Item) + (has_flags ? sizeof(std::uint32_t) : 0);
  reply.code = Code::hit;
  reply.key_bytes = static_cast<std::uint8_t>(key_bytes);
  reply.number = 0;
  const auto set_version = [&reply, &hit](std::uint64_t state, std::uint64_t fixed) {
    reply.flags = word::HasFlags::get(fixed) != 0 ? hit.item->client_flags() : 0;
    reply.cas = word::CasHigh::get(state) << word::CasLow::width | word::CasLow::get(fixed);
  };
  set_version(hit.state, hit.fixed);
  if (TD_UNLIKELY(value_bytes > rewritten_value_bytes_max)) {
    reply.value = {from + key_bytes, value_bytes};
    return;
  }
  char* const to = s.copies[i];
  racing_copy(to, from, key_bytes + value_bytes);
  reply.value = {to + key_bytes, value_bytes};
  if (TD_LIKELY(is_whole(hit))) return;
  copy_slowly(hit.item, hit.state, [&](const ItemVersion& seen) noexcept {
    racing_copy(to, from, key_bytes + value_bytes);
    set_version(seen.state, seen.fixed);
  });
}

template <bool Timed>
TD_INLINE bool answer_get(CallState& s, Strip& strip, std::uint32_t i) noexcept {
  Laps* const laps = Timed ? s.laps : nullptr;
  Hit hit;
  const Found found = check(s, strip, i, hit);
  if constexpr (Timed) s.laps->lap(Task::key_compare);
  if (TD_UNLIKELY(found == Found::other)) return answer_call_as_row(s, strip, i, s.answered + i, laps);
  if (TD_LIKELY(found == Found::hit)) {
    if (i == 0) expect_like(s, hit);
    set_reply(s, i, hit);
    ++s.hits;
  } else {
    s.replies[i] = {};
  }
  if constexpr (Timed) s.laps->lap(Task::write_response);
  return true;
}

// Answers query i. False: it needs what can be had only outside an epoch, and nothing has changed.
template <bool Timed>
TD_INLINE bool answer_call(CallState& s, Strip& strip, std::uint32_t i) noexcept {
  if (TD_LIKELY(strip.is_set(i))) {
    ItemVersion stored;
    if (TD_UNLIKELY(!store_usually(s, strip, i, true, stored) &&
                    !store_slowly(s, strip, i, true, cell_of_candidate(s, strip, i), stored)))
      return false;
    s.replies[i] = {.code = Code::stored, .cas = stored.cas()};
    if constexpr (Timed) s.laps->lap(Task::insert);
    return true;
  }
  if (TD_UNLIKELY(strip.is_row(i))) return answer_call_as_row(s, strip, i, s.answered + i, Timed ? s.laps : nullptr);
  return answer_get<Timed>(s, strip, i);
}

template <bool Timed>
TD_INLINE void answer_calls(CallState& s, Strip& strip) noexcept {
  const std::uint32_t count = strip.count;
  std::uint32_t i = 0;
  if (TD_LIKELY((strip.sets | strip.rows) == 0)) {
    while (i != count && TD_LIKELY(answer_get<Timed>(s, strip, i))) ++i;
  } else {
    while (i != count && TD_LIKELY(answer_call<Timed>(s, strip, i))) ++i;
  }
  s.stopped = i != count;
  if (TD_LIKELY(i != 0)) s.visit(s.visitor, s.first + s.answered, {s.replies, i});
  s.answered += i;
  if (strip.sets != 0) count_sets(s, strip, strip.sets & ((1u << i) - 1));
  if constexpr (Timed) s.laps->lap(Task::write_response);
}

template <bool Timed, class From>
inline void run_calls_from(CallState& s, std::span<const From> from) noexcept {
  run_strips<Mode{.timed = Timed}>(
      s, [&s, from](Strip& strip) TD_INLINE_LAMBDA { take_strip(s, strip, from); },
      [&s](Strip& strip, std::uint32_t) TD_INLINE_LAMBDA {
        answer_calls<Timed>(s, strip);
        return TD_LIKELY(!s.stopped && s.context.retired_bytes < task::retired_bytes_per_epoch_max);
      });
}

template <bool Timed>
inline void run_calls(CallState& s) noexcept {
  if (s.requests.empty()) {
    run_calls_from<Timed>(s, s.keys);
  } else {
    run_calls_from<Timed>(s, s.requests);
  }
}
