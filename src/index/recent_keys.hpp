// Keys that were noted lately, for a thread that acts on them later. When there are too many, the oldest are forgotten.
//
// Thread safety: any thread. Its lock is a leaf.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string_view>

#include "base/spin_lock.hpp"

namespace tandem {

class RecentKeys {
 public:
  struct Noted {
    std::uint32_t count = 0;  // of whatever the key begins
    std::uint8_t bytes = 0;
    char text[255];

    std::string_view key() const noexcept { return {text, bytes}; }
  };

  // REQUIRES: at most 255 bytes.
  void add(std::string_view key, std::uint32_t count = 0) noexcept {
    const std::lock_guard lock(lock_);
    Noted& noted = noted_[(first_ + size_) % kept_max];
    noted.count = count;
    noted.bytes = static_cast<std::uint8_t>(key.size());
    std::memcpy(noted.text, key.data(), key.size());
    if (size_ == kept_max) {
      ++first_;
    } else {
      ++size_;
    }
  }
  // The oldest. False: there is none.
  bool take(Noted& out) noexcept {
    const std::lock_guard lock(lock_);
    if (size_ == 0) return false;
    out = noted_[first_ % kept_max];
    ++first_;
    --size_;
    return true;
  }

 private:
  static constexpr std::uint32_t kept_max = 64;

  SpinLock lock_;
  std::uint32_t first_ = 0, size_ = 0;
  std::array<Noted, kept_max> noted_;
};

}  // namespace tandem
