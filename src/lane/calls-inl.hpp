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

TD_INLINE bool is_key(std::string_view key) noexcept { return key.size() - 1 < key_bytes_max; }

TD_INLINE bool take(const State&, Strip& strip, std::string_view key) noexcept {
  if (TD_UNLIKELY(!is_key(key))) return false;
  note_key(strip, key, kind::get);
  return true;
}

TD_INLINE bool take(const State& s, Strip& strip, const Request& request) noexcept {
  if (TD_UNLIKELY(!is_key(request.key) || !CallLane::takes(request))) return false;
  if (TD_LIKELY(request.action == Action::get)) {
    note_key(strip, request.key, kind::get);
    return true;
  }
  if (TD_UNLIKELY(request.value.size() > s.item_bytes_max)) return false;
  const std::uint32_t i = strip.count;
  const char* const value = request.value.data() != nullptr ? request.value.data() : "";
  strip.set[i] = {value, static_cast<std::uint32_t>(request.value.size()), request.flags,
                  request.ttl_s == 0 ? Clock::never : s.context.shared.clock.expiry_s(request.ttl_s)};
  strip.layout[i] = layout_of(request.key.size(), strip.set[i]) | s.unusual_layout;
  strip.sets |= 1u << i;
  note_key(strip, request.key, kind::set);
  return true;
}

TD_INLINE const char* key_data(std::string_view key) noexcept { return key.data(); }
TD_INLINE const char* key_data(const Request& request) noexcept { return request.key.data(); }

// Fills the strip with the next requests. Fewer than eight: the input ends, or the lane does not take the next one.
template <class From>
TD_INLINE void take_strip(CallState& s, Strip& strip, std::span<const From> from) noexcept {
  constexpr std::size_t keys_ahead = 2 * strip_queries;  // the caller's keys may be anywhere in memory
  strip.sets = 0;
  strip.has_long_key = false;
  std::size_t next = s.taken;
  const std::size_t end = std::min(from.size(), next + strip_queries);
  for (; next != end; ++next) {
    if (TD_LIKELY(next + keys_ahead < from.size())) prefetch_read(key_data(from[next + keys_ahead]));
    if (TD_UNLIKELY(!take(s, strip, from[next]))) break;
    ++strip.count;
  }
  s.taken = next;
}

// --- in place of WR

// The reply to a hit. A short value is copied, with its key before it. A longer one is never rewritten in place, so the
// reply points into the item, which the epoch keeps.
TD_INLINE void set_reply(CallState& s, std::uint32_t i, const Hit& hit, std::uint32_t key_bytes) noexcept {
  Reply& reply = s.replies[i];
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

// Answers query i. False: the lane does not take it, and nothing has changed.
template <bool Timed>
TD_INLINE bool answer_call(CallState& s, Strip& strip, std::uint32_t i) noexcept {
  Reply& reply = s.replies[i];
  if (strip.is_set(i)) {
    ItemVersion stored;
    if (TD_UNLIKELY(!store_usually(s, strip, i, true, stored) &&
                    !store_slowly(s, strip, i, true, cell_of_candidate(s, strip, i), stored)))
      return false;
    reply = {.code = Code::stored, .cas = stored.cas()};
    if constexpr (Timed) s.laps->lap(Task::insert);
    return true;
  }
  Hit hit;
  const Found found = check(s, strip, i, hit);
  if constexpr (Timed) s.laps->lap(Task::key_compare);
  if (TD_UNLIKELY(found == Found::other)) return false;
  if (TD_LIKELY(found == Found::hit)) {
    if (i == 0) expect_like(s, hit);
    set_reply(s, i, hit, info::key_bytes(strip.info[i]));
    ++s.hits;
  } else {
    reply = {};
  }
  if constexpr (Timed) s.laps->lap(Task::write_response);
  return true;
}

template <bool Timed>
TD_INLINE void answer_calls(CallState& s, Strip& strip) noexcept {
  std::uint32_t i = 0;
  while (i < strip.count && TD_LIKELY(answer_call<Timed>(s, strip, i))) ++i;
  s.stopped = i != strip.count;
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
