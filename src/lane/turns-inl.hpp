// When a strip takes which stage. Part of lane-inl.hpp, inside its namespace.

// Turns from a strip's parsing to its other stages; it is hashed one turn later.
struct Schedule {
  std::uint32_t children, leaves, first, second, answer;

  constexpr Schedule after(std::uint32_t turns) const noexcept {
    return {children + turns, leaves + turns, first + turns, second + turns, answer + turns};
  }
};
// A hit in a table is mostly found by the first search, so its item has two turns to arrive.
inline constexpr Schedule of_table{0, 0, 2, 3, 4}, of_leaves{2, 3, 4, 5, 6};
// A set's entries are all found by the second search.
inline constexpr Schedule of_sets{0, 0, 3, 5, 7};
// The search of further slabs is a turn behind the second one, in the place of that of leaves.
inline constexpr Schedule of_slabs{0, 4, 2, 3, 5};
TD_INLINE const Schedule& schedule_of(const State& s) noexcept {
  if (TD_LIKELY(s.cells_in == CellsIn::table)) return of_table;
  return s.cells_in == CellsIn::leaf ? of_leaves : s.cells_in == CellsIn::slab ? of_slabs : of_sets;
}

// The output or the epoch is full: ends the run before the first unanswered query, `first` of strip `k` or a later one.
// Segments with unanswered queries begin there when they are offered again; State::parsing is the first of them. False:
// all parsed queries are answered.
TD_NOINLINE inline bool leave_before(State& s, std::uint32_t k, std::uint32_t first) noexcept {
  std::uint32_t left = State::none;
  for (const std::uint32_t end = k + s.hashed_ahead + 2; k != end; ++k, first = 0) {
    const Strip& strip = s.ring_begin[k & s.ring_mask];
    for (std::uint32_t i = first; i < strip.count; ++i) {
      const std::uint32_t number = strip.segment(i);
      LaneSegment& segment = s.segments[number];
      if (segment.stopped || number == left) continue;
      segment.rest = rewind(s, strip, i);
      if (left == State::none) {
        s.parsing = number;
        if (TD_UNLIKELY(s.runs != nullptr)) s.runs->leave(segment.end);
      }
      left = number;
    }
    if (strip.count != strip_queries) break;
  }
  return left != State::none;
}

// The stages before the answer of the strips in progress, when strip k has been taken. strip(number): by its number.
template <Mode M, class Numbered>
TD_INLINE void search_in_turn(State& s, const Schedule& turns, std::uint32_t delay, std::uint32_t k,
                              Numbered strip) noexcept {
  Strip& hashed = strip(k - 1);
  if (TD_LIKELY(hashed.count != 0) && (M.defers || TD_LIKELY(hashed.located != all_located))) {
    hash(s, hashed);
    if constexpr (M.defers) link_sets(s, hashed, k - 1);
    if (delay == 0) locate(s, hashed);
  }
  if (delay != 0) {
    if (Strip& delayed = strip(k - 1 - delay); delayed.count != 0) locate(s, delayed);
  }
  if (TD_UNLIKELY(has_own_stages(s.cells_in))) {
    Strip& found = strip(k - turns.leaves);
    if (s.cells_in == CellsIn::slab) {
      search_chains(s, found);
    } else {
      find_children(strip(k - turns.children));
      if (TD_LIKELY(found.count != 0)) find_leaves(s, found);
    }
  }
  Strip& searched = strip(k - turns.first);
  searched.left = 0;
  if (TD_LIKELY(searched.count != 0) && TD_LIKELY(searched.located != all_located)) search_first<M.defers>(s, searched);
  search_second(s, strip(k - turns.second));
  if (Strip& next = strip(k - turns.answer + 1); TD_UNLIKELY(has_leaves(s)) && next.sets != 0)
    prefetch_leaves_of_new(s, next);
  if (searched.sets != 0 && TD_UNLIKELY(does_more(s))) prefetch_for_sets(s, searched, M.defers);
}

// Between runs, the strips of a ring are empty: a run empties those that it has answered, and where it ends early, this
// does the rest.
struct RingInUse {
  Strip* ring;
  std::uint32_t mask;
  TD_INLINE ~RingInUse() {
    if (TD_LIKELY(ring == nullptr)) return;
    for (std::uint32_t i = 0; i <= mask; ++i) ring[i].count = 0;
  }
};

// Takes strips through the stages. take(strip) fills an empty strip; one that is not full is the last. answer(strip, k)
// answers strip k; false ends the run. Several: the first strip is not the last one.
template <Mode M, bool Several, class Take, class Answer>
TD_INLINE void run_strips(State& s, Take take, Answer answer) {
  Strip* const ring = M.defers ? s.ring_begin : s.ring.data();
  const std::uint32_t mask = M.defers ? s.ring_mask : State::ring_strips - 1, delay = M.defers ? s.delay : 0;
  if constexpr (M.defers) {
    for (std::uint32_t i = 0; i <= mask; ++i) ring[i].overwrites = ring[i].overwritten = 0;
  }
  RingInUse in_use{ring, mask};
  s.context.retired_bytes = 0;
  static_assert(State::ring_strips > of_table.answer && State::ring_strips > of_leaves.answer &&
                State::ring_strips > of_sets.answer && State::ring_strips > of_slabs.answer);
  const Schedule turns = schedule_of(s).after(delay);
  s.hashed_ahead = turns.answer - 1;
  TD_DEBUG_ASSERT(turns.answer <= mask);
  std::uint32_t last = ~std::uint32_t{0};
  for (std::uint32_t k = 0; k <= last + turns.answer || last == ~std::uint32_t{0}; ++k) {
    // opaque() keeps the compiler from computing a strip's address again for each column.
    const auto strip = [ring, wrap = mask](std::uint32_t number) -> Strip& { return *opaque(&ring[number & wrap]); };
    Strip& taken = strip(k);
    taken.count = taken.added = 0;
    taken.located = taken.rows = 0;
    if constexpr (M.defers) taken.overwrites = taken.overwritten = 0;
    bool is_alone = false;
    if (TD_LIKELY(last == ~std::uint32_t{0})) {
      take(taken);
      if (taken.count != strip_queries) {
        last = k;
        is_alone = !Several && !M.defers && k == 0;  // a run that defers looks for sets of one key, however short it is
      }
    }
    if (TD_UNLIKELY(is_alone)) {
      search_alone(s, taken);
      s.hashed_ahead = 0;
      k = turns.answer;
    } else {
      search_in_turn<M>(s, turns, delay, k, strip);
    }
    if constexpr (M.timed) s.laps->lap(Task::search);
    Strip& answered = strip(k - turns.answer);
    if (TD_LIKELY(answered.count != 0) && TD_UNLIKELY(!answer(answered, k - turns.answer))) return;
    answered.count = 0;
    if (M.defers && answered.overwrites != 0) execute_deferred_before(s, answered);
  }
  in_use.ring = nullptr;
}
