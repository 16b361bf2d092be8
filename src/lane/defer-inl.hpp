// Sets that a later query of the ring overwrites: they are answered, and neither executed nor looked at
// (docs/decisions/0026). Between two workers that set a popular key its line moves once for all sets that a worker has
// in its ring. Part of lane-inl.hpp, inside its namespace.

TD_INLINE std::uint32_t queries_of(const Strip& strip) noexcept { return (1u << strip.count) - 1; }

// Marks the sets that sets of strip `number`, which has been hashed last, overwrite: the query before them with the
// same fingerprint is a usual set of their key and layout. So there is no other query of the key between the two.
TD_NOINLINE inline void link_sets(State& s, std::uint32_t number) noexcept {
  Strip& strip = s.ring[number % s.ring.size()];
  for (std::uint32_t sets = strip.sets & queries_of(strip); sets != 0; sets &= sets - 1) {
    const auto later = static_cast<std::uint32_t>(std::countr_zero(sets));
    if (strip.layout[later] == no_layout) continue;
    const Fingerprint f = strip.fingerprint[later];
    Strip* earlier = &strip;
    std::uint32_t same = K::same_fingerprints(strip, f) & ((1u << later) - 1);
    for (std::uint32_t back = 1; same == 0 && back <= std::min(s.hashed_ahead, number); ++back) {
      earlier = &s.ring[(number - back) % s.ring.size()];
      same = K::same_fingerprints(*earlier, f) & queries_of(*earlier);
    }
    if (same == 0) continue;
    const auto i = 31 - static_cast<std::uint32_t>(std::countl_zero(same));
    if (!earlier->is_set(i) || earlier->layout[i] != strip.layout[later] ||
        (earlier->kind(i) & kind::command_mask) == kind::binary_store ||  // its reply has a CAS id
        std::memcmp(earlier->key16[i], strip.key16[later], short_key_bytes_max) != 0)
      continue;
    earlier->overwritten |= 1u << i;
    earlier->successor[i] = static_cast<std::uint8_t>((number % s.ring.size()) * strip_queries + later);
  }
}

// Takes the set, which is marked as overwritten, as executed. False: it has to be executed.
TD_NOINLINE inline bool defer(State& s, const Strip& strip, std::uint32_t i) noexcept {
  Strip& next = s.ring[strip.successor[i] / strip_queries];
  const std::uint32_t query = strip.successor[i] % strip_queries;
  if (s.deferred_count == State::deferred_max || strip.item[i] == &no_item.header ||
      s.segments[next.segment(query)].stopped || is_expired(word::ExpiryS::put(0, strip.set[i].expiry_s), s.now_s))
    return false;
  next.overwrites |= 1u << query;
  s.deferred[s.deferred_count++] = {&next, query, strip.fingerprint[i], strip.item[i], strip.set_of(i, false)};
  s.context.counters.set_overwritten.add();
  return true;
}
