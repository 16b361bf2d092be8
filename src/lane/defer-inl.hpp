// Sets that a later query of the ring overwrites: they are answered, and neither executed nor looked at
// (docs/decisions/0026). Between two workers that set a popular key its line moves once for all sets that a worker has
// in its ring. Part of lane-inl.hpp, inside its namespace.

// Marks the sets that sets of this strip, `number`, which has been hashed last, overwrite: the query before them with
// the same fingerprint is a usual set of their key and layout. So there is no other query of the key between the two.
TD_NOINLINE inline void link_sets(State& s, Strip& strip, std::uint32_t number) noexcept {
  const std::uint32_t at = number & s.ring_mask, back_max = std::min(s.hashed_ahead, number);
  auto& recent = s.deferring->recent;
  for (std::uint32_t i = 0; i < strip.count; ++i) {
    const Fingerprint f = strip.fingerprint[i];
    const std::uint32_t before =
        std::exchange(recent[f.signature % recent.size()], static_cast<std::uint8_t>(at * strip_queries + i));
    const std::uint32_t earlier_at = before / strip_queries, earlier = before % strip_queries;
    if (!strip.is_set(i) || strip.layout[i] == no_layout || earlier_at > s.ring_mask) continue;
    // Of another lap of the ring, or another run, if it is not one of the unanswered queries before this one.
    const std::uint32_t back = (at - earlier_at) & s.ring_mask;
    if (back > back_max || (back == 0 && earlier >= i)) continue;
    Strip& other = s.ring_begin[earlier_at];
    if (earlier >= other.count || other.fingerprint[earlier] != f || !other.is_set(earlier) ||
        other.layout[earlier] != strip.layout[i] ||
        (other.kind(earlier) & kind::command_mask) == kind::binary_store ||  // its reply has a CAS id
        std::memcmp(other.key16[earlier], strip.key16[i], short_key_bytes_max) != 0)
      continue;
    other.overwritten |= 1u << earlier;
    other.successor[earlier] = static_cast<std::uint8_t>(at * strip_queries + i);
  }
}

// Takes the set, which is marked as overwritten, as executed. False: it has to be executed.
TD_NOINLINE inline bool defer(State& s, const Strip& strip, std::uint32_t i) noexcept {
  Strip& next = s.ring_begin[strip.successor[i] / strip_queries];
  const std::uint32_t query = strip.successor[i] % strip_queries;
  if (s.deferred_count == Deferring::sets_max || strip.item[i] == &no_item.header ||
      s.segments[next.segment(query)].stopped || is_expired(word::ExpiryS::put(0, strip.set[i].expiry_s), s.now_s))
    return false;
  next.overwrites |= 1u << query;
  next.deferred[query] = static_cast<std::uint8_t>(s.deferred_count);
  s.deferring->sets[s.deferred_count++] = {&next, query, strip.fingerprint[i], strip.item[i], strip.set_of(i, false)};
  return true;
}

// Executes the sets that sets of this answered strip were to overwrite, which have not been executed.
TD_NOINLINE inline void execute_deferred_before(State& s, Strip& strip) noexcept {
  while (strip.overwrites != 0)
    execute_deferred(s, take_deferred(s, strip, static_cast<std::uint32_t>(std::countr_zero(strip.overwrites))));
}
