#include "base/memory_reserve.hpp"

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <new>

namespace tandem {
namespace {

// Only address space until it is needed: the pages of a block are never touched. Mapped apart from malloc's arenas, so
// that any thread can use it. A worker's pass allocates far less than a block, apart from the buffers of connections.
constexpr std::size_t block_bytes = 256 << 10;
constexpr unsigned block_count = 16;
std::array<std::atomic<void*>, block_count> blocks;
std::atomic<unsigned> missing{0};

}  // namespace

void hold_memory_reserve() {
  missing.store(block_count, std::memory_order_relaxed);
  if (!refill_memory_reserve()) throw std::bad_alloc();
  std::set_new_handler(free_memory_reserve);
}

bool memory_is_short() noexcept { return missing.load(std::memory_order_relaxed) > block_count / 2; }

unsigned memory_reserve_missing() noexcept { return missing.load(std::memory_order_relaxed); }

bool refill_memory_reserve() noexcept {
  for (std::atomic<void*>& block : blocks) {
    if (block.load(std::memory_order_relaxed) != nullptr) continue;
    void* const memory = mmap(nullptr, block_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return false;
    void* none = nullptr;
    if (block.compare_exchange_strong(none, memory, std::memory_order_relaxed)) {
      missing.fetch_sub(1, std::memory_order_relaxed);
    } else {
      munmap(memory, block_bytes);  // another thread was faster
    }
  }
  return missing.load(std::memory_order_relaxed) == 0;
}

void free_memory_reserve() {
  for (std::atomic<void*>& block : blocks) {
    missing.fetch_add(1, std::memory_order_relaxed);  // first: a refill in between counts it down
    void* const memory = block.exchange(nullptr, std::memory_order_relaxed);
    if (memory == nullptr) {
      missing.fetch_sub(1, std::memory_order_relaxed);
      continue;
    }
    munmap(memory, block_bytes);
    return;
  }
  throw std::bad_alloc();
}

}  // namespace tandem
