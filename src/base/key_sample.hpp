// Some of the keys that are offered one after another, as evenly as they come, in memory that is allocated once: what
// observes a path may not fail it. Thread safety: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/platform.hpp"

namespace tandem {

class KeySample {
 public:
  // Room for an even number of keys, 2 or more. Throws std::bad_alloc.
  explicit KeySample(std::size_t keys_max) { keys_.reserve(keys_max); }

  // The bytes stay the caller's, until clear().
  void offer(std::string_view key) noexcept {
    if ((offered_++ & (each_ - 1)) != 0) return;
    if (TD_UNLIKELY(keys_.size() == keys_.capacity())) halve();
    keys_.push_back(key);
  }

  // The first key offered, and from there on each that stands for each() of them.
  std::span<const std::string_view> keys() const noexcept { return keys_; }
  std::uint32_t each() const noexcept { return static_cast<std::uint32_t>(each_); }

  void clear() noexcept {
    keys_.clear();
    offered_ = 0;
    each_ = 1;
  }

 private:
  TD_NOINLINE void halve() noexcept {
    const std::size_t half = keys_.size() / 2;
    for (std::size_t i = 1; i < half; ++i) keys_[i] = keys_[2 * i];
    keys_.resize(half);
    each_ *= 2;
  }

  std::vector<std::string_view> keys_;
  std::uint64_t offered_ = 0, each_ = 1;  // each_: a power of 2
};

}  // namespace tandem
