// An index of any kind, for the parts of the store that do not depend on the kind. The tasks are
// compiled for each kind (index_kind.hpp), and convert from this class once a batch.
//
// Thread safety: any thread, unless a call says otherwise.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/epoch.hpp"
#include "base/fingerprint.hpp"
#include "heap/item.hpp"
#include "heap/item_rewrite.hpp"
#include "index/scan.hpp"

namespace tandem {

class ChangeLog;

// Of a KeyTree. Tests use small ones.
struct TreeShape {
  std::uint32_t leaf_cells = 512;     // keys of a leaf: a power of two, from leaf_cells_min to leaf_cells_max
  std::uint32_t node_children = 256;  // at most, of an inner node; from InnerTree::children_min to children_max
};

struct IndexOptions {
  std::uint64_t cells_initial = 1 << 16;  // rounded up as the kind needs it
  std::uint64_t hash_seed = 0;
  double load_grow = 0.90;  // growth starts above this load
  bool huge_pages = true;
  std::string_view lanes = {};  // CuckooOps::name, for tests; empty: $TANDEM_LANES, or the widest of this processor
  ChangeLog* log = nullptr;     // outlives the index; nullptr: no replica follows
  bool ordered = false;         // also keeps the keys in order, in an OrderTree
  TreeShape tree = {};
  std::uint32_t shard_bits = 0;  // log2 of the number of devices with a replica each; at most shard_bits_max
  // Makes fingerprints, for callers and again for growth, from the items' keys. Tests use a weaker one.
  Fingerprint (*fingerprint)(std::string_view key, std::uint64_t seed) = nullptr;  // nullptr: fingerprint_of
};

// Result of a guard's put().
//   needs_room  nothing has changed: the caller releases the guard, calls make_room() and starts over
//   changed     likewise: a set in place, which takes no stripe, has rewritten the item to be replaced since find(). A
//               caller that decided by the item's version has to look again
enum class IndexPut : std::uint8_t { done, needs_room, changed };

// Holds a key as a Guard does, for the object's lifetime.
class KeyHold {
 public:
  KeyHold() = default;
  KeyHold(const KeyHold&) = delete;
  KeyHold& operator=(const KeyHold&) = delete;
  virtual ~KeyHold() = default;
};

// Where a key's cells are, by the index's kind, for readers with a search of their own for each.
enum class CellsIn : std::uint8_t {
  table,  // CuckooIndex: two buckets of one table
  leaf,   // HashTreeIndex: two buckets of a leaf, to which nodes lead
  set,    // SetAssociativeIndex: the entries of a set's ways, before which their tags are compared
  slab,   // SlabListIndex: the preferred line of a bucket's first slab, then the rest of its chain
  other   // anything else: such readers call find()
};

class Index {
 public:
  // Maximum number of locations that compete for the room of a new key.
  static constexpr std::uint32_t candidates_max = 16;

  Index() = default;
  Index(const Index&) = delete;
  Index& operator=(const Index&) = delete;
  virtual ~Index() = default;

  // Not `other` promises the kind's class.
  virtual CellsIn cells_in() const noexcept { return CellsIn::other; }

  // The key's live item and its words, or nullptr: a miss is final. Waits only while a writer holds the key or rewrites
  // its item. candidate: a device's result, where the table is on a device; else no_location. REQUIRES: the caller is
  // in an epoch.
  virtual Item* find(Fingerprint f, std::string_view key, ItemVersion& seen, Location candidate) const noexcept = 0;
  // Holds the key. REQUIRES: the caller is in an epoch until the hold's end. Throws std::bad_alloc.
  virtual std::unique_ptr<KeyHold> hold(Fingerprint f) = 0;

  // Gives the keys from `key` on leaves of their own, so that keys that ascend below it fill theirs, too. A hint.
  // REQUIRES: the index has no items, and nothing else uses it.
  virtual void cut_order(std::string_view key) noexcept { static_cast<void>(key); }

  // Leaves at hand for the keys' order.
  struct LeafSupply {
    enum class State : std::uint8_t {
      enough,
      few,     // fewer than should be
      coming,  // no memory for a split, until the epochs in flight have ended
      none,
    };
    State state = State::enough;
    std::uint32_t leaf_items = 0;  // of a leaf, on average
  };
  // Any thread, in an epoch or not; the caller holds no guard.
  virtual LeafSupply leaf_supply() noexcept { return {}; }
  // How many leaves splits have taken of what was too few since the last call: each has to be paid for with evictions.
  virtual std::uint32_t take_unpaid_leaves() noexcept { return 0; }
  // Merges leaves that have lately become nearly empty, as long as leaves are few. Returns how many leaves that gives,
  // once the epochs in flight have ended. Any thread, in an epoch or not; the caller holds no guard.
  virtual std::uint32_t merge_fallen() noexcept { return 0; }

  // Makes room for a new key. False: evict one of candidates(), or leave the epoch so that a growth can continue, and
  // try again. REQUIRES: the caller is in an epoch and holds no Guard.
  virtual bool make_room(Fingerprint f, std::string_view key) noexcept = 0;
  virtual std::uint32_t candidates(Fingerprint f, std::string_view key,
                                   Location out[candidates_max]) const noexcept = 0;

  // Whether scan() may be called.
  virtual bool is_ordered() const noexcept { return false; }
  // The live items of the range in order (expired and flushed ones too), added to the copies, at most `most` of
  // them. It may stop earlier: only `done` says that the range has no further key.
  //
  // By itself it is no snapshot: each item was live at some moment of the call; a key that is present during the whole
  // call, whichever its item, is returned, up to the last copy; one that is absent during the whole call is not; none
  // is returned twice. If copies.are_still() and then stamp.is_unchanged() hold, all that these copies say, and that
  // the range had no other items before the last of them, was true at the moment when this call returned.
  //
  // Waits only as find() does, for one writer at a time. REQUIRES: is_ordered(); the caller is in an epoch, uses the
  // copies' items and the stamp only until it ends, and holds no guard; the stamp is clear; copies has room for `most`.
  virtual ScanResult scan(const ScanRange& range, std::uint32_t most, ScanCopies& copies, ScanStamp& stamp) noexcept {
    static_cast<void>(range), static_cast<void>(most), static_cast<void>(copies), static_cast<void>(stamp);
    TD_ASSERT(false);
    return {.done = true};
  }
  // Hint: fetches what these scans, ScansAhead::scans_max at most, read first, for all of them at once, but for their
  // items. REQUIRES: is_ordered(); an epoch.
  virtual void prefetch_scans(std::span<const ScanStart> starts, ScansAhead& ahead) const noexcept {
    for (std::size_t i = 0; i < starts.size(); ++i) ahead.scans[i].count = 0;
  }

  // False: the table keeps its size, and what has no room in it evicts.
  virtual bool grows() const noexcept { return true; }
  // May be called outside an epoch, as may cell_count(), item_count(), table_bytes() and lanes().
  virtual bool wants_growth() const noexcept = 0;
  // Grows from the calling thread while readers and writers continue. False: the budget has no room (the caller frees
  // pages first and tries again), or the growth stays open and the next call finishes it. One caller at a time.
  // REQUIRES: the caller is in no epoch.
  virtual bool grow(EpochDomain::Participant& self) = 0;
  // What growth can do without memory. Otherwise as grow().
  virtual void tidy() {}
  // Memory that the next grow() adds.
  virtual std::uint64_t growth_bytes() const noexcept { return table_bytes(); }
  // The last grow() failed because the system had no memory: pages freed within the budget do not help. REQUIRES: the
  // caller is the one of grow().
  virtual bool is_memory_refused() const noexcept { return false; }
  // Whether a growth has begun and not ended. REQUIRES: the caller is in an epoch.
  virtual bool growing() const noexcept = 0;
  virtual std::uint64_t cell_count() const noexcept = 0;              // of the table that takes new keys
  virtual std::uint64_t item_count() const noexcept = 0;              // exact when no writer is active
  virtual std::uint64_t table_bytes() const noexcept = 0;             // now allocated
  virtual std::string_view lanes() const noexcept { return "none"; }  // instructions of its search
};

}  // namespace tandem
