// Searching slabs, written once over SlabLanes (KVCG 5.1). Compiled once for each processor: TD_LANES_NAMESPACE names
// the copy, and this file has no include guard so that each target region includes its own.
//
// Orders. A writer holds the key's stripe. It stores an entry's location before its key, and the stripe's word last,
// with a version more. A reader loads the key before the location, which it takes only if the key matches: so it is of
// an item that was live at some moment of its epoch. All stores release.
#if !defined(TD_LANES_NAMESPACE)
#error "TD_LANES_NAMESPACE must name this copy of the algorithm"
#endif

namespace tandem::TD_LANES_NAMESPACE {

// Entries of the slab with key word `key`: a key's, or 0 for the free ones.
template <SlabLanes L>
TD_LANE std::uint32_t entries_with(const L l, const Slab* slab, std::uint64_t key) {
  std::uint32_t same = 0;
  for (std::uint32_t line = 0; line < slab_lines; ++line)
    same |= l.match(slab->key + line * slab_line_keys, key) << line * slab_line_keys;
  l.order_loads();
  return same & all_entries;
}

TD_LANE std::uint32_t location_in(const Slab* slab, std::uint32_t entry) {
  return std::atomic_ref<std::uint32_t>(const_cast<std::uint32_t&>(slab->location[entry]))
      .load(std::memory_order_acquire);
}
TD_LANE const Slab* next_of(const SlabView& view, const Slab* slab) {
  const std::uint64_t next =
      std::atomic_ref<std::uint64_t>(const_cast<std::uint64_t&>(slab->next)).load(std::memory_order_acquire);
  return next != 0 ? view.more + (next - 1) : nullptr;
}

// Location in the slab's first entry of the key, or in its preferred line's first; or 0. Only a candidate: the caller
// compares the key.
template <SlabLanes L>
TD_LANE std::uint32_t candidate_in_line(const L l, const Slab* slab, Fingerprint f) {
  const std::uint32_t first = preferred_line(f) * slab_line_keys;
  const std::uint32_t same = l.match(slab->key + first, slab_key(f));
  l.order_loads();
  return same != 0 ? location_in(slab, first + static_cast<std::uint32_t>(std::countr_zero(same))) : 0;
}
template <SlabLanes L>
TD_LANE std::uint32_t candidate_in(const L l, const Slab* slab, std::uint64_t key) {
  const std::uint32_t same = entries_with(l, slab, key);
  return same != 0 ? location_in(slab, static_cast<std::uint32_t>(std::countr_zero(same))) : 0;
}

TD_LANE void prefetch_slab_item(const void* items, std::uint32_t location) {
  __builtin_prefetch(
      reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(items) + std::uintptr_t{location} * granule_bytes),
      0, 3);
}
TD_LANE void prefetch_keys(const Slab* slab) {
  for (std::uint32_t line = 0; line < slab_lines; ++line) __builtin_prefetch(slab->key + line * slab_line_keys, 0, 3);
}

// In two passes over a strip of at most 32: the preferred lines, which were prefetched; then, for those without a
// candidate, which the first pass returns as bits, the rest of the chains.
template <SlabLanes L>
TD_LANE std::uint32_t search_lines(const L l, SlabView view, const Fingerprint* f, std::uint32_t count,
                                   std::uint32_t* location, const void* items) {
  std::uint32_t left = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const Slab* const slab = view.of(f[i]);
    location[i] = candidate_in_line(l, slab, f[i]);
    if (location[i] != 0) {
      prefetch_slab_item(items, location[i]);
    } else {
      left |= 1u << i;
      prefetch_keys(slab);
    }
  }
  return left;
}
template <SlabLanes L>
TD_LANE void search_chains(const L l, SlabView view, const Fingerprint* f, std::uint32_t left, std::uint32_t* location,
                           const void* items) {
  for (; left != 0; left &= left - 1) {
    const auto i = static_cast<std::uint32_t>(std::countr_zero(left));
    const std::uint64_t key = slab_key(f[i]);
    for (const Slab* slab = view.of(f[i]); slab != nullptr; slab = next_of(view, slab)) {
      location[i] = candidate_in(l, slab, key);
      if (location[i] == 0) continue;
      prefetch_slab_item(items, location[i]);
      break;
    }
  }
}

}  // namespace tandem::TD_LANES_NAMESPACE

#undef TD_LANES_NAMESPACE
