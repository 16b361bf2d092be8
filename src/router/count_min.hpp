// How often keys came, in two rows of bytes: never less than the truth, up to 255, and seldom more, whatever the number
// of keys. A counter for each key would need a line a key, and the keys that come once take the lines of all others.
//
// Source: Cormode, Muthukrishnan, An improved data stream summary (2005), with conservative update (Estan, Varghese
// 2002) and halving (TinyLFU, Einziger et al. 2017).
//
// Thread safety: one thread.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#include "base/platform.hpp"

namespace tandem {

class CountMin {
 public:
  static constexpr std::uint32_t rows = 2, bits_min = 10, bits_max = 30, count_max = 255;

  // Rows of 2^bits bytes, within bits_min and bits_max. is_valid() is false without memory.
  explicit CountMin(std::uint32_t bits) noexcept : bits_(std::clamp(bits, bits_min, bits_max)) {
    for (auto& row : rows_) row.reset(new (std::nothrow) std::uint8_t[size()]());
  }
  bool is_valid() const noexcept { return rows_[0] != nullptr && rows_[1] != nullptr; }
  std::uint64_t size() const noexcept { return std::uint64_t{1} << bits_; }
  static std::uint64_t bytes_for(std::uint32_t bits) noexcept { return rows * (std::uint64_t{1} << bits); }

  TD_INLINE void prefetch(std::uint64_t key) const noexcept {
    prefetch_write(&rows_[0][first(key)]);
    prefetch_write(&rows_[1][second(key)]);
  }
  // Counts a key, and returns how often it has come, as far as is known.
  TD_INLINE std::uint32_t add(std::uint64_t key) noexcept {
    std::uint8_t &a = rows_[0][first(key)], &b = rows_[1][second(key)];
    used_ += a == 0;
    const std::uint32_t count = std::min<std::uint32_t>(std::min(a, b) + 1u, count_max);
    a = static_cast<std::uint8_t>(std::max<std::uint32_t>(a, count));
    b = static_cast<std::uint8_t>(std::max<std::uint32_t>(b, count));
    return count;
  }
  std::uint32_t count(std::uint64_t key) const noexcept {
    return std::min(rows_[0][first(key)], rows_[1][second(key)]);
  }

  // Of keys that have a count: by the counters that are still 0 (linear counting; Whang et al. 1990).
  double distinct() const noexcept {
    const auto all = static_cast<double>(size());
    return -all * std::log(std::max(all - static_cast<double>(used_), 1.0) / all);
  }

  void halve() noexcept {
    constexpr std::uint64_t low_bits = 0x7f7f'7f7f'7f7f'7f7f;
    for (auto& row : rows_) {
      for (std::uint64_t i = 0; i < size(); i += sizeof(std::uint64_t)) {
        std::uint64_t eight;
        std::memcpy(&eight, &row[i], sizeof eight);
        eight = eight >> 1 & low_bits;
        std::memcpy(&row[i], &eight, sizeof eight);
      }
    }
    used_ = size() - static_cast<std::uint64_t>(std::count(rows_[0].get(), rows_[0].get() + size(), 0));
  }
  void clear() noexcept {
    for (auto& row : rows_) std::memset(row.get(), 0, size());
    used_ = 0;
  }

 private:
  TD_INLINE std::uint64_t first(std::uint64_t key) const noexcept { return key & (size() - 1); }
  TD_INLINE std::uint64_t second(std::uint64_t key) const noexcept { return key >> (64 - bits_); }

  std::uint32_t bits_;
  std::array<std::unique_ptr<std::uint8_t[]>, rows> rows_;
  std::uint64_t used_ = 0;  // counters of the first row that are not 0
};

}  // namespace tandem
