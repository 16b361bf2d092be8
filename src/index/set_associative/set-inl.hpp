// Searching a set and changing it, written once over TagLanes (MemcachedGPU 4.2). Compiled once for each processor:
// TD_LANES_NAMESPACE names the copy, and this file has no include guard so that each target region includes its own. In
// a .cu file it exists on the device only.
//
// Orders. A writer holds the set's lock. It stores an entry before its tag, and the lock's word last, with a version
// more. Loads acquire and stores release, so a reader that sees any of a writer's stores finds the word locked or
// changed when it reads it afterwards.
#if !defined(TD_LANES_NAMESPACE)
#error "TD_LANES_NAMESPACE must name this copy of the algorithm"
#endif

namespace tandem::TD_LANES_NAMESPACE {

// Ways with the key's tag.
template <unsigned Ways, TagLanes L>
TD_LANE std::uint32_t tagged(const L l, const EntrySet<Ways>* set, std::uint32_t signature) {
  const std::uint32_t ways = l.match(set->tags, tag_of(signature));
  l.order_loads();
  return ways;
}

// Location in the first of `ways` with the signature in its entry, or 0. Only a candidate: the caller compares the key.
template <unsigned Ways, TagLanes L>
TD_LANE std::uint32_t candidate_in(const L l, const EntrySet<Ways>* set, std::uint32_t ways, std::uint32_t signature) {
  for (; ways != 0; ways &= ways - 1) {
    const Cell c{l.load64(&set->entry[l.lowest(ways)].cell)};
    if (c.signature() == signature) return c.location();
  }
  return 0;
}

// Free ways. REQUIRES of this and the next ones: the caller holds the set's lock, or uses the result as a hint.
template <unsigned Ways, TagLanes L>
TD_LANE std::uint32_t free_ways(const L l, const EntrySet<Ways>* set) {
  return l.match(set->tags, 0) & EntrySet<Ways>::all_ways;
}

// Stamps wrap, so ages are compared. Another thread's stamp may be a little ahead of `now`: its age is 0.
TD_LANE std::uint32_t age_of(std::uint32_t stamp, std::uint32_t now) {
  constexpr std::uint32_t ahead_max = 1 << 16;
  return stamp - now <= ahead_max ? 0 : now - stamp;
}

// The least recently used of `ways` (not 0).
template <unsigned Ways, TagLanes L>
TD_LANE std::uint32_t oldest_of(const L l, const EntrySet<Ways>* set, std::uint32_t ways, std::uint32_t now) {
  std::uint32_t oldest = l.lowest(ways), age_most = age_of(l.load32(&set->entry[oldest].stamp), now);
  for (ways &= ways - 1; ways != 0; ways &= ways - 1) {
    const std::uint32_t way = l.lowest(ways), age = age_of(l.load32(&set->entry[way].stamp), now);
    if (age > age_most) {
      oldest = way;
      age_most = age;
    }
  }
  return oldest;
}

template <unsigned Ways, TagLanes L>
TD_LANE void set_tag(const L l, EntrySet<Ways>* set, std::uint32_t way, std::uint32_t tag) {
  std::uint64_t* const half = &set->tags[way / 8];
  const std::uint32_t shift = way % 8 * 8;
  l.store64(half, (l.load64(half) & ~(std::uint64_t{0xff} << shift)) | std::uint64_t{tag} << shift);
}
// Makes the way the key's. A device's copy has the cells alone. REQUIRES: the item is live; the caller holds the set's
// lock.
template <unsigned Ways, TagLanes L>
TD_LANE void write_way(const L l, EntrySet<Ways>* set, std::uint32_t way, Cell cell, SetLengths lengths,
                       std::uint32_t now) {
  SetEntry* const entry = &set->entry[way];
  l.store32(&entry->stamp, now);
  l.store32(&entry->lengths, lengths.bits);
  l.store64(&entry->cell, cell.bits);
  set_tag(l, set, way, tag_of(cell.signature()));
}
template <unsigned Ways, TagLanes L>
TD_LANE void clear_way(const L l, EntrySet<Ways>* set, std::uint32_t way) {
  set_tag(l, set, way, 0);
  l.store64(&set->entry[way].cell, 0);
}

// The set's lock. Each try is one attempt: the caller decides how it waits.
template <TagLanes L>
TD_LANE bool try_lock(const L l, std::uint64_t* word) {
  const SetWord seen{l.load64(word)};
  return seen.free() && l.cas(word, seen.bits, seen.bits | SetWord::locked_bit);
}
template <TagLanes L>
TD_LANE void unlock(const L l, std::uint64_t* word, bool changed) {
  const std::uint64_t held = l.load64(word) & ~SetWord::locked_bit;  // no reader enters a locked set
  l.store64(word, changed ? held + SetWord::one_version : held);
}
template <TagLanes L>
TD_LANE bool try_lock_shared(const L l, std::uint64_t* word) {
  const SetWord seen{l.load64(word)};
  return !seen.locked() && (seen.bits & SetWord::readers_mask) != SetWord::readers_mask &&
         l.cas(word, seen.bits, seen.bits + SetWord::one_reader);
}
template <TagLanes L>
TD_LANE void unlock_shared(const L l, std::uint64_t* word) {
  std::uint64_t seen = l.load64(word);
  while (!l.cas(word, seen, seen - SetWord::one_reader)) seen = l.load64(word);
}

#if !defined(__CUDACC__)
TD_LANE void prefetch_item(const void* items, std::uint32_t location) {
  __builtin_prefetch(
      reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(items) + std::uintptr_t{location} * granule_bytes),
      0, 3);
}

// In two passes over a strip of at most 32: the tags (prefetched), then the entries of those with a match, which the
// first pass returns as bits, prefetching their first lines.
template <unsigned Ways, TagLanes L>
TD_LANE std::uint32_t search_tags(const L l, SetView<Ways> view, const Fingerprint* f, std::uint32_t count,
                                  std::uint32_t* location) {
  std::uint32_t left = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const EntrySet<Ways>* const set = view.of(f[i]);
    const std::uint32_t ways = tagged(l, set, f[i].signature);
    location[i] = 0;
    left |= (ways != 0 ? 1u : 0u) << i;
    __builtin_prefetch(&set->entry[l.lowest(ways | 1u << (Ways - 1))], 0, 3);
  }
  return left;
}
template <unsigned Ways, TagLanes L>
TD_LANE void search_entries(const L l, SetView<Ways> view, const Fingerprint* f, std::uint32_t left,
                            std::uint32_t* location, const void* items) {
  for (; left != 0; left &= left - 1) {
    const std::uint32_t i = l.lowest(left);
    const EntrySet<Ways>* const set = view.of(f[i]);
    location[i] = candidate_in(l, set, tagged(l, set, f[i].signature), f[i].signature);
    if (location[i] != 0) prefetch_item(items, location[i]);
  }
}
// Both passes in one, under each set's shared lock.
template <unsigned Ways, TagLanes L, class Wait>
TD_LANE void search_locked(const L l, SetView<Ways> view, const Fingerprint* f, std::uint32_t count,
                           std::uint32_t* location, const void* items, Wait wait) {
  for (std::uint32_t i = 0; i < count; ++i) {
    EntrySet<Ways>* const set = view.of(f[i]);
    while (!try_lock_shared(l, &set->word)) wait();
    location[i] = candidate_in(l, set, tagged(l, set, f[i].signature), f[i].signature);
    unlock_shared(l, &set->word);
    if (location[i] != 0) prefetch_item(items, location[i]);
  }
}
#endif

}  // namespace tandem::TD_LANES_NAMESPACE

#undef TD_LANES_NAMESPACE
