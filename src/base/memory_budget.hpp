// The store's one memory limit (`-m`): heap pages, index tables and huge items are charged to it; no item memory is
// allocated outside it. Thread safety: all calls from any thread.
#pragma once
#include <atomic>
#include <cstdint>

namespace tandem {

// Owns memory that is charged, free and resident, and returns it to the system on demand.
class KeptMemory {
 public:
  // Returns about so many bytes, with MemoryBudget::release_kept(). Returns how many; 0: it has none.
  virtual std::uint64_t return_kept(std::uint64_t bytes) noexcept = 0;

 protected:
  ~KeptMemory() = default;
};

class MemoryBudget {
 public:
  explicit MemoryBudget(std::uint64_t limit_bytes) noexcept : limit_bytes_(limit_bytes) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  // False, and nothing changes, when the limit would be exceeded. Kept memory is returned to the system where that
  // makes room.
  bool take(std::uint64_t bytes) noexcept {
    while (!take_free(bytes)) {
      const std::uint64_t limit_bytes = this->limit_bytes();
      if (bytes > limit_bytes || used_bytes() > limit_bytes - bytes || !return_kept(bytes)) return false;
    }
    return true;
  }
  // The same beside the kept memory. The owner of that calls it.
  bool take_free(std::uint64_t bytes) noexcept {
    const std::uint64_t limit_bytes = this->limit_bytes();
    std::uint64_t charged = charged_bytes_.load(std::memory_order_relaxed);
    do {
      if (bytes > limit_bytes || charged > limit_bytes - bytes) return false;
    } while (!charged_bytes_.compare_exchange_weak(charged, charged + bytes, std::memory_order_relaxed));
    return true;
  }
  void give_back(std::uint64_t bytes) noexcept { charged_bytes_.fetch_sub(bytes, std::memory_order_relaxed); }

  // --- kept memory: used memory that became free stays charged and resident, for its owner's next use
  // Before any other call, and nullptr at the end of the owner's life.
  void set_keeper(KeptMemory* keeper) noexcept { keeper_ = keeper; }
  void keep(std::uint64_t bytes) noexcept { kept_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  void use_kept(std::uint64_t bytes) noexcept { kept_bytes_.fetch_sub(bytes, std::memory_order_relaxed); }
  void release_kept(std::uint64_t bytes) noexcept {
    use_kept(bytes);
    give_back(bytes);
  }
  std::uint64_t kept_bytes() const noexcept { return kept_bytes_.load(std::memory_order_relaxed); }

  // Claims bytes that are not free yet: from now on take() fails until enough were given back. The claimer may use them
  // once overdrawn() is false, and returns them (used or not) with give_back(). So memory freed for a large allocation
  // (a bigger index) is not taken piecemeal. False, and nothing changes, when the limit itself is smaller.
  bool claim(std::uint64_t bytes) noexcept {
    if (bytes > limit_bytes()) return false;
    charged_bytes_.fetch_add(bytes, std::memory_order_relaxed);
    return_overdrawn();
    return true;
  }
  bool overdrawn() const noexcept { return charged_bytes() > limit_bytes(); }

  // Lowering the limit takes no memory back but what is kept: take() fails until enough was given back.
  void set_limit(std::uint64_t limit_bytes) noexcept {
    limit_bytes_.store(limit_bytes, std::memory_order_relaxed);
    return_overdrawn();
  }

  std::uint64_t limit_bytes() const noexcept { return limit_bytes_.load(std::memory_order_relaxed); }
  // Includes claims: above limit_bytes() while a claim waits, or after the limit was lowered. Without kept memory.
  std::uint64_t used_bytes() const noexcept {
    const std::uint64_t kept = kept_bytes();  // first: other threads may release some before the next line
    const std::uint64_t charged = charged_bytes();
    return charged > kept ? charged - kept : 0;
  }

 private:
  std::uint64_t charged_bytes() const noexcept { return charged_bytes_.load(std::memory_order_relaxed); }
  bool return_kept(std::uint64_t bytes) noexcept { return keeper_ != nullptr && keeper_->return_kept(bytes) != 0; }
  void return_overdrawn() noexcept {
    for (;;) {
      const std::uint64_t charged = charged_bytes(), limit = limit_bytes();
      if (charged <= limit || !return_kept(charged - limit)) return;
    }
  }

  std::atomic<std::uint64_t> limit_bytes_;
  std::atomic<std::uint64_t> charged_bytes_{0};
  std::atomic<std::uint64_t> kept_bytes_{0};  // of charged_bytes_
  KeptMemory* keeper_ = nullptr;
};

}  // namespace tandem
