// IN of the lane: from keys to candidates. Part of lane-inl.hpp, inside its namespace.

// Calls f(i) for the queries of a strip, unrolled, so that column offsets are constants.
template <class F>
TD_INLINE void for_each_query(F f) noexcept {
  [&]<std::uint32_t... I>(std::integer_sequence<std::uint32_t, I...>)
      TD_INLINE_LAMBDA { (f(I), ...); }(std::make_integer_sequence<std::uint32_t, strip_queries>{});
}

// Calls f(i) for the queries with set bits.
template <class F>
TD_INLINE void for_each_of(std::uint32_t queries, F f) noexcept {
  for (; queries != 0; queries &= queries - 1) f(static_cast<std::uint32_t>(std::countr_zero(queries)));
}

// Calls f(i) for the strip's queries without a device's candidate or answer, and for columns behind its count.
template <class F>
TD_INLINE void for_each_not_located(const Strip& strip, F f) noexcept {
  for_each_of(strip.located ^ all_located, f);
}

// The item that a cell names.
TD_INLINE const Item* item_at(const char* items, Cell c) noexcept {
  return reinterpret_cast<const Item*>(items + std::uint64_t{c.location()} * granule_bytes);
}

// --- a set-associative index

TD_INLINE void find_set(const State& s, Strip& strip, std::uint32_t i) noexcept {
  const EntrySet<set_ways>* const set = s.sets_view.of(strip.fingerprint[i]);
  strip.entries[i] = set;
  prefetch_read(set);
}
TD_NOINLINE inline void find_sets(const State& s, Strip& strip) noexcept {
  for_each_query([&](std::uint32_t i) TD_INLINE_LAMBDA { find_set(s, strip, i); });
}

// Strip::left are then the queries for which a way's tag matches; the first such entry is prefetched.
TD_NOINLINE inline void search_tags(Strip& strip) noexcept {
  constexpr typename K::Tags l{};
  std::uint32_t left = 0;
  for_each_query([&](std::uint32_t i) TD_INLINE_LAMBDA {
    const EntrySet<set_ways>* const set = strip.entries[i];
    const std::uint32_t ways = l.match(set->tags, tag_of(strip.fingerprint[i].signature));
    strip.item[i] = &no_item.header;
    left |= (ways != 0 ? 1u : 0u) << i;
    prefetch_read(&set->entry[l.lowest(ways | 1u << (set_ways - 1))]);
  });
  strip.left = left & ~strip.located;
}

// The candidate among a set's entries, which counts as accessed now.
TD_INLINE const Item* search_entries(const State& s, const Strip& strip, std::uint32_t i) noexcept {
  constexpr typename K::Tags l{};
  const EntrySet<set_ways>* const set = strip.entries[i];
  const std::uint32_t signature = strip.fingerprint[i].signature;
  std::uint32_t ways = l.match(set->tags, tag_of(signature));
  l.order_loads();
  for (; ways != 0; ways &= ways - 1) {
    const SetEntry& entry = set->entry[l.lowest(ways)];
    const Cell c{l.load64(&entry.cell)};
    if (TD_UNLIKELY(c.signature() != signature)) continue;
    stamp_entry(entry, s.stamp);
    return item_at(s.items, c);
  }
  return &no_item.header;
}

// --- a slab list

TD_INLINE void find_slab(const State& s, Strip& strip, std::uint32_t i) noexcept {
  const Fingerprint f = strip.fingerprint[i];
  const Slab* const slab = s.slabs_view.of(f);
  strip.slab[i] = slab;
  prefetch_read(slab->key + preferred_line(f) * slab_line_keys);
  prefetch_read(slab->location + preferred_line(f) * slab_line_keys);
}
TD_NOINLINE inline void find_slabs(const State& s, Strip& strip) noexcept {
  for_each_query([&](std::uint32_t i) TD_INLINE_LAMBDA { find_slab(s, strip, i); });
}

TD_INLINE const Item* item_of_slab(const char* items, const Slab* slab, std::uint32_t entry) noexcept {
  const std::atomic_ref<std::uint32_t> location(const_cast<std::uint32_t&>(slab->location[entry]));
  return item_at(items, Cell::of(0, location.load(std::memory_order_acquire)));
}

// The candidate in a line of the slab. Returns whether there is one.
TD_INLINE bool search_line(const char* items, Strip& strip, std::uint32_t i, std::uint32_t line) noexcept {
  constexpr typename K::Slabs l{};
  const Slab* const slab = strip.slab[i];
  const std::uint32_t first = line * slab_line_keys;
  const std::uint32_t same = l.match(slab->key + first, slab_key(strip.fingerprint[i]));
  l.order_loads();
  if (same == 0) return false;
  strip.item[i] = item_of_slab(items, slab, first + static_cast<std::uint32_t>(std::countr_zero(same)));
  prefetch_read(strip.item[i]);
  return true;
}

// The preferred line; where it has none, the line beside it is prefetched.
TD_INLINE void search_preferred_line(const char* items, Strip& strip, std::uint32_t i) noexcept {
  const std::uint32_t line = preferred_line(strip.fingerprint[i]);
  if (TD_LIKELY(search_line(items, strip, i, line))) return;
  strip.item[i] = &no_item.header;
  prefetch_read(strip.slab[i]->key + line_beside(line) * slab_line_keys);
}
TD_NOINLINE inline void search_lines(const State& s, Strip& strip) noexcept {
  for_each_query([&](std::uint32_t i) TD_INLINE_LAMBDA { search_preferred_line(s.items, strip, i); });
}

// The line beside it; where it has none, the rest of the slab is prefetched. Strip::left are then these.
TD_NOINLINE inline void search_lines_beside(const State& s, Strip& strip) noexcept {
  std::uint32_t left = 0;
  for_each_of(strip.left & ((1u << strip.count) - 1), [&](std::uint32_t i) TD_INLINE_LAMBDA {
    const std::uint32_t beside = line_beside(preferred_line(strip.fingerprint[i]));
    if (TD_LIKELY(search_line(s.items, strip, i, beside))) return;
    left |= 1u << i;
    const std::uint32_t others = (beside & 2u) ^ 2u;
    for (const std::uint32_t line : {others, others + 1}) prefetch_read(strip.slab[i]->key + line * slab_line_keys);
    prefetch_read(strip.slab[i]->location + others * slab_line_keys);
  });
  strip.left = left;
}

// All lines of all slabs of the chains.
TD_NOINLINE inline void search_chains(const State& s, Strip& strip) noexcept {
  if (strip.count == 0) strip.left = 0;  // of a run that ended early
  for_each_of(strip.left, [&](std::uint32_t i) TD_INLINE_LAMBDA {
    for (;;) {
      bool is_found = false;
      for (std::uint32_t line = 0; line < slab_lines && !is_found; ++line)
        is_found = search_line(s.items, strip, i, line);
      const std::uint64_t next = std::atomic_ref<std::uint64_t>(const_cast<std::uint64_t&>(strip.slab[i]->next))
                                     .load(std::memory_order_acquire);
      if (is_found || next == 0) break;
      const Slab* const slab = s.slabs_view.more + (next - 1);
      for (std::uint32_t line = 0; line < slab_lines; ++line) prefetch_read(slab->key + line * slab_line_keys);
      strip.slab[i] = slab;
    }
  });
  strip.left = 0;
}

// --- a tree of leaves

// Finds where nodes name the children with the strip's keys. Each node's first step is done before any second one, so
// that what the second one reads has time to arrive.
TD_INLINE void find_in_nodes(Strip& strip) noexcept {
  static_assert(short_key_bytes_max == KeyStart::bytes_max);
  const std::int32_t* block[strip_queries];  // nullptr: the child is found already
  std::int32_t head[strip_queries];
  for (std::uint32_t i = 0; i < strip.count; ++i) {
    const InnerNode& node = *strip.node[i];
    const char* const key16 = strip.key16[i];
    block[i] = nullptr;
    if (TD_UNLIKELY(!node.has_prefix(key16))) {
      strip.child[i] = node.children() + node.child_without_prefix(key16);
    } else if (TD_UNLIKELY(!node.has_head_in_start())) {
      strip.child[i] = node.children() + node.child_of(strip.key_of(i), false);
    } else {
      head[i] = node.head_in(key16);
      block[i] = node.heads() + K::below_in(node.last_heads, head[i]) * InnerNode::block_heads;
      prefetch_read(block[i]);
    }
  }
  for (std::uint32_t i = 0; i < strip.count; ++i) {
    if (TD_UNLIKELY(block[i] == nullptr)) continue;
    const InnerNode& node = *strip.node[i];
    const auto below = static_cast<std::uint32_t>(block[i] - node.heads()) + K::below_in(block[i], head[i]);
    strip.child[i] = node.children() + node.child_at(below, head[i], strip.key_of(i), false);
  }
}

// Finds the nodes above the keys' leaves, level by level.
TD_NOINLINE inline void descend(const InnerNode* const root, Strip& strip) noexcept {
  for (std::uint32_t i = 0; i < strip.count; ++i) strip.node[i] = root;
  for (std::uint32_t level = root->level; level != 0; --level) {
    find_in_nodes(strip);
    for (std::uint32_t i = 0; i < strip.count; ++i) {
      const auto* const next = static_cast<const InnerNode*>(*strip.child[i]);
      strip.node[i] = next;
      prefetch_read(next);
      prefetch_read(next->last_heads);
    }
  }
}

TD_NOINLINE inline void find_children(Strip& strip) noexcept {
  find_in_nodes(strip);
  for (std::uint32_t i = 0; i < strip.count; ++i) prefetch_read(static_cast<const void*>(strip.child[i]));
}

// Columns behind the strip's count hold earlier queries: their leaves may be gone.
TD_NOINLINE inline void find_leaves(const State& s, Strip& strip) noexcept {
  for (std::uint32_t i = 0; i < strip.count; ++i) {
    const IndexView view = s.tree->buckets_of(*static_cast<const Leaf*>(*strip.child[i]));
    strip.first[i] = view.buckets + view.first(strip.fingerprint[i]);
    strip.second[i] = view.buckets + view.second(strip.fingerprint[i]);
    prefetch_read(strip.first[i]);
  }
  std::fill(strip.first + strip.count, std::end(strip.first), strip.first[0]);
  std::fill(strip.second + strip.count, std::end(strip.second), strip.second[0]);
}

TD_INLINE bool has_leaves(const State& s) noexcept { return s.tree != nullptr || s.order != nullptr; }

template <class Tree>
TD_INLINE void prefetch_leaves(const Tree& tree, Strip& strip) noexcept {
  for_each_of(strip.added, [&](std::uint32_t i) TD_INLINE_LAMBDA {
    tree.prefetch_add(*static_cast<Leaf*>(*strip.child[i]), strip.fingerprint[i]);
  });
  for_each_of(strip.added,
              [&](std::uint32_t i) TD_INLINE_LAMBDA { tree.prefetch_next(*static_cast<Leaf*>(*strip.child[i])); });
}

// Fetches what sets of new keys will write to in their leaves: those of the index, or of the order beside a table.
TD_NOINLINE inline void prefetch_leaves_of_new(const State& s, Strip& strip) noexcept {
  const std::uint32_t added = strip.sets & K::without_item(strip) & ((1u << strip.count) - 1);
  if (TD_LIKELY(added == 0)) return;
  if (s.cells_in == CellsIn::table) {
    descend(s.order->root(), strip);
    find_in_nodes(strip);
  }
  strip.added = added;
  if (s.cells_in == CellsIn::table) {
    prefetch_leaves(*s.order, strip);
  } else {
    prefetch_leaves(*s.tree, strip);
  }
}

// --- all kinds

TD_NOINLINE inline void hash_long_keys(const State& s, Strip& strip) noexcept {
  for (std::uint32_t i = 0; i < strip.count; ++i) {
    const std::string_view key = strip.key_of(i);
    if (key.size() > short_key_bytes_max) strip.fingerprint[i] = long_fingerprint_of(key.data(), key.size(), s.seed);
  }
}
TD_INLINE void hash(const State& s, Strip& strip) noexcept {
  K::hash(strip, s.seed);
  if (TD_UNLIKELY(strip.has_long_key)) hash_long_keys(s, strip);
}

// Finds and fetches where the keys' cells are, or the first node on the way there.
TD_INLINE void locate(const State& s, Strip& strip) noexcept {
  if (TD_LIKELY(s.cells_in == CellsIn::table)) {
    if (TD_UNLIKELY(strip.located == all_located)) return;
    K::find_buckets(strip, s.view);
    if (TD_UNLIKELY(strip.located != 0)) {
      for_each_not_located(strip, [&strip](std::uint32_t i) TD_INLINE_LAMBDA { prefetch_read(strip.first[i]); });
      return;
    }
    for_each_query([&strip](std::uint32_t i) TD_INLINE_LAMBDA { prefetch_read(strip.first[i]); });
  } else if (s.cells_in == CellsIn::leaf) {
    descend(s.tree->root(), strip);
  } else if (s.cells_in == CellsIn::slab) {
    find_slabs(s, strip);
  } else if (TD_LIKELY(s.cells_in == CellsIn::set)) {
    find_sets(s, strip);
  }
}

// Prefetches the items' lines beyond the first.
TD_INLINE void prefetch_more(const State& s, const Strip& strip) noexcept {
  for (std::uint32_t i = 0; i < strip_queries; ++i) {
    const char* const item = strip.item[i]->bytes();
    for (std::uint32_t more = 1; more <= s.more_lines; ++more) prefetch_read(item + more * cache_line_bytes);
  }
}

// Finds the candidate in the first bucket. Returns what is looked at next: the item, or the second bucket.
TD_INLINE const char* search_first_bucket(const char* items, Strip& strip, std::uint32_t i) noexcept {
  const std::uint32_t signature = strip.fingerprint[i].signature;
  const Cell c = K::cell_of(strip.first[i], signature);
  const Item* item = item_at(items, c);
  const char* next = item->bytes();
  replace_unless_equal(c.signature(), signature, item, &std::as_const(no_item.header), next,
                       reinterpret_cast<const char*>(strip.second[i]));
  strip.item[i] = item;
  return next;
}

// Skips: no item is prefetched of overwritten sets, which would take its line from its writer.
template <bool Skips>
TD_INLINE void search_first_buckets(const State& s, Strip& strip) noexcept {
  const char* const items = s.items;
  const auto search = [&strip, items](std::uint32_t i) TD_INLINE_LAMBDA {
    const char* const next = search_first_bucket(items, strip, i);
    if (!Skips || (strip.overwritten >> i & 1) == 0) prefetch_read(next);
  };
  if (TD_UNLIKELY(strip.located != 0)) return for_each_not_located(strip, search);
  for_each_query(search);
}

// A kind that the lane cannot search: nothing is a candidate.
TD_INLINE void search_nothing(Strip& strip) noexcept {
  for_each_not_located(strip, [&strip](std::uint32_t i) TD_INLINE_LAMBDA { strip.item[i] = &no_item.header; });
  strip.left = 0;
}

TD_NOINLINE inline void search_first_of_others(const State& s, Strip& strip) noexcept {
  if (s.cells_in == CellsIn::set) return search_tags(strip);
  if (TD_UNLIKELY(s.cells_in == CellsIn::other)) return search_nothing(strip);
  search_lines(s, strip);
  strip.left = K::without_item(strip);
  if (TD_UNLIKELY(s.more_lines != 0)) prefetch_more(s, strip);
}

template <bool Defers>
TD_INLINE void search_first(const State& s, Strip& strip) noexcept {
  if (TD_UNLIKELY(s.cells_in >= CellsIn::set)) return search_first_of_others(s, strip);
  search_first_buckets<Defers>(s, strip);
  strip.left = K::without_item(strip);
  if (TD_UNLIKELY(s.more_lines != 0)) prefetch_more(s, strip);
}

// The candidate in the second bucket.
TD_INLINE const Item* search_bucket(const State& s, const Strip& strip, std::uint32_t i) noexcept {
  const std::uint32_t signature = strip.fingerprint[i].signature;
  const Cell c = K::cell_of(strip.second[i], signature);
  return c.signature() == signature ? item_at(s.items, c) : &no_item.header;
}

TD_INLINE void prefetch_item(const State& s, const Item* item) noexcept {
  for (std::uint32_t more = 0; more <= s.more_lines; ++more) prefetch_read(item->bytes() + more * cache_line_bytes);
}

TD_NOINLINE inline void search_second_of_others(const State& s, Strip& strip) noexcept {
  if (s.cells_in == CellsIn::slab) return search_lines_beside(s, strip);
  for_each_of(strip.left & ((1u << strip.count) - 1), [&](std::uint32_t i) TD_INLINE_LAMBDA {
    strip.item[i] = search_entries(s, strip, i);
    prefetch_item(s, strip.item[i]);
  });
  strip.left = 0;
}

TD_INLINE void search_second(const State& s, Strip& strip) noexcept {
  for (std::uint32_t left = strip.left & ((1u << strip.count) - 1); left != 0; left &= left - 1) {
    if (TD_UNLIKELY(s.cells_in >= CellsIn::set)) return search_second_of_others(s, strip);
    const auto i = static_cast<std::uint32_t>(std::countr_zero(left));
    const Item* const item = search_bucket(s, strip, i);
    strip.item[i] = item;
    prefetch_item(s, item);
  }
  strip.left = 0;
}

TD_NOINLINE inline void search_others_alone(const State& s, Strip& strip, std::uint32_t todo) noexcept {
  if (s.cells_in == CellsIn::set) {
    for_each_of(todo, [&](std::uint32_t i) TD_INLINE_LAMBDA { find_set(s, strip, i); });
    strip.left = todo;
    return search_second_of_others(s, strip);
  }
  if (TD_UNLIKELY(s.cells_in == CellsIn::other)) return search_nothing(strip);
  for_each_of(todo, [&](std::uint32_t i) TD_INLINE_LAMBDA { find_slab(s, strip, i); });
  for_each_of(todo, [&](std::uint32_t i) TD_INLINE_LAMBDA { search_preferred_line(s.items, strip, i); });
  strip.left = todo & K::without_item(strip);
  search_lines_beside(s, strip);
  search_chains(s, strip);
}

// All stages of a strip behind which no other comes, so that nothing is worth waiting for. Leaves columns behind its
// count alone: their buckets are other queries'.
TD_NOINLINE inline void search_alone(const State& s, Strip& strip) noexcept {
  const std::uint32_t todo = ((1u << strip.count) - 1) & ~strip.located;
  if (TD_UNLIKELY(todo == 0)) return;
  K::hash_first(strip, strip.count, s.seed);
  if (TD_UNLIKELY(strip.has_long_key)) hash_long_keys(s, strip);
  if (TD_UNLIKELY(s.cells_in >= CellsIn::set)) return search_others_alone(s, strip, todo);
  if (TD_LIKELY(s.cells_in == CellsIn::table)) {
    for_each_of(todo, [&](std::uint32_t i) TD_INLINE_LAMBDA {
      const Fingerprint f = strip.fingerprint[i];
      strip.first[i] = s.view.buckets + s.view.first(f);
      strip.second[i] = s.view.buckets + s.view.second(f);
      prefetch_read(strip.first[i]);
    });
  } else {
    descend(s.tree->root(), strip);
    find_children(strip);
    find_leaves(s, strip);
  }
  for_each_of(todo, [&](std::uint32_t i) TD_INLINE_LAMBDA { prefetch_read(search_first_bucket(s.items, strip, i)); });
  strip.left = todo & K::without_item(strip);
  search_second(s, strip);
  if (TD_LIKELY(strip.sets == 0)) return;
  if (TD_UNLIKELY(has_leaves(s))) prefetch_leaves_of_new(s, strip);
  if (TD_UNLIKELY(does_more(s))) prefetch_for_sets(s, strip, false);
}

// The same of a strip's only query. Its stripe is locked at once, and not worth fetching.
TD_INLINE void search_one(const State& s, Strip& strip) noexcept {
  if (TD_UNLIKELY(s.cells_in != CellsIn::table || strip.located != 0)) return search_alone(s, strip);
  K::hash_first(strip, 1, s.seed);
  if (TD_UNLIKELY(strip.has_long_key)) hash_long_keys(s, strip);
  const Fingerprint f = strip.fingerprint[0];
  const auto find_second = [&]() TD_INLINE_LAMBDA { strip.second[0] = s.view.buckets + s.view.second(f); };
  strip.first[0] = s.view.buckets + s.view.first(f);
  const Cell c = K::cell_of(strip.first[0], f.signature);
  if (TD_LIKELY(c.signature() == f.signature)) {
    strip.item[0] = item_at(s.items, c);
    if (strip.sets == 0) return;
    find_second();
  } else {
    find_second();
    strip.item[0] = search_bucket(s, strip, 0);
    if (strip.sets == 0) return;
  }
  if (TD_UNLIKELY(has_leaves(s))) prefetch_leaves_of_new(s, strip);
}
