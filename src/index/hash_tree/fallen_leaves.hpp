// Leaves that have lately become nearly empty, by their lower fences, so that merging them takes no walk of the tree.
// When there are too many, the oldest are forgotten; who walks the tree still finds them.
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

class FallenLeaves {
 public:
  struct Fence {
    std::uint8_t bytes = 0;
    char text[255];

    std::string_view view() const noexcept { return {text, bytes}; }
  };

  void add(std::string_view low) noexcept {
    const std::lock_guard lock(lock_);
    Fence& fence = fences_[(first_ + count_) % kept_max];
    fence.bytes = static_cast<std::uint8_t>(low.size());
    std::memcpy(fence.text, low.data(), low.size());
    if (count_ == kept_max) {
      ++first_;
    } else {
      ++count_;
    }
  }
  // The oldest. False: there is none.
  bool take(Fence& out) noexcept {
    const std::lock_guard lock(lock_);
    if (count_ == 0) return false;
    out = fences_[first_ % kept_max];
    ++first_;
    --count_;
    return true;
  }

 private:
  static constexpr std::uint32_t kept_max = 64;

  SpinLock lock_;
  std::uint32_t first_ = 0, count_ = 0;
  std::array<Fence, kept_max> fences_;
};

}  // namespace tandem
