// The set-associative table's words and its shape in memory, independent of the processor: included by host and device
// compilations alike.
//
// Source: MemcachedGPU 4.2.1 (fixed number of sets of 16 entries, an 8-bit hash of the key beside each entry, LRU
// within a set by time stamps of accesses) and 4.2.2 (a lock for each set). Departures: the tags of a set are one line
// of 16 bytes, so that one instruction compares them all; an entry has the key's 32-bit signature in place of the key,
// which stays in the item (docs/decisions/0034-set-associative.md).
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/fingerprint.hpp"
#include "index/cuckoo/cell.hpp"

namespace tandem {

inline constexpr unsigned set_ways_max = 16;

// A key's tag: eight bits of the half of its hash that does not choose the set. 0 marks a free way.
TD_WORD constexpr std::uint32_t tag_of(std::uint32_t signature) {
  const std::uint32_t tag = signature >> 24;
  return tag != 0 ? tag : 1;
}
static_assert(tag_of(0x12345678) == 0x12 && tag_of(0x00345678) == 1);

// |63        version       16|15   readers   1|0 locked|
// version: counts changes, modulo 2^48. readers: holders of the shared lock, where readers take it (SetReading).
struct SetWord {
  std::uint64_t bits;

  static constexpr unsigned readers_shift = 1, version_shift = 16;
  static constexpr std::uint64_t locked_bit = 1;
  static constexpr std::uint64_t one_reader = std::uint64_t{1} << readers_shift;
  static constexpr std::uint64_t readers_mask = 0xfffe;
  static constexpr std::uint64_t one_version = std::uint64_t{1} << version_shift;

  TD_WORD constexpr bool locked() const { return (bits & locked_bit) != 0; }
  TD_WORD constexpr bool free() const { return (bits & (locked_bit | readers_mask)) == 0; }
  TD_WORD constexpr std::uint64_t version() const { return bits >> version_shift; }
};
static_assert((SetWord::locked_bit | SetWord::readers_mask) == SetWord::one_version - 1 &&
              (SetWord::locked_bit & SetWord::readers_mask) == 0);

// A key's item. Plain words: the host reaches them through std::atomic_ref, a device through cuda::atomic_ref.
struct SetEntry {
  std::uint64_t cell;     // Cell: location and signature, changed by one store; 0: free
  std::uint32_t stamp;    // when it was last accessed (SetStamps)
  std::uint32_t lengths;  // SetLengths
};
static_assert(sizeof(SetEntry) == 16);

// |31   value_bytes, limit: that or more   8|7   key_bytes   0|
struct SetLengths {
  std::uint32_t bits;

  static constexpr std::uint32_t value_limit = (1u << 24) - 1;
  TD_WORD static constexpr SetLengths of(std::uint64_t key_bytes, std::uint64_t value_bytes) {
    const auto value = static_cast<std::uint32_t>(value_bytes < value_limit ? value_bytes : value_limit);
    return {value << 8 | static_cast<std::uint32_t>(key_bytes)};
  }
  TD_WORD constexpr std::uint32_t key_bytes() const { return bits & 0xff; }
  TD_WORD constexpr std::uint32_t value_bytes() const { return bits >> 8; }
};
static_assert(SetLengths::of(250, 1 << 30).key_bytes() == 250 &&
              SetLengths::of(250, 1 << 30).value_bytes() == SetLengths::value_limit);

// A set of `Ways` entries. The header is 32 bytes, aligned to as many: it lies in one cache line, as does each entry.
template <unsigned Ways>
struct alignas(32) EntrySet {
  static_assert(Ways >= 1 && Ways <= set_ways_max);
  static constexpr std::uint32_t all_ways = (1u << Ways) - 1;

  std::uint64_t tags[2];     // byte i of the 16: way i's tag; 0: free
  std::uint64_t word;        // SetWord
  std::uint32_t evicted;     // entries that made room for another key's, modulo 2^32
  std::uint32_t changed_at;  // number of the devices' launch during which the set was last changed (StripeWord)
  SetEntry entry[Ways];
};
static_assert(set_ways_max == set_cells, "a device has a set's cells as two buckets");
static_assert(sizeof(EntrySet<16>) == 288 && sizeof(EntrySet<1>) == 64 && alignof(EntrySet<16>) == 32);
static_assert(std::is_trivially_copyable_v<EntrySet<16>>);

// What searches and changes need to know of a table; its memory is owned by another type (TableMemory). Trivially
// copyable: the same bytes on host and device. Any number of sets, one contiguous array.
template <unsigned Ways>
struct SetView {
  EntrySet<Ways>* sets;
  std::uint32_t count;

  TD_WORD std::uint32_t index_of(Fingerprint f) const { return set_number(f, count); }
  TD_WORD EntrySet<Ways>* of(Fingerprint f) const { return sets + index_of(f); }
};
static_assert(std::is_trivially_copyable_v<SetView<16>>);

// How readers are kept from a set that changes.
//   validated  they write nothing, and a miss is confirmed by the set's version
//   locked     they share the set's lock with each other, as the paper's do (4.2.2)
enum class SetReading : std::uint8_t { validated, locked };

}  // namespace tandem
