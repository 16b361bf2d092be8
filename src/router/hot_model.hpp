// Which keys are hot, immutable: a bit for each of 2^20 classes of fingerprints, one test on the way of every query,
// and the exact set, asked before a key is treated as hot for good. 16 Ki keys set 1.6 % of the bits: so many cold keys
// look hot and are found not to be.
//
// A key is known by 63 bits of its fingerprint: the highest one of `hash`, which no index uses, is a sample's mark.
//
// Source: KVCG 7 ("a classification of that key as hot or cold"). Departure: no model is searched for a query.
//
// Thread safety: immutable once published.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "base/fingerprint.hpp"
#include "base/platform.hpp"

namespace tandem {

// The key as models and samples know it; never 0.
TD_INLINE std::uint64_t key_word(Fingerprint f) noexcept {
  return std::uint64_t{f.signature} << 32 | (f.hash & 0x7fff'ffff);
}

class HotModel {
 public:
  static constexpr std::uint32_t class_count = 1u << 20;

  // The class of a key: bits of the signature, as the rest names buckets.
  static TD_INLINE std::uint32_t class_of(Fingerprint f) noexcept { return f.signature & (class_count - 1); }

  // Exactly these keys, in any order, even twice. threshold: the share of all requests that made them hot, 0 for ones
  // that were given. nullptr: no memory.
  static std::unique_ptr<HotModel> of_keys(std::span<const Fingerprint> keys, double threshold = 0) noexcept;
  // All keys of whole bins: bin b of n has the classes c with c * n / class_count == b. is_hot[b] != 0: hot.
  static std::unique_ptr<HotModel> of_bins(std::span<const std::uint8_t> is_hot, double threshold = 0) noexcept;
  static TD_INLINE std::uint32_t bin_of(std::uint32_t class_number, std::uint32_t bins) noexcept {
    return static_cast<std::uint32_t>(std::uint64_t{class_number} * bins / class_count);
  }

  // False: it is cold. True: it is hot, or shares its class with a hot one.
  TD_INLINE bool may_be_hot(Fingerprint f) const noexcept {
    const std::uint32_t c = class_of(f);
    return (bits_[c / 64] >> (c % 64) & 1) != 0;
  }
  // REQUIRES: a signature that is not 0.
  bool is_hot(Fingerprint f) const noexcept {
    if (!may_be_hot(f)) return false;
    if (slots_ == nullptr) return true;
    const std::uint64_t key = key_word(f);
    for (std::uint64_t at = slot_of(key);; at = (at + 1) & slot_mask_) {
      if (slots_[at] == key) return true;
      if (slots_[at] == 0) return false;
    }
  }

  // Counts the models that were published; 0: not yet.
  std::uint32_t number() const noexcept { return number_; }
  void set_number(std::uint32_t number) noexcept { number_ = number; }  // before it is published
  // Hot keys, or hot bins.
  std::uint32_t size() const noexcept { return size_; }
  double threshold() const noexcept { return threshold_; }
  std::uint64_t bytes() const noexcept {
    return sizeof(HotModel) + (slots_ == nullptr ? 0 : (slot_mask_ + 1) * sizeof(std::uint64_t));
  }
  // Of a model of so many keys.
  static std::uint64_t bytes_for(std::uint64_t keys) noexcept {
    return sizeof(HotModel) + slots_for(keys) * sizeof(std::uint64_t);
  }

 private:
  HotModel() = default;

  static std::uint64_t slots_for(std::uint64_t keys) noexcept;
  std::uint64_t slot_of(std::uint64_t key) const noexcept { return (key * 0x9e37'79b9'7f4a'7c15 >> 32) & slot_mask_; }
  void set_class(std::uint32_t c) noexcept { bits_[c / 64] |= std::uint64_t{1} << c % 64; }

  std::array<std::uint64_t, class_count / 64> bits_{};
  std::unique_ptr<std::uint64_t[]> slots_;  // key words by hash, half of them 0 at least; nullptr: classes are exact
  std::uint64_t slot_mask_ = 0;
  double threshold_ = 0;
  std::uint32_t size_ = 0, number_ = 0;
};

}  // namespace tandem
