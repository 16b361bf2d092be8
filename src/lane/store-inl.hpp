// Insert of the lane. A part of lane-inl.hpp, inside its namespace.

// Whether the item was not flushed. A set in place of a resting replica's item marks it here: no return takes marks
// while the epoch lasts (dirty_map.hpp), so that it may come before the change.
TD_INLINE bool may_rewrite(const State& s, const Item* item, const ItemVersion& seen) noexcept {
  if (is_flushed(seen, s.flush_cas)) return false;
  if ((s.care & care::dirties) != 0) s.context.shared.dirty->mark(item);
  return true;
}

// The usual set in place: the key is short, the old item does not expire and its layout is the new one's.
TD_INLINE bool store_usually(State& s, const Strip& strip, std::uint32_t i, bool shows_id,
                             ItemVersion& stored) noexcept {
  const std::uint32_t layout = strip.layout[i];
  if (TD_UNLIKELY(layout == no_layout)) return false;
  const SetPart& part = strip.set[i];
  const std::uint64_t key_bytes = word::KeyBytes::get(layout);
  const task::PlainSet set{
      {strip.key[i], key_bytes}, {part.value, word::ValueBytes::get(layout)}, 0, part.expiry_s, false, shows_id};
  auto* const item = const_cast<Item*>(strip.item[i]);
  ItemVersion seen;
  if (TD_UNLIKELY(!ItemKernel::is_rewritable(item, strip.key16[i], key_bytes, layout, seen.state, seen.fixed) ||
                  (s.care != 0 && !may_rewrite(s, item, seen))))
    return false;
  return task::rewrite_item(s.context, item, seen, set, {s.now_s, s.flush_cas}, stored, task::tell_nobody) ==
         task::Rewritten::done;
}

// The cell of a table that names the candidate; nullptr: there is no candidate, or no cell names it any longer.
TD_INLINE const std::uint64_t* cell_of_candidate(const State& s, const Strip& strip, std::uint32_t i) noexcept {
  if (TD_UNLIKELY(s.cells_in != CellsIn::table)) return nullptr;
  const Cell cell = Cell::of(strip.fingerprint[i].signature, strip.candidate(i, s.context.shared.heap));
  if (const std::uint32_t same = K::same_cells(strip.first[i], cell); TD_LIKELY(same != 0))
    return &strip.first[i]->cell[std::countr_zero(same)];
  const std::uint32_t same = K::same_cells(strip.second[i], cell);
  return same != 0 ? &strip.second[i]->cell[std::countr_zero(same)] : nullptr;
}

// Executes the set and writes its reply at `p`. nullptr: the lane does not take it, and nothing has changed.
TD_INLINE char* store_and_reply(State& s, LaneSegment& segment, const Strip& strip, std::uint32_t i, char* p) noexcept {
  ItemVersion stored;
  const bool shows_id = (strip.kind(i) & kind::command_mask) == kind::binary_store;
  if (TD_UNLIKELY(!store_usually(s, strip, i, shows_id, stored))) {
    ItemVersion slowly;  // a variable of its own keeps `stored` in registers
    if (TD_UNLIKELY(!store_slowly(s, strip, i, shows_id, cell_of_candidate(s, strip, i), slowly))) return nullptr;
    stored = {opaque(slowly.state), opaque(slowly.fixed)};
  }
  const std::uint8_t kind = strip.kind(i);
  ++segment.commands[kind & kind::command_mask];
  return put_stored(s, strip, i, kind, stored, p);
}

// The same of a set that overwrites a deferred one, or is overwritten.
TD_NOINLINE inline char* store_linked(State& s, LaneSegment& segment, const Strip& strip, std::uint32_t i,
                                      char* p) noexcept {
  std::optional<Deferred> deferred;
  if ((strip.overwrites >> i & 1) != 0) deferred = take_deferred(s, strip, i);
  if ((strip.overwritten >> i & 1) != 0 && defer(s, strip, i)) {
    const std::uint8_t kind = strip.kind(i);
    ++segment.commands[kind & kind::command_mask];
    if (deferred) s.context.counters.set_overwritten.add();
    return put_stored(s, strip, i, kind, {}, p);
  }
  char* const end = store_and_reply(s, segment, strip, i, p);
  if (!deferred) return end;
  if (TD_UNLIKELY(end == nullptr)) {
    execute_deferred(s, *deferred);
  } else {
    s.context.counters.set_overwritten.add();
  }
  return end;
}

// The same of any set. Defers: as Mode::defers.
template <bool Defers>
TD_INLINE char* store(State& s, LaneSegment& segment, const Strip& strip, std::uint32_t i, char* p) noexcept {
  if (Defers && TD_UNLIKELY(((strip.overwrites | strip.overwritten) >> i & 1) != 0))
    return store_linked(s, segment, strip, i, p);
  return store_and_reply(s, segment, strip, i, p);
}
