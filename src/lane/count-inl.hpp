// Part of lane-inl.hpp: counters of what a strip has done.

// Counts executed sets by size class, too. Bit i of `sets` is query i.
TD_INLINE void count_sets(State& s, const Strip& strip, std::uint32_t sets) noexcept {
  const auto count = static_cast<std::uint32_t>(std::popcount(sets));
  s.sets += count;
  const std::uint64_t layout = strip.layout[0];
  std::uint64_t pair[strip_queries / 2], all = layout * ((std::uint64_t{1} << 32) + 1);
  std::memcpy(pair, strip.layout, sizeof pair);
  if (TD_UNLIKELY(count != strip_queries || layout == no_layout ||
                  ((pair[0] ^ all) | (pair[1] ^ all) | (pair[2] ^ all) | (pair[3] ^ all)) != 0))
    return count_sets_apart(s, strip, sets);
  const std::uint64_t bytes = Item::total_bytes(0, word::KeyBytes::get(layout), word::ValueBytes::get(layout));
  s.context.classes[s.context.shared.heap.size_class(bytes)].cmd_set.add(count);
}
