// IN of the lane: from keys to candidates. Part of lane-inl.hpp, inside its namespace.

// Calls f(i) for the queries of a strip, unrolled, so that column offsets are constants.
template <class F>
TD_INLINE void for_each_query(F f) noexcept {
  [&]<std::uint32_t... I>(std::integer_sequence<std::uint32_t, I...>)
      __attribute__((always_inline)) { (f(I), ...); }(std::make_integer_sequence<std::uint32_t, strip_queries>{});
}

TD_INLINE void hash(const State& s, Strip& strip) noexcept {
  K::hash(strip, s.seed);
  if (TD_UNLIKELY(strip.has_long_key)) {
    for (std::uint32_t i = 0; i < strip.count; ++i) {
      const std::string_view key = strip.key_of(i);
      if (key.size() > short_key_bytes_max) strip.fingerprint[i] = long_fingerprint_of(key.data(), key.size(), s.seed);
    }
  }
  K::find_buckets(strip, s.view);
  for_each_query([&strip](std::uint32_t i) __attribute__((always_inline)) { prefetch_read(strip.first[i]); });
}

// The item that a cell names.
TD_INLINE const Item* item_at(const char* items, Cell c) noexcept {
  return reinterpret_cast<const Item*>(items + std::uint64_t{c.location()} * granule_bytes);
}

// Prefetches the items' lines beyond the first.
TD_INLINE void prefetch_more(const State& s, const Strip& strip) noexcept {
  for (std::uint32_t i = 0; i < strip_queries; ++i) {
    const char* const item = strip.item[i]->bytes();
    for (std::uint32_t more = 1; more <= s.more_lines; ++more) prefetch_read(item + more * cache_line_bytes);
  }
}

TD_INLINE void search_first(const State& s, Strip& strip) noexcept {
  const char* const items = s.items;
  for_each_query([&strip, items](std::uint32_t i) __attribute__((always_inline)) {
    const std::uint32_t signature = strip.fingerprint[i].signature;
    const Cell c = K::cell_of(strip.first[i], signature);
    const Item* item = item_at(items, c);
    const char* next = item->bytes();
    replace_unless_equal(c.signature(), signature, item, &std::as_const(no_item.header), next,
                         reinterpret_cast<const char*>(strip.second[i]));
    strip.item[i] = item;
    prefetch_read(next);
  });
  strip.left = K::without_item(strip);
  if (TD_UNLIKELY(s.more_lines != 0)) prefetch_more(s, strip);
}

TD_INLINE void search_second(const State& s, Strip& strip) noexcept {
  for (std::uint32_t left = strip.left & ((1u << strip.count) - 1); left != 0; left &= left - 1) {
    const auto i = static_cast<std::uint32_t>(std::countr_zero(left));
    const Cell c = K::cell_of(strip.second[i], strip.fingerprint[i].signature);
    const Item* const item = c.signature() == strip.fingerprint[i].signature ? item_at(s.items, c) : &no_item.header;
    strip.item[i] = item;
    for (std::uint32_t more = 0; more <= s.more_lines; ++more) prefetch_read(item->bytes() + more * cache_line_bytes);
  }
  strip.left = 0;
}
