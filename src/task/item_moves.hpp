// Bursts of moves of items in key order, each of which changes a leaf and so overtakes scans of it. Scans and movers
// take turns: an overtaken scan waits for the burst's end instead of asking for fewer items, and a mover rests when
// scans have waited.
//
// Thread safety: all from any thread.
#pragma once
#include <atomic>
#include <cstdint>

#include "base/spin_wait.hpp"

namespace tandem {

class ItemMoves {
 public:
  // Held by a mover for some microseconds.
  class Burst {
   public:
    explicit Burst(ItemMoves& moves) noexcept : moves_(moves) {
      moves_.bursts_.fetch_add(1, std::memory_order_relaxed);
    }
    ~Burst() { moves_.bursts_.fetch_sub(1, std::memory_order_relaxed); }
    Burst(const Burst&) = delete;
    Burst& operator=(const Burst&) = delete;

   private:
    ItemMoves& moves_;
  };

  // Waits until there is no burst, within bounds: its thread may have been interrupted. False: there was none.
  bool wait_for_end() noexcept {
    constexpr int looks_max = 100;
    if (bursts_.load(std::memory_order_relaxed) == 0) return false;
    waited_.store(true, std::memory_order_relaxed);
    SpinWait waiting;
    for (int looks = 0; looks < looks_max && bursts_.load(std::memory_order_relaxed) != 0; ++looks) waiting.once();
    return true;
  }
  // Whether a scan has waited since the last call.
  bool take_waited() noexcept {
    return waited_.load(std::memory_order_relaxed) && waited_.exchange(false, std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint32_t> bursts_{0};
  std::atomic<bool> waited_{false};
};

}  // namespace tandem
