#include "base/memory_reserve.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace tandem {
namespace {

// Address space until it is needed: the pages of a block are never touched. What a worker's pass allocates beside the
// buffers of connections is far below a block.
constexpr std::size_t block_bytes = 256 << 10, block_count = 16;
std::array<std::atomic<void*>, block_count> blocks;
std::atomic<unsigned> missing{0};

}  // namespace

void hold_memory_reserve() {
  missing.store(block_count, std::memory_order_relaxed);
  if (!refill_memory_reserve()) throw std::bad_alloc();
  std::set_new_handler(free_memory_reserve);
}

unsigned memory_reserve_missing() noexcept { return missing.load(std::memory_order_relaxed); }

bool refill_memory_reserve() noexcept {
  for (std::atomic<void*>& block : blocks) {
    if (block.load(std::memory_order_relaxed) != nullptr) continue;
    void* const memory = std::malloc(block_bytes);
    if (memory == nullptr) return false;
    void* none = nullptr;
    if (block.compare_exchange_strong(none, memory, std::memory_order_relaxed)) {
      missing.fetch_sub(1, std::memory_order_relaxed);
    } else {
      std::free(memory);  // another thread was faster
    }
  }
  return missing.load(std::memory_order_relaxed) == 0;
}

void free_memory_reserve() {
  for (std::atomic<void*>& block : blocks) {
    void* const memory = block.exchange(nullptr, std::memory_order_relaxed);
    if (memory == nullptr) continue;
    missing.fetch_add(1, std::memory_order_relaxed);
    std::free(memory);
    return;
  }
  throw std::bad_alloc();
}

}  // namespace tandem
