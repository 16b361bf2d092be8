// The store's one memory limit (`-m`): heap pages, index tables and huge items are charged to it; no item memory is
// allocated outside it. Thread safety: all calls from any thread.
#pragma once
#include <atomic>
#include <cstdint>

namespace tandem {

class MemoryBudget {
 public:
  explicit MemoryBudget(std::uint64_t limit_bytes) noexcept : limit_bytes_(limit_bytes) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  // False, and nothing changes, when the limit would be exceeded.
  bool take(std::uint64_t bytes) noexcept {
    const std::uint64_t limit_bytes = this->limit_bytes();
    std::uint64_t used = used_bytes_.load(std::memory_order_relaxed);
    do {
      if (bytes > limit_bytes || used > limit_bytes - bytes) return false;
    } while (!used_bytes_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    return true;
  }
  void give_back(std::uint64_t bytes) noexcept { used_bytes_.fetch_sub(bytes, std::memory_order_relaxed); }

  // Claims bytes that are not free yet: from now on take() fails until enough were given back. The claimer may use them
  // once overdrawn() is false, and returns them (used or not) with give_back(). So memory freed for a large allocation
  // (a bigger index) is not taken piecemeal. False, and nothing changes, when the limit itself is smaller.
  bool claim(std::uint64_t bytes) noexcept {
    if (bytes > limit_bytes()) return false;
    used_bytes_.fetch_add(bytes, std::memory_order_relaxed);
    return true;
  }
  bool overdrawn() const noexcept { return used_bytes() > limit_bytes(); }

  // Lowering the limit takes no memory back: take() fails until enough was given back.
  void set_limit(std::uint64_t limit_bytes) noexcept { limit_bytes_.store(limit_bytes, std::memory_order_relaxed); }

  std::uint64_t limit_bytes() const noexcept { return limit_bytes_.load(std::memory_order_relaxed); }
  // Includes claims: above limit_bytes() while a claim waits, or after the limit was lowered.
  std::uint64_t used_bytes() const noexcept { return used_bytes_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> limit_bytes_;
  std::atomic<std::uint64_t> used_bytes_{0};
};

}  // namespace tandem
