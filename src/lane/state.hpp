// State of the lane's runs. A strip's columns are arrays of eight; the usual ring of strips stays in the L1 cache.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/hash.hpp"
#include "base/short_hash.hpp"
#include "codec/binary.hpp"
#include "codec/udp.hpp"
#include "frames/frame_runs.hpp"
#include "frames/located_keys.hpp"
#include "index/cuckoo/cuckoo_index.hpp"
#include "index/hash_tree/hash_tree_index.hpp"
#include "index/set_associative/set_index.hpp"
#include "index/slab_list/slab_index.hpp"
#include "lane/item_checks.hpp"
#include "lane/lane.hpp"
#include "lane/laps.hpp"
#include "lane/rows.hpp"
#include "task/key_compare.hpp"
#include "task/store_in_place.hpp"

namespace tandem {
struct Request;
}

namespace tandem::lane {

inline constexpr std::uint32_t strip_queries = strip_queries_max;
static_assert(strip_queries == 8, "a vector of 64-bit lanes");
inline constexpr std::uint32_t all_located = (1u << strip_queries) - 1;  // Strip::located

// A query's command, and its position in the line.
namespace kind {
inline constexpr auto get = static_cast<std::uint8_t>(LaneCommand::get),
                      gets = static_cast<std::uint8_t>(LaneCommand::gets),
                      meta_read = static_cast<std::uint8_t>(LaneCommand::meta_read),
                      meta_read_key = static_cast<std::uint8_t>(LaneCommand::meta_read_key),
                      binary_read = static_cast<std::uint8_t>(LaneCommand::binary_read),
                      set = static_cast<std::uint8_t>(LaneCommand::set),
                      meta_store = static_cast<std::uint8_t>(LaneCommand::meta_store),
                      binary_store = static_cast<std::uint8_t>(LaneCommand::binary_store);
inline constexpr std::uint8_t command_mask = 7;
static_assert(lane_command_count == command_mask + 1);
inline constexpr std::uint8_t last_of_line = 1 << 3;  // END follows
inline constexpr std::uint8_t continues = 1 << 4;     // not the first key of its line
inline constexpr std::uint8_t begins_many = 1 << 5;   // the first of several
inline constexpr std::uint8_t no_reply = 1 << 6;      // a set that is not answered
inline constexpr std::uint8_t any_key = no_reply;     // a get of a call: KeyCheck::caller
inline constexpr std::uint8_t not_plain = 1 << 7;     // one of the next two
inline constexpr std::uint8_t run = not_plain;        // in a query's place: requests that a device has answered
inline constexpr std::uint8_t row = run | no_reply;   // a command without a plain form: Rows has its query
}  // namespace kind

// A query in one word: |31 segment 16|15 kind 8|7 key_bytes 0|
namespace info {
inline constexpr unsigned kind_shift = 8, segment_shift = 16;
inline constexpr std::uint32_t key_bytes_mask = 0xff;
TD_INLINE constexpr std::uint32_t key_bytes(std::uint32_t word) noexcept { return word & key_bytes_mask; }
TD_INLINE constexpr std::uint8_t kind(std::uint32_t word) noexcept {
  return static_cast<std::uint8_t>(word >> kind_shift);
}
TD_INLINE constexpr std::uint32_t segment(std::uint32_t word) noexcept { return word >> segment_shift; }
}  // namespace info

// Bytes of a command before the first key of its line.
inline constexpr std::array<std::uint8_t, lane_command_count> bytes_before_key = {
    4, 5, 3, 3, codec::binary::header_bytes, 4, 3, codec::binary::header_bytes + codec::binary::store_extras_bytes};

// A set's fields other than the key.
struct SetPart {
  const char* value;
  std::uint32_t value_bytes, client_flags, expiry_s;
};

// The lower bits of the fixed word of an item that the usual set can rewrite (task::layout_of()). no_layout: no item
// qualifies, because the set has client flags or a long key or value.
inline constexpr std::uint32_t no_layout = word::CasLow::lo == 31 ? 0x7fffffff : 0;
static_assert(no_layout != 0 && word::KeyBytes::get(no_layout) > key_bytes_max);
TD_INLINE constexpr std::uint32_t layout_of(std::size_t key_bytes, const SetPart& set) noexcept {
  const auto layout = static_cast<std::uint32_t>(key_bytes) | set.value_bytes << word::ValueBytes::lo;
  return key_bytes <= short_key_bytes_max && set.value_bytes <= rewritten_value_bytes_max && set.client_flags == 0
             ? layout
             : no_layout;
}

// The candidate of a query without one: an item that is not live.
struct alignas(cache_line_bytes) NoItem {
  Item header{};
  char rest[cache_line_bytes - sizeof(Item)]{};
};
inline constinit NoItem no_item{};
// That of a run, which needs none: not no_item, so that it is not searched for.
inline constinit NoItem item_of_run{};
// That of a query which the lane stops before: its key is not hot, and no device has searched for it.
inline constinit NoItem cold_item{};
// Those of a located set, whose cell is not looked for.
inline constinit Bucket no_bucket{};

struct alignas(cache_line_bytes) Strip {
  char key16[strip_queries][short_key_bytes_max];  // the key's first bytes, zeros behind its end
  Fingerprint fingerprint[strip_queries];
  const Bucket* first[strip_queries];  // the bucket of its first choice: of the table, or of the key's leaf
  const Bucket* second[strip_queries];
  union {                                              // in their place
    const EntrySet<set_ways>* entries[strip_queries];  // the key's set
    const Slab* slab[strip_queries];                   // or the slab of its bucket's chain that is searched next
  };
  const InnerNode* node[strip_queries];  // above the key's leaf
  void* const* child[strip_queries];     // where that node names the leaf
  const Item* item[strip_queries];       // the candidate; no_item: none
  std::uint32_t info[strip_queries];
  const char* key[strip_queries];
  const char* line[strip_queries];  // where the line begins, if it has several keys; where a run or a row does
  union {
    SetPart set[strip_queries];   // of sets
    FrameRun run[strip_queries];  // of runs
  };
  union {
    std::uint32_t layout[strip_queries];
    std::uint32_t tile[strip_queries];  // of runs
  };
  std::uint32_t count = 0;        // columns from here on hold earlier queries
  std::uint32_t left = 0;         // bit i: query i is left to search_second()
  std::uint32_t sets = 0;         // bit i: query i is a set
  std::uint32_t located = 0;      // bit i: query i has a device's candidate, or is a run: it is not searched for
  std::uint32_t added = 0;        // bit i: query i is a set of a new key; child[i] names its leaf
  std::uint32_t overwrites = 0;   // bit i: query i is a set that overwrites a deferred one
  std::uint32_t overwritten = 0;  // bit i: query i is a set that query successor[i] of the ring overwrites
  std::uint8_t successor[strip_queries];  // in the ring's order of queries
  std::uint8_t deferred[strip_queries];   // of a set that overwrites one: its place in Deferring::sets
  std::uint8_t rows = 0;                  // bit i: query i is a row
  bool is_uniform = false;                // full, one segment, gets of one kind, one key a line, no long key
  bool has_long_key = false;
  std::uint8_t gets = 0;  // the kind of the gets of a uniform strip

  std::string_view key_of(std::uint32_t i) const noexcept { return {key[i], lane::info::key_bytes(info[i])}; }
  std::uint8_t kind(std::uint32_t i) const noexcept { return lane::info::kind(info[i]); }
  std::uint32_t segment(std::uint32_t i) const noexcept { return lane::info::segment(info[i]); }
  bool is_set(std::uint32_t i) const noexcept { return (sets >> i & 1) != 0; }
  bool is_row(std::uint32_t i) const noexcept { return (rows >> i & 1) != 0; }
  bool is_cold(std::uint32_t i) const noexcept { return item[i] == &cold_item.header; }
  bool is_run(std::uint32_t i) const noexcept { return (kind(i) & kind::row) == kind::run; }
  // Where the command begins.
  const char* line_of(std::uint32_t i) const noexcept {
    const std::uint8_t k = kind(i);
    return (k & (kind::continues | kind::begins_many | kind::not_plain)) != 0
               ? line[i]
               : key[i] - bytes_before_key[k & kind::command_mask];
  }
  Leaf* leaf_of_added(std::uint32_t i) const noexcept {
    return (added >> i & 1) != 0 ? static_cast<Leaf*>(*child[i]) : nullptr;
  }
  Location candidate(std::uint32_t i, const Heap& heap) const noexcept {
    return item[i] == &no_item.header ? no_location : heap.location_of(item[i]);
  }
  task::PlainSet set_of(std::uint32_t i, bool shows_id) const noexcept {
    return {key_of(i), {set[i].value, set[i].value_bytes}, set[i].client_flags, set[i].expiry_s, false, shows_id};
  }
};
static_assert(sizeof(Strip) == 1024, "a larger one costs every GET 1 %");

// Result of a look-up.
enum class Found : std::uint8_t {
  hit,
  miss,
  other,  // left to the general path
};
struct Hit {
  const Item* item;
  std::uint64_t state, fixed;
};

// How a run's strips are taken through the stages.
struct Mode {
  bool timed = false;   // with State::laps
  bool defers = false;  // sets that later ones overwrite: State::defers
};

// What fills strips: the text of requests, and what a device has told of it (Lane::set_answers()).
enum class Source : std::uint8_t {
  text,
  located,
  runs,
  found,  // by number: Lane::set_found()
  hot     // text, of which hot keys alone are answered, as devices have the index: Lane::set_hot()
};
// Whether a device was given the input.
constexpr bool has_input(Source s) noexcept { return s == Source::located || s == Source::runs; }
// Whether it has candidates for the queries of any command, of packets and datagrams, too.
constexpr bool has_any_query(Source s) noexcept { return s == Source::found || s == Source::hot; }

// The hot path is the table's: one comparison tells all other kinds from it, that a kind has stages of its own, or does
// not search buckets (`set` and what follows).
TD_INLINE constexpr bool has_own_stages(CellsIn c) noexcept { return (static_cast<unsigned>(c) & 1) != 0; }
static_assert(!has_own_stages(CellsIn::table) && has_own_stages(CellsIn::leaf) && !has_own_stages(CellsIn::set) &&
              has_own_stages(CellsIn::slab) && !has_own_stages(CellsIn::other));

// A set that was answered and not executed, since a later query of the ring is a set of the same key and layout.
struct Deferred {
  Strip* strip;  // of that query
  std::uint32_t query;
  Fingerprint f;
  const Item* candidate;
  task::PlainSet set;
};

// What runs that defer sets need.
struct Deferring {
  // A longer ring: of more strips the keys are known, and nothing else.
  static constexpr std::uint32_t ring_strips = 32, delay = 20;
  std::array<Strip, ring_strips> ring{};
  static constexpr std::uint32_t sets_max = 64;
  std::array<Deferred, sets_max> sets;
  // By the lowest bits of signatures: the last hashed query, in the ring's order.
  std::array<std::uint8_t, 1024> recent{};
};

// What needs more than the usual look at an item.
namespace care {
inline constexpr std::uint8_t flushed = 1;  // flush_cas is not 0
inline constexpr std::uint8_t dirties = 2;  // sets in place note that: Rewrites::marked
}  // namespace care

struct State {
  State(Context& c, const ProtocolOptions& o) noexcept
      : context(c),
        cells_in(c.shared.index.cells_in()),
        options(o),
        seed(c.shared.hash_seed),
        items(reinterpret_cast<const char*>(c.shared.heap.at(no_location))) {}

  static constexpr std::uint32_t ring_strips = 8;  // a power of two, larger than the number of strips in progress
  std::array<Strip, ring_strips> ring{};
  // The run's: this one, or that of a run that defers sets.
  Strip* ring_begin = ring.data();
  std::uint32_t ring_mask = ring_strips - 1;
  std::uint32_t delay = 0;  // turns more between hashing and the other stages

  Context& context;
  const CellsIn cells_in;
  const ProtocolOptions& options;
  const std::uint64_t seed;  // of the hash
  const char* const items;   // location 0

  // Input and constants of a run.
  std::span<LaneSegment> segments;
  Output* out = nullptr;
  std::size_t output_bytes_max = 0;
  // By cells_in.
  IndexView view{};
  const HashTree* tree = nullptr;
  const OrderTree* order = nullptr;  // beside a table; nullptr: it keeps none
  SetView<set_ways> sets_view{};
  SlabView slabs_view{};
  std::uint32_t stamp = 0;  // the time, for a set's entries that are found
  std::uint64_t flush_cas = 0;
  std::uint32_t now_s = 0;
  std::uint32_t marked = 0;  // is_marked()
  std::uint8_t care = 0;     // bits of lane::care
  TD_INLINE bool was_flushed() const noexcept { return (care & care::flushed) != 0; }
  std::uint64_t item_bytes_max = 0;
  std::uint32_t unusual_layout = 0;  // no_layout: no set is a usual one; else 0
  KeySample* keys = nullptr;
  Source source = Source::text;
  LocatedKeys* located = nullptr;     // of Source::located
  FrameRuns* runs = nullptr;          // of Source::runs
  const Batch* found = nullptr;       // of Source::found
  std::uint32_t found_segment = 0;    // of the last query that was given a number
  std::uint32_t found_next = 0;       // number of the next one, if it is of that segment
  const HotTable* hot = nullptr;      // of Source::hot
  std::uint64_t located_queries = 0;  // of this run of the lane
  std::uint64_t hot_queries = 0;      // likewise, by hot keys
  std::uint64_t device_keys = 0;      // answered by a device, likewise
  Laps* laps = nullptr;

  // Position of the parser.
  std::uint32_t parsing = 0;   // the segment
  const char* at = nullptr;    // in it
  const char* line = nullptr;  // the line with further keys from `at` on; nullptr: none; within_row: the parser has it
  std::uint8_t line_kind = 0;
  std::uint8_t usual_kind = 0;  // kind of the last get

  // Position of the answers.
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  std::uint32_t answering = none;  // the segment
  std::uint64_t hits = 0, sets = 0;
  // Deferred sets with successors that have not been executed. The run executes them at its end.
  std::uint32_t deferred_count = 0;
  std::unique_ptr<Deferring> deferring;                   // nullptr: no run has deferred sets
  std::uint32_t hashed_ahead = 0;                         // strips behind the one that is answered
  bool defers = false;                                    // in this run: may_defer()
  bool always_defers = false;                             // Lane::always_defer()
  std::uint64_t last_queries = 0;                         // of the last run
  std::uint64_t sets_before = 0, overwritten_before = 0;  // the counters when may_defer() last judged
  std::unique_ptr<Rows> rows;                             // nullptr: no run has had one
  std::unique_ptr<Batch> asked;                           // Lane::ask(); nullptr: devices were never asked
  Laps::Queries timed_rows{};                             // of this run, inserts and removes
  std::uint64_t turn_ticks = ~std::uint64_t{0};           // Lane::set_turn()
  LaneOwner* owner = nullptr;                             // Lane::set_owner()
  bool rows_only = false;                                 // Lane::set_rows_only()
  std::vector<LaneRow> rows_answered;
  // The run ends before this query of the strip that is answered: what was written before it is to be sent.
  std::uint32_t ends_at = strip_queries;
  // Cache lines of an item to prefetch beyond the first, predicted from recent hits.
  std::uint32_t more_lines = 0;
  std::uint64_t stored_at_check = 0;  // StoreCounters::total_items when it was asked whether the index should grow
  bool is_elsewhere = false;          // the table is on devices alone: all candidates are located
};
struct CallState;

// Calls f with the index as its kind. REQUIRES: it is not CellsIn::other.
template <class F>
decltype(auto) with_index(const State& s, F f) {
  const Shared& shared = s.context.shared;
  if (TD_LIKELY(s.cells_in == CellsIn::table)) return f(shared.index_as<CuckooIndex>());
  if (s.cells_in == CellsIn::leaf) return f(shared.index_as<HashTreeIndex>());
  if (s.cells_in == CellsIn::slab) return f(shared.index_as<SlabListIndex>());
  return f(shared.index_as<SetAssociativeIndex>());
}

// Entry points of one instruction set.
struct Ops {
  std::string_view name;
  bool (*supported)() noexcept;
  void (*run)(State&);
  void (*run_timed)(State&);  // with State::laps
  void (*collect)(State&, class Collected&) noexcept;
  void (*run_requests)(CallState&, std::span<const Request>) noexcept;
  void (*run_keys)(CallState&, std::span<const std::string_view>) noexcept;
};
extern const Ops scalar_ops;
#if defined(__x86_64__)
extern const Ops avx2_ops, avx512_ops, avx512_vaes_ops;
#elif defined(__aarch64__)
extern const Ops neon_ops;
#endif
// All instruction sets in this program, narrowest first.
std::span<const Ops* const> ops_built() noexcept;
// The widest supported set that the index's search uses, no wider than wanted_lanes(); with `instructions`, the one of
// this name. Throws std::invalid_argument if there is none.
const Ops& ops_for(const Index& index, std::string_view instructions);
// By name, for tests; nullptr: this processor or program does not have it.
const Ops* ops_named(std::string_view name) noexcept;

// --- independent of the instruction set, and rare

// Takes the deferred set that query i overwrites off the list. REQUIRES: Strip::overwrites says that there is one.
Deferred take_deferred(State& state, const Strip& strip, std::uint32_t i) noexcept;
// Executes a deferred set when its successor was not. Where no slot or no cell is at hand its item is evicted at once.
// REQUIRES: inside the run's epoch.
TD_NOINLINE void execute_deferred(State& state, const Deferred& deferred) noexcept;
// Whether the run that begins defers sets: in the last ones, workers have set the same keys at once.
bool may_defer(State& state) noexcept;
// Goes before the first of the run's segments.
void go_to_begin(State& s) noexcept;
// Gives the run its ring.
void set_ring(State& state) noexcept;
// The key's fingerprint: that of a located key is not among the strip's.
TD_INLINE Fingerprint fingerprint_at(const State& state, const Strip& strip, std::uint32_t i) noexcept {
  if (TD_LIKELY((strip.located >> i & 1) == 0)) return strip.fingerprint[i];
  return fingerprint_of(strip.key[i], info::key_bytes(strip.info[i]), state.seed);
}
// Handles a candidate that is not the usual hit: compares its key, then asks Index::find(). REQUIRES: inside the
// epoch.
TD_NOINLINE Found look_closely(State& state, const Strip& strip, std::uint32_t i, Hit& hit) noexcept;
// Executes a set that is not the usual one in place: in place under wider conditions, or beside the old item. False: no
// slot or no cell is at hand, and nothing has changed. hint: as for CuckooIndex::Guard::find(). stored: receives the
// new version if the reply shows its id. REQUIRES: inside the epoch.
TD_NOINLINE bool store_slowly(State& state, const Strip& strip, std::uint32_t i, bool shows_id,
                              const std::uint64_t* hint, ItemVersion& stored) noexcept;
// Counts a set by its size class.
TD_INLINE void count_set(State& state, const Strip& strip, std::uint32_t i) noexcept {
  Context& context = state.context;
  const SetPart& set = strip.set[i];
  const std::uint64_t bytes = Item::total_bytes(set.client_flags, info::key_bytes(strip.info[i]), set.value_bytes);
  context.classes[context.shared.heap.size_class(bytes)].cmd_set.add();
}
// The same of several. Bit i of `sets` is query i.
TD_NOINLINE void count_sets_apart(State& state, const Strip& strip, std::uint32_t sets) noexcept;
// Whether sets in place do more than that, as devices have copies of items.
TD_INLINE bool does_more(const State& s) noexcept {
  return s.context.shared.rewrites.load(std::memory_order_relaxed) != Rewrites::unseen;
}
// Fetches the stripes that the strip's sets will lock, as other threads have written to the lines, or the bytes that
// they will mark. skips: those that a later set overwrites lock none.
TD_NOINLINE void prefetch_for_sets(const State& state, const Strip& strip, bool skips) noexcept;
// Append the reply to a miss, and to a hit with a long value.
TD_NOINLINE void write_miss(State& state, const Strip& strip, std::uint32_t i);
TD_NOINLINE void write_long(State& state, const Strip& strip, std::uint32_t i, const Hit& hit);
// Predicts that the next gets are of the last one's kind. Bit i of `gets`: query i is no set. A run's kind is no
// query's.
TD_NOINLINE void expect_kind(State& state, const Strip& strip, std::uint32_t gets) noexcept;
// Offers one of the strip's queries to the router, and makes its key hot if that says so. REQUIRES: inside the epoch;
// Context::samples.
TD_NOINLINE void sample_hot(State& state, const Strip& strip) noexcept;
// Appends the strip's keys, and the first ones of the lines of runs, to State::keys.
TD_NOINLINE void sample_keys(State& state, const Strip& strip);
// Answers what a device has: query i of the strip is a run.
TD_NOINLINE void answer_run(State& state, const Strip& strip, std::uint32_t i);
TD_INLINE void leave_segment(State& state) noexcept {
  if (state.answering == State::none) return;
  state.segments[state.answering].output_end = state.out->size();
  state.answering = State::none;
}
// Begins a message of a datagram. REQUIRES: it is the segment being answered, or becomes it.
TD_INLINE void begin_message(State& state, LaneSegment& segment) {
  Output& out = *state.out;
  segment.forget_replies(out);
  std::memcpy(out.reserve(udp_frame_bytes), segment.frame, udp_frame_bytes);
  out.commit(udp_frame_bytes);
}
// Has the segment's parser begin with query i again. Returns where that is.
TD_NOINLINE const char* rewind(State& state, const Strip& strip, std::uint32_t i) noexcept;
// Ends the run before query i of the strip that was parsed last: no device has searched for it.
TD_NOINLINE void end_before(State& state, Strip& strip, std::uint32_t i) noexcept;

// --- rows

// State::line while the segment's parser is within a command.
inline constexpr char within_row[] = "";
TD_INLINE const char* line_at(const State& state, const LaneSegment& segment) noexcept {
  return TD_LIKELY(!segment.within_command && !state.rows_only) ? nullptr : within_row;
}
// The run's rows; false: there is no memory for them.
TD_NOINLINE bool has_rows(State& state) noexcept;
// Has the parser make queries of commands at State::at, or keys of one, and moves that behind them. place: of the first
// one in the ring, where there are so many places. Returns how many; 0: the lane's part of the segment ends at
// State::at.
TD_NOINLINE std::uint32_t take_rows(State& state, LaneSegment& segment, std::uint32_t place,
                                    std::uint32_t places) noexcept;
// Executes the query at `place` of the batch as the strip's query i, by the operations of the general path. True: it
// has its result, and task::release_slots() of `one` follows. False: it needs what can be had only outside an
// epoch, and nothing has changed.
TD_NOINLINE bool execute_row(State& state, const Strip& strip, std::uint32_t i, Batch& batch, std::uint32_t place,
                             QueryState& one, Laps* laps) noexcept;
// Executes a row and appends its reply. False: it needs what can be had only outside an epoch, and nothing has changed.
// laps: nullptr, or those of a timed run. Throws std::bad_alloc.
TD_NOINLINE bool answer_row(State& state, const Strip& strip, std::uint32_t i, Laps* laps);
// The same for a plain read that is not usual (Found::other), or has a value that is pinned.
TD_NOINLINE bool answer_as_row(State& state, const Strip& strip, std::uint32_t i, Laps* laps);
// Whether the row is all of its command.
TD_NOINLINE bool is_whole_command(const State& state, const Strip& strip, std::uint32_t i) noexcept;
// Executes what Lane::take() has taken, for the segment that is being answered. Throws std::bad_alloc.
TD_NOINLINE void execute_taken(State& state);
// The place of the strip's first query in the ring.
TD_INLINE std::uint32_t place_of(const State& state, const Strip& strip) noexcept {
  return static_cast<std::uint32_t>(&strip - state.ring_begin) * strip_queries;
}

// Reads "flags exptime bytes[ noreply]" in plain numbers at `p`. Returns where the line ends, or nullptr if the line is
// not plain or does not end within [p, end).
TD_NOINLINE const char* read_set_words(const State& state, const char* p, const char* end, SetPart& set,
                                       std::uint8_t& kind) noexcept;
// The same for " bytes[ Texptime]".
TD_NOINLINE const char* read_meta_store_words(const State& state, const char* p, const char* end,
                                              SetPart& set) noexcept;
// Whether the rest of a line from `key` on is `key key ...\r\n`, complete and plain.
TD_NOINLINE bool are_plain_keys(const char* key, const char* end, const char* begin) noexcept;

}  // namespace tandem::lane
