// The cuckoo index, written once over Lanes (Mega-KV 4.2). Compiled once for each processor: TD_LANES_NAMESPACE names
// the copy, and this file has no include guard so that each target region includes its own. In a .cu file it exists on
// the device only.
//
// insert(), replace() and erase() are lock-free. They serve tables that are filled by one batch of operations: bulk
// builds and the device's kernels. The host's concurrent writers go through CuckooIndex, which adds stripes; both
// displace by the same rule.
#if !defined(TD_LANES_NAMESPACE)
#error "TD_LANES_NAMESPACE must name this copy of the algorithm"
#endif

namespace tandem::TD_LANES_NAMESPACE {

// Limits of an insertion's search for room.
inline constexpr std::uint32_t displacement_depth = 5;    // cells on one path
inline constexpr std::uint32_t displacement_paths = 512;  // paths tried before the table counts as full
inline constexpr std::uint32_t displacement_moves = 16;   // along one path

// Target of a displaced cell: its own other bucket. A published implementation loses 8.8 % of its keys at load 0.9
// because it puts the displaced cell back under the hash of the key being inserted; the tests build that variant and
// see it fail.
struct ToOwnOtherBucket {
  TD_LANE static std::uint32_t target(IndexView index, std::uint32_t from, Cell victim, Fingerprint) {
    return index.other(from, victim.signature());
  }
};

#if !defined(__CUDACC__)
TD_LANE void prefetch_line(const void* p) { __builtin_prefetch(p, 0, 3); }
TD_LANE const void* item_at(const void* items, std::uint32_t location) {
  return reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(items) +
                                       std::uintptr_t{location} * granule_bytes);
}
#endif

// The location of the first cell with the signature in a bucket that was loaded, or 0. Only a candidate: the caller
// compares keys. Branch-free, since a match and its place are unpredictable; without a match it reads cell 0.
template <Lanes L>
TD_LANE std::uint32_t candidate(const L l, const Bucket* bucket, typename L::PerLane v, std::uint32_t signature) {
  const Cell c = l.take(bucket, v, l.lowest(l.match(v, signature) | 1u << bucket_cells) % bucket_cells);
  return c.signature() == signature ? c.location() : 0;  // it may have changed since it was loaded
}
template <Lanes L>
TD_LANE std::uint32_t search_bucket(const L l, const Bucket* bucket, std::uint32_t signature) {
  return candidate(l, bucket, l.load(bucket), signature);
}

// Three orders of work for a search (cuckoo_cuda.cu has a fourth). Which is used where: docs/decisions/0002-index.md.
//
// In turn: the second bucket is read only when the first has no match. For a device, which overlaps searches'
// latencies.
template <Lanes L>
TD_LANE std::uint32_t search_in_turn(const L l, IndexView index, Fingerprint f) {
  const std::uint32_t b1 = index.first(f);
  const std::uint32_t found = search_bucket(l, index.buckets + b1, f.signature);
  return found != 0 ? found : search_bucket(l, index.buckets + index.other(b1, f.signature), f.signature);
}

// Both at once: one branch, hit or miss. For tables in a CPU's inner caches, where a mispredicted branch costs more
// than a bucket.
template <Lanes L>
TD_LANE std::uint32_t search_both(const L l, IndexView index, Fingerprint f) {
  const std::uint32_t b1 = index.first(f);
  const Bucket* const first = index.buckets + b1;
  const Bucket* const second = index.buckets + index.other(b1, f.signature);
  const auto v1 = l.load(first);
  const auto v2 = l.load(second);
  const std::uint32_t m = l.match(v1, f.signature) | l.match(v2, f.signature) << bucket_cells;
  const std::uint32_t i = l.lowest(m | 1u << 2 * bucket_cells) % (2 * bucket_cells);
  const bool in_first = i < bucket_cells;
  const Cell c = l.take(in_first ? first : second, in_first ? v1 : v2, i % bucket_cells);
  return c.signature() == f.signature ? c.location() : 0;
}

#if !defined(__CUDACC__)
// In two passes over a strip of at most 32: the first buckets of all, then the second buckets of those without a match,
// which the first pass returns as bits and prefetches. For tables in memory, where a search costs as much as the lines
// that it reads: 1.1 to 1.3 instead of 2 for a hit. The pipeline runs other strips between the passes.
template <Lanes L>
TD_LANE std::uint32_t search_first(const L l, IndexView index, const Fingerprint* f, std::uint32_t count,
                                   std::uint32_t* location, const void* items) {
  std::uint32_t left = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t b1 = index.first(f[i]);
    const std::uint32_t found = search_bucket(l, index.buckets + b1, f[i].signature);
    location[i] = found;
    left |= (found == 0 ? 1u : 0u) << i;
    const void* const second = index.buckets + index.other(b1, f[i].signature);
    prefetch_line(found != 0 ? item_at(items, found) : second);
  }
  return left;
}
template <Lanes L>
TD_LANE void search_second(const L l, IndexView index, const Fingerprint* f, std::uint32_t left,
                           std::uint32_t* location, const void* items) {
  for (; left != 0; left &= left - 1) {
    const std::uint32_t i = l.lowest(left);
    location[i] = search_bucket(l, index.buckets + index.second(f[i]), f[i].signature);
    if (location[i] != 0) prefetch_line(item_at(items, location[i]));
  }
}
#endif

// Which cells of the bucket hold the signature and which are empty. Later loads come after these.
struct Probe {
  std::uint8_t same, empty;
};
template <Lanes L>
TD_LANE Probe probe(const L l, const Bucket* bucket, std::uint32_t signature) {
  const auto v = l.load(bucket);
  l.order_loads();
  return {static_cast<std::uint8_t>(l.match(v, signature)), static_cast<std::uint8_t>(l.match(v, 0))};
}

// The set bit of `mask` (8 bits, not 0) that follows `preferred` most closely, cyclically.
template <Lanes L>
TD_LANE std::uint32_t nearest_from(const L l, std::uint32_t mask, std::uint32_t preferred) {
  const std::uint32_t turned = ((mask | mask << bucket_cells) >> preferred) & 0xff;
  return (preferred + l.lowest(turned)) % bucket_cells;
}

// Puts the cell into an empty one of the bucket. False: none is empty.
template <Lanes L>
TD_LANE bool claim(const L l, Bucket* bucket, Cell now) {
  for (;;) {
    const std::uint32_t empty = l.match(l.load(bucket), 0);
    if (empty == 0) return false;
    const std::uint32_t i = nearest_from(l, empty, preferred_cell(now.signature()));
    if (l.cas(&bucket->cell[i], empty_cell, now).empty()) return true;
  }
}

// Clears one of the copies of cell `c` in its two buckets. REQUIRES: until then there are at least two copies, so if a
// pass finds none, another tile has moved one. Bounded nevertheless: a kernel that never ends costs the device.
template <Lanes L>
TD_LANE void clear_one_of(const L l, Bucket* a, Bucket* b, Cell c) {
  for (std::uint32_t turn = 0; turn < 2 * displacement_paths; ++turn) {
    Bucket* const bucket = turn % 2 == 0 ? a : b;
    for (std::uint32_t m = l.match(l.load(bucket), c.signature()); m != 0; m &= m - 1) {
      if (l.cas(&bucket->cell[l.lowest(m)], c, empty_cell) == c) return;
    }
  }
}

// Moves one cell along the path that starts in bucket b and takes cell `path`'s next 3 bits at each step: the deepest
// with room in its target. Copies first, then clears, so that a concurrent search finds the victim in one place or in
// both. Called again with the same path it moves the cell before that one, until bucket b itself has room. False: no
// step of the path has room.
template <class Rule, Lanes L>
TD_LANE bool displace(const L l, IndexView index, Fingerprint f, std::uint32_t b, std::uint32_t path) {
  for (std::uint32_t depth = 0; depth < displacement_depth; ++depth, path >>= 3) {
    Bucket* const from = index.buckets + b;
    const std::uint32_t slot = path % bucket_cells;
    const Cell victim = l.take(from, l.load(from), slot);
    if (victim.empty()) return true;
    const std::uint32_t to = Rule::target(index, b, victim, f);
    Bucket* const target = index.buckets + to;
    const std::uint32_t empty = l.match(l.load(target), 0);
    if (empty != 0) {
      const std::uint32_t i = nearest_from(l, empty, preferred_cell(victim.signature()));
      if (!l.cas(&target->cell[i], empty_cell, victim).empty()) return true;  // another tile was faster: look again
      // A tile that copied a cell clears one copy: this one, or, when another tile has moved it meanwhile, any of its
      // copies, since a third may have moved the one that was made here.
      if (l.cas(&from->cell[slot], victim, empty_cell) != victim) clear_one_of(l, target, from, victim);
      return true;
    }
    b = to;
  }
  return false;
}

// Adds the cell; false when no path has room. REQUIRES: the caller serialises the writers of one key, and this key is
// not in the table.
template <class Rule = ToOwnOtherBucket, Lanes L>
TD_LANE bool insert(const L l, IndexView index, Fingerprint f, std::uint32_t location) {
  const Cell now = Cell::of(f.signature, location);
  std::uint32_t b = index.first(f);
  std::uint32_t path = f.hash * 2654435761u ^ f.signature;
  for (std::uint32_t paths = 0, moves = 0; paths < displacement_paths;) {
    for (int turn = 0; turn < 2; ++turn) {
      if (claim(l, index.buckets + b, now)) return true;
      b = index.other(b, f.signature);
    }
    // Concurrent insertions can undo each other's moves; those of one warp for ever, as they run in step. After more
    // moves than a path has cells, this one tries another path, too.
    if (displace<Rule>(l, index, f, b, path >> 8) && ++moves % displacement_moves != 0) continue;
    ++paths;  // a dead end: another path, from the other bucket
    path = path * 1664525u + 1013904223u;
    b = index.other(b, f.signature);
  }
  return false;
}

// Replaces the cell of this signature and location by `now`; false when there is none. REQUIRES: no insert() runs
// meanwhile, or a cell that it moves may be missed.
template <Lanes L>
TD_LANE bool replace(const L l, IndexView index, Fingerprint f, std::uint32_t location, Cell now) {
  const Cell old = Cell::of(f.signature, location);
  std::uint32_t b = index.first(f);
  for (int turn = 0; turn < 2; ++turn) {
    Bucket* const bucket = index.buckets + b;
    for (std::uint32_t m = l.match(l.load(bucket), f.signature); m != 0; m &= m - 1) {
      if (l.cas(&bucket->cell[l.lowest(m)], old, now) == old) return true;
    }
    b = index.other(b, f.signature);
  }
  return false;
}

// Removes the cell of this signature and location; false when there is none. REQUIRES: as replace().
template <Lanes L>
TD_LANE bool erase(const L l, IndexView index, Fingerprint f, std::uint32_t location) {
  return replace(l, index, f, location, empty_cell);
}

// Changes are made in two passes over the whole group, so that the first finds every cell in place. replace_changed:
// whether nothing is left to do; then insert_changed for the remaining ones: whether there was room.
template <Lanes L>
TD_LANE bool replace_changed(const L l, IndexView index, CellChange c) {
  const Cell now = c.to != 0 ? Cell::of(c.f.signature, c.to) : empty_cell;
  const bool replaced = c.from != 0 && replace(l, index, c.f, c.from, now);
  return replaced || c.to == 0;
}
template <Lanes L>
TD_LANE bool insert_changed(const L l, IndexView index, CellChange c) {
  return insert(l, index, c.f, c.to);
}

}  // namespace tandem::TD_LANES_NAMESPACE

#undef TD_LANES_NAMESPACE
