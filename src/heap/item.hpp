// An item: 16-byte header, optional client flags, key, value. The same bytes in host and in device memory.
//
// Memory orders: a writer fills an item while its state is `filling`, then stores `live` with release. A reader loads
// the word with acquire and may then read the rest. In a live item the state word's marks may change, and a set may
// rewrite CAS id and value in place (item_rewrite.hpp); readers of these validate what they read.
#pragma once
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/bytes_equal.hpp"
#include "base/platform.hpp"

namespace tandem {

// Names an item: its offset in the heap in granules of 32 bytes. 0 is none.
using Location = std::uint32_t;
inline constexpr Location no_location = 0;
inline constexpr std::uint32_t granule_bytes = 32;
inline constexpr std::uint32_t key_bytes_max = 250;

template <unsigned Lo, unsigned N>
struct BitField {
  static constexpr unsigned lo = Lo, width = N, hi = Lo + N;
  static constexpr std::uint64_t limit = N == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << N) - 1;
  static constexpr std::uint64_t mask = limit << Lo;
  static constexpr std::uint64_t get(std::uint64_t word) noexcept { return (word & mask) >> Lo; }
  static constexpr std::uint64_t put(std::uint64_t word, std::uint64_t value) noexcept {
    return (word & ~mask) | ((value << Lo) & mask);
  }
};

// filling: not published yet, or, with the mark `fetched`, locked by a thread that rewrites it (item_rewrite.hpp).
enum class ItemState : std::uint8_t { free = 0, filling = 1, live = 2, dead = 3 };

// state_word, atomic:
//   |63       expiry_s       32|31 cas_high 21|20 access_s 6|5 win|4 stale|3 fetched|2 accessed|1 state 0|
//   state: live -> dead is final until the slot is free, and only the holder of the key's stripe makes it. live ->
//   filling -> live: rewritten in place.
//   accessed: CLOCK's bit. fetched: memcached's "hit before". stale, win: the meta protocol's.
//   access_s: the second of the last access modulo 2^15 (refreshed only when it is older than 60 s, as memcached does:
//   hits stay reads). expiry_s: second of the store's clock at which the item expires; 0 never.
// fixed_word, of which only cas_low changes while live (rewriting in place):
//   |63     cas_low     31|30 binary_key|29 huge|28 has_flags|27 value_bytes 8|7 key_bytes 0|
//   has_flags: 4 bytes of client flags lie between header and key.
//   huge: the item owns a run of whole pages; its value length is in the first page's PageInfo and value_bytes is 0.
//   binary_key: the key was sent in base64 (meta protocol) and is shown in base64 again.
namespace word {
using State = BitField<0, 2>;
using Accessed = BitField<2, 1>;
using Fetched = BitField<3, 1>;
using Stale = BitField<4, 1>;
using Win = BitField<5, 1>;
using AccessS = BitField<6, 15>;
using CasHigh = BitField<21, 11>;
using ExpiryS = BitField<32, 32>;
static_assert(State::hi == Accessed::lo && Accessed::hi == Fetched::lo && Fetched::hi == Stale::lo &&
              Stale::hi == Win::lo && Win::hi == AccessS::lo && AccessS::hi == CasHigh::lo &&
              CasHigh::hi == ExpiryS::lo && ExpiryS::hi == 64);
using KeyBytes = BitField<0, 8>;
using ValueBytes = BitField<8, 20>;
using HasFlags = BitField<28, 1>;
using Huge = BitField<29, 1>;
using BinaryKey = BitField<30, 1>;
using CasLow = BitField<31, 33>;
static_assert(KeyBytes::hi == ValueBytes::lo && ValueBytes::hi == HasFlags::lo && HasFlags::hi == Huge::lo &&
              Huge::hi == BinaryKey::lo && BinaryKey::hi == CasLow::lo && CasLow::hi == 64);
static_assert(KeyBytes::limit >= key_bytes_max && ValueBytes::limit >= (1u << 20) - 1);
}  // namespace word
inline constexpr unsigned cas_bits = word::CasHigh::width + word::CasLow::width;
inline constexpr std::uint64_t cas_limit = (std::uint64_t{1} << cas_bits) - 1;

struct Item {
  std::atomic<std::uint64_t> state_word;
  std::atomic<std::uint64_t> fixed_word;

  static ItemState state_of(std::uint64_t w) noexcept { return static_cast<ItemState>(word::State::get(w)); }
  static std::uint32_t expiry_of(std::uint64_t w) noexcept { return static_cast<std::uint32_t>(word::ExpiryS::get(w)); }
  TD_INLINE std::uint64_t state_acquire() const noexcept { return state_word.load(std::memory_order_acquire); }
  TD_INLINE std::uint64_t fixed() const noexcept { return fixed_word.load(std::memory_order_relaxed); }
  // For an item that is not published.
  TD_INLINE void set_fixed(std::uint64_t w) noexcept { fixed_word.store(w, std::memory_order_relaxed); }

  TD_INLINE std::uint32_t key_bytes() const noexcept {
    return static_cast<std::uint32_t>(word::KeyBytes::get(fixed()));
  }
  TD_INLINE bool has_flags() const noexcept { return word::HasFlags::get(fixed()) != 0; }
  TD_INLINE bool is_huge() const noexcept { return word::Huge::get(fixed()) != 0; }
  TD_INLINE bool binary_key() const noexcept { return word::BinaryKey::get(fixed()) != 0; }
  // Bytes of the value of an item that is not huge; Heap::value_bytes() knows both kinds.
  TD_INLINE std::uint32_t small_value_bytes() const noexcept {
    return static_cast<std::uint32_t>(word::ValueBytes::get(fixed()));
  }
  TD_INLINE std::uint32_t key_offset() const noexcept { return has_flags() ? 20 : 16; }
  TD_INLINE const char* bytes() const noexcept { return reinterpret_cast<const char*>(this); }
  TD_INLINE char* bytes() noexcept { return reinterpret_cast<char*>(this); }
  TD_INLINE std::string_view key() const noexcept { return {bytes() + key_offset(), key_bytes()}; }
  TD_INLINE bool has_key(std::string_view k) const noexcept {
    return key_bytes() == k.size() && bytes_equal(bytes() + key_offset(), k.data(), k.size());
  }
  TD_INLINE std::uint32_t value_offset() const noexcept { return key_offset() + key_bytes(); }
  TD_INLINE const char* value() const noexcept { return bytes() + value_offset(); }
  TD_INLINE char* value() noexcept { return bytes() + value_offset(); }
  TD_INLINE std::uint32_t client_flags() const noexcept {
    std::uint32_t f = 0;
    if (has_flags()) std::memcpy(&f, bytes() + 16, sizeof f);
    return f;
  }
  TD_INLINE static std::uint64_t cas_of(std::uint64_t state, std::uint64_t fixed) noexcept {
    return word::CasHigh::get(state) << word::CasLow::width | word::CasLow::get(fixed);
  }
  // The CAS id, given the state word that the caller read. For an item that cannot be rewritten meanwhile: one that is
  // not published, or that the caller has locked. For other items item_rewrite.hpp reads both words of one version.
  TD_INLINE std::uint64_t cas(std::uint64_t state) const noexcept { return cas_of(state, fixed()); }
  // Bytes of header, flags, key and value together.
  static constexpr std::uint64_t total_bytes(std::uint32_t client_flags, std::uint64_t key_bytes,
                                             std::uint64_t value_bytes) noexcept {
    return 16 + (client_flags != 0 ? 4 : 0) + key_bytes + value_bytes;
  }
};
static_assert(sizeof(Item) == 16 && std::atomic<std::uint64_t>::is_always_lock_free);

// Bookkeeping per item, index included: one 8-byte cell at load 0.9 and the header.
inline constexpr double cell_bytes_at_load_90 = 8 / 0.9;
static_assert(cell_bytes_at_load_90 + sizeof(Item) < 25 && cell_bytes_at_load_90 + sizeof(Item) + 4 < 32);
static_assert(Item::total_bytes(0, 8, 8) == granule_bytes);

}  // namespace tandem
