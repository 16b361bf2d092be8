// The hook of an index with its table outside host memory (placement on_device): a Guard, find() and make_room() use it
// in the table's place. An implementation has the changes that its table does not have yet, one record each; the
// stripes and the rules of the guard stay the index's.
//
// Thread safety: all calls at any time, except as each call says. Virtual: a call here comes after a search on a
// device, which costs far more.
#pragma once
#include <cstdint>
#include <string_view>

#include "base/fingerprint.hpp"
#include "heap/item.hpp"

namespace tandem {

class Elsewhere {
 public:
  using RecordId = std::uint32_t;
  static constexpr RecordId no_record = UINT32_MAX;
  struct Found {
    RecordId record = no_record;  // of the key's live item, or of the location
    Location location = no_location;
    bool clash = false;  // another key's record has the signature
  };

  Elsewhere() = default;
  Elsewhere(const Elsewhere&) = delete;
  Elsewhere& operator=(const Elsewhere&) = delete;
  virtual ~Elsewhere() = default;

  virtual std::uint64_t cells() const noexcept = 0;
  // Whether its table has room for another key.
  virtual bool has_room_for_key() const noexcept = 0;
  // Whether this thread can make a change of `f` now.
  virtual bool takes_changes(Fingerprint f) noexcept = 0;
  virtual void prefetch(Fingerprint f) const noexcept = 0;

  // A record's live item of the key. REQUIRES: the caller is in an epoch, and makes sure that nothing changes meanwhile
  // (CuckooIndex::find).
  virtual Item* find(Fingerprint f, std::string_view key, ItemVersion& seen) const noexcept = 0;

  // REQUIRES of the rest: the caller holds the stripe of `f`.
  virtual Found find_locked(Fingerprint f, std::string_view key) const noexcept = 0;
  virtual RecordId find_locked(Fingerprint f, Location l) const noexcept = 0;
  // Replaces the key's item at `from` (no_location: there was none) by the one at `to`. old: the former's record, if
  // any. clash: the table must not get it. Returns the record. REQUIRES: takes_changes() said so; the item at `from` is
  // dead.
  virtual RecordId put(Fingerprint f, Location from, Location to, RecordId old, bool clash) noexcept = 0;
  virtual void erase(Fingerprint f, Location from, RecordId old) noexcept = 0;
};

}  // namespace tandem
