// The index: fingerprints to locations, a bucketed cuckoo hash table with its write protocol (Mega-KV 4; docs/threads.md has every memory order).
// This header is the contract the tasks are written against.
//
// Readers: any thread inside an epoch; lock nothing and write nothing. Writers: any thread inside an epoch, one key's stripe at a time.
#pragma once
#include <cstdint>
#include <string_view>

#include "base/epoch.hpp"
#include "base/fingerprint.hpp"
#include "base/memory_budget.hpp"
#include "heap/heap.hpp"

namespace tandem {

struct IndexOptions {
  std::uint64_t cells_initial = 1 << 16;  // rounded up to a power of two of buckets
  std::uint64_t hash_seed = 0;
  double load_grow = 0.90;  // growth starts above this load
  bool huge_pages = true;
};

class Index {
 public:
  Index(const IndexOptions& options, MemoryBudget& budget, EpochDomain& epochs, Heap& heap);  // throws std::bad_alloc past the budget
  ~Index();

  // --- reading, a strip at a time -----------------------------------------------------------------------------------------------------------
  void prefetch(const Fingerprint* f, std::uint32_t count) const noexcept;
  // location[i]: the first cell with f[i]'s signature in its two buckets, or no_location. Only a candidate: the caller compares the key, and on a
  // mismatch or a miss asks find(). Runs on the widest lanes of this processor, chosen once.
  void search(const Fingerprint* f, std::uint32_t count, Location* location) const noexcept;
  // The live item of the key, or nullptr: every candidate is compared, and a miss is confirmed by re-reading both buckets under the stripe's
  // version. `state` receives the state word that said live. Waits only while a writer holds the key's stripe.
  Item* find(Fingerprint f, std::string_view key, std::uint64_t& state) const noexcept;

  // --- writing --------------------------------------------------------------------------------------------------------------------------------
  enum class Put : std::uint8_t { done, needs_room };

  // Holds the stripe of a key: while it lives no other thread changes, adds or removes this key, and readers that miss the key wait.
  // Keep it short: no allocation, no eviction, no second Guard. The destructor stamps changed_at and bumps the version if anything changed,
  // then unlocks; only after that may the caller retire what was displaced.
  class Guard {
   public:
    Guard(Guard&&) = delete;
    ~Guard();
    // The key's live item (expired and flushed ones too: that is the caller's judgement), or nullptr. Remembers its cell for put() and erase().
    Item* find(std::string_view key) noexcept;
    // The same by location, for eviction: nullptr when the key's item at `l` is gone or not live.
    Item* find(Location l) noexcept;
    // Publishes the item at `now`, whose other bytes are complete, with `live_state` as its state word. If find() returned an item it is replaced
    // (old -> dead, new -> live, then the cell: write protocol 3), else the item is added in a free cell. needs_room: there is none and nothing
    // changed; drop the Guard, call make_room() and start over.
    [[nodiscard]] Put put(Location now, std::uint64_t live_state) noexcept;
    // Removes what find() returned (live -> dead, then the cell). REQUIRES: find() returned an item.
    void erase() noexcept;
    // Changes the live state word in place (expiry, stale, win, access). REQUIRES: find() returned an item. The bits outside `mask` are kept; readers set
    // accessed, fetched and access_s at the same time, so this is a compare-and-swap loop.
    void update_state(std::uint64_t mask, std::uint64_t bits) noexcept;
  };
  [[nodiscard]] Guard lock(Fingerprint f) noexcept;
  void prefetch_stripe(Fingerprint f) const noexcept;

  // Displaces cells along a bounded path, one at a time under each victim's own stripe, copy then clear, until one of f's buckets has a free cell
  // (somebody else may take it: start over). False: no path within the bound; then evict one of candidates().
  // REQUIRES: the caller holds no Guard.
  bool make_room(Fingerprint f) noexcept;
  // The locations in f's two buckets (at most 16), for an eviction that makes room.
  std::uint32_t candidates(Fingerprint f, Location out[16]) const noexcept;

  // --- growth -----------------------------------------------------------------------------------------------------------------------------------
  // True when the load passed load_grow or make_room() failed since the last growth.
  bool wants_growth() const noexcept;
  // Doubles the table from the calling thread while readers and writers go on (writers apply to both tables meanwhile); returns false when the
  // budget has no room (the caller frees pages first and tries again). One caller at a time. REQUIRES: the caller is in no epoch.
  bool grow(EpochDomain::Participant& self);

  std::uint64_t hash_seed() const noexcept;
  std::uint64_t cell_count() const noexcept;  // of the current table
  std::uint64_t item_count() const noexcept;  // exact when no writer is active
  std::uint64_t table_bytes() const noexcept; // of all tables now allocated
};

}  // namespace tandem
