// The keys of one connection's requests that a device has left, for the question whether requests behind them are of
// other keys (frame_runs.hpp). Digests of the keys stand in a hash table with linear probing: two keys of one digest
// are taken for one, which costs only time. A client cannot prepare such keys, as digests are seeded, nor long
// searches, as a probe sequence is short: a key that has no place in it is refused.
//
// Thread safety: one thread at a time.
#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/platform.hpp"
#include "base/short_hash.hpp"

namespace tandem {

class LeftKeys {
 public:
  static constexpr std::size_t keys_max = 2048;

  explicit LeftKeys(std::uint64_t seed) : seed_(seed), digests_(places) { used_.reserve(keys_max); }

  bool empty() const noexcept { return used_.empty(); }
  void clear() noexcept {
    for (const std::uint16_t place : used_) digests_[place] = 0;
    used_.clear();
  }
  // False: there is no place for it.
  bool add(std::string_view key) noexcept {
    const std::uint64_t hash = hash_of(key);
    const std::uint32_t digest = digest_of(hash);
    for (std::size_t i = 0; i < probes_max; ++i) {
      std::uint32_t& at = digests_[place_of(hash) + i];
      if (at == digest) return true;
      if (at != 0) continue;
      if (used_.size() == keys_max) return false;
      at = digest;
      used_.push_back(static_cast<std::uint16_t>(place_of(hash) + i));
      return true;
    }
    return false;
  }
  // True if the key was added, and seldom for another one.
  TD_INLINE bool may_have(std::string_view key) const noexcept {
    const std::uint64_t hash = hash_of(key);
    const std::uint32_t* const at = digests_.data() + place_of(hash);
    for (std::size_t i = 0; i < probes_max && at[i] != 0; ++i) {
      if (at[i] == digest_of(hash)) return true;
    }
    return false;
  }
  // Whether may_have() is true for any key of these requests. REQUIRES: whole lines of the grammar of frames
  // (frames.hpp).
  bool may_have_any(const char* begin, const char* end) const noexcept;

 private:
  static constexpr std::size_t probes_max = 16;
  static constexpr int place_bits = 12;
  static constexpr std::size_t places = (std::size_t{1} << place_bits) + probes_max;

  // Of the first 16 bytes of a short key, the first and the last 8 of a longer one, and of its length.
  TD_INLINE std::uint64_t hash_of(std::string_view key) const noexcept {
    ShortKey k;
    if (TD_LIKELY(key.size() <= short_key_bytes_max)) {
      k = load_short_key(key.data(), key.size());
    } else {
      std::memcpy(&k.low, key.data(), sizeof k.low);
      std::memcpy(&k.high, key.data() + key.size() - sizeof k.high, sizeof k.high);
    }
    // Two odd multipliers of splitmix64 (Steele, Lea, Flood, OOPSLA 2014).
    constexpr std::uint64_t first = 0xbf58476d1ce4e5b9, second = 0x94d049bb133111eb;
    const std::uint64_t low = (k.low ^ seed_) * first;
    const std::uint64_t high = (k.high + key.size() + std::rotl(low, 32)) * second;
    return high ^ (high >> 29);
  }
  static std::size_t place_of(std::uint64_t hash) noexcept { return hash >> (64 - place_bits); }
  static std::uint32_t digest_of(std::uint64_t hash) noexcept { return static_cast<std::uint32_t>(hash) | 1; }

  std::uint64_t seed_;
  std::vector<std::uint32_t> digests_;  // 0: the place is free
  std::vector<std::uint16_t> used_;     // places that are not
};

}  // namespace tandem
