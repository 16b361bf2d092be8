// An index of any kind: what the parts of the store ask that need not know which kind they have. The tasks and the
// executor are compiled for each kind (index_kind.hpp), and get from here to it once a batch.
//
// Thread safety: any thread, but for what a call says.
#pragma once
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/epoch.hpp"
#include "base/fingerprint.hpp"
#include "heap/item.hpp"
#include "heap/item_rewrite.hpp"

namespace tandem {

class ChangeLog;

struct IndexOptions {
  std::uint64_t cells_initial = 1 << 16;  // rounded up as the kind needs it
  std::uint64_t hash_seed = 0;
  double load_grow = 0.90;  // growth starts above this load
  bool huge_pages = true;
  std::string_view lanes = {};   // CuckooOps::name, for tests; empty: $TANDEM_LANES, or the widest of this processor
  ChangeLog* log = nullptr;      // outlives the index; nullptr: no replica follows
  std::uint32_t shard_bits = 0;  // of so many devices' replicas, as a power of two; at most shard_bits_max
  // What callers make fingerprints with; growth makes them again from the items' keys. Tests put a poorer one here.
  Fingerprint (*fingerprint)(std::string_view key, std::uint64_t seed) = nullptr;  // nullptr: fingerprint_of
};

// What a guard's put() came to.
//   needs_room  nothing has changed: the caller drops the guard, calls make_room() and starts over
//   changed     likewise: the item that was to be replaced has been rewritten in place since find(), which took no
//               stripe. A caller that decided by the item's version has to look again
enum class IndexPut : std::uint8_t { done, needs_room, changed };

// A key that is held as a Guard holds it, until the object's end.
class KeyHold {
 public:
  KeyHold() = default;
  KeyHold(const KeyHold&) = delete;
  KeyHold& operator=(const KeyHold&) = delete;
  virtual ~KeyHold() = default;
};

class Index {
 public:
  // Locations that compete for the room of a new key, at most.
  static constexpr std::uint32_t candidates_max = 16;

  Index() = default;
  Index(const Index&) = delete;
  Index& operator=(const Index&) = delete;
  virtual ~Index() = default;

  // The key's live item and the words that said so, or nullptr: a miss is final. Waits only while a writer holds the
  // key or rewrites its item. candidate: what a device found, where the table is a device's; else no_location.
  // REQUIRES: the caller is in an epoch.
  virtual Item* find(Fingerprint f, std::string_view key, ItemVersion& seen, Location candidate) const noexcept = 0;
  // Holds the key. REQUIRES: the caller is in an epoch until the hold's end. Throws std::bad_alloc.
  virtual std::unique_ptr<KeyHold> hold(Fingerprint f) = 0;

  // Room for a new key of this fingerprint. False: evict one of candidates(), or leave the epoch, let the growth go on,
  // and try again. REQUIRES: the caller is in an epoch and holds no Guard.
  virtual bool make_room(Fingerprint f) noexcept = 0;
  virtual std::uint32_t candidates(Fingerprint f, Location out[candidates_max]) const noexcept = 0;

  // From outside an epoch, too, as are the four after growing().
  virtual bool wants_growth() const noexcept = 0;
  // Grows from the calling thread while readers and writers go on. False: the budget has no room (the caller frees
  // pages first and tries again), or the growth stays open and the next call finishes it. One caller at a time.
  // REQUIRES: the caller is in no epoch.
  virtual bool grow(EpochDomain::Participant& self) = 0;
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
