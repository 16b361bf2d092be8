#include "placement/on_device/hot_table.hpp"

#include <new>
#include <stdexcept>

namespace tandem {

HotTable::HotTable(std::uint64_t bytes, std::uint32_t threads_max, MemoryBudget& budget)
    : budget_(budget),
      bucket_count_(
          static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes / sizeof(Bucket), std::uint64_t{1} << 31))),
      margin_(std::min(8 + 2 * ((threads_max + lanes - 1) / lanes), displaced_max / 2)),
      keys_max_(std::uint64_t{bucket_count_} * bucket_cells / 2) {
  if (bytes < bytes_min) throw std::invalid_argument("the memory for hot keys is too small");
  if (!budget_.take(this->bytes())) throw std::bad_alloc();
  try {
    buckets_ = std::make_unique<Bucket[]>(bucket_count_);
    displaced_ = std::make_unique<Displaced[]>(lanes);
  } catch (...) {
    budget_.give_back(this->bytes());
    throw;
  }
}

HotTable::~HotTable() { budget_.give_back(bytes()); }

std::uint32_t HotTable::my_number() noexcept {
  static std::atomic<std::uint32_t> threads{0};
  thread_local const std::uint32_t mine = threads.fetch_add(1, std::memory_order_relaxed) % lanes;
  return mine;
}

// --- under the stripe

HotTable::Cell* HotTable::cell_of(std::uint32_t signature) const noexcept {
  for (Cell& cell : bucket_of(signature).cell) {
    if (cell.key.load(std::memory_order_relaxed) >> 32 == signature) return &cell;
  }
  return nullptr;
}

bool HotTable::promote(Fingerprint f, Location l) noexcept {
  if (keys() >= keys_max_ || cell_of(f.signature) != nullptr) return false;
  for (Cell& cell : bucket_of(f.signature).cell) {
    // Keys of other stripes take cells of the bucket, too.
    std::uint64_t unused = 0;
    if (!cell.key.compare_exchange_strong(unused, reserved, std::memory_order_acquire, std::memory_order_relaxed))
      continue;
    cell.from.store(l, std::memory_order_relaxed);
    cell.location.store(l, std::memory_order_release);
    cell.key.store(key_of(f), std::memory_order_release);
    keys_.fetch_add(1, std::memory_order_relaxed);
    promoted_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  return false;
}

bool HotTable::change(Fingerprint f, Location was, Location to) noexcept {
  Cell* const cell = cell_of(f.signature);
  // A key of the same fingerprint may be elsewhere; if it is not, an erased key's cell is as good as its own.
  if (cell == nullptr || cell->key.load(std::memory_order_relaxed) != key_of(f) ||
      cell->location.load(std::memory_order_relaxed) != was)
    return false;
  cell->location.store(to, std::memory_order_release);
  if (was == no_location) return true;
  if (cell->from.load(std::memory_order_relaxed) == was) {
    held_.fetch_add(1, std::memory_order_relaxed);
  } else {
    displace(was);
  }
  return true;
}

void HotTable::replayed(Cell& cell) noexcept {
  if (cell.from.load(std::memory_order_relaxed) != no_location) held_.fetch_sub(1, std::memory_order_relaxed);
  cell.from.store(cell.location.load(std::memory_order_relaxed), std::memory_order_relaxed);
  replayed_.fetch_add(1, std::memory_order_relaxed);
}

void HotTable::forget(Cell& cell) noexcept {
  TD_DEBUG_ASSERT(!cell.is_dirty());
  cell.key.store(0, std::memory_order_release);
  keys_.fetch_sub(1, std::memory_order_relaxed);
  cleaned_.fetch_add(1, std::memory_order_relaxed);
}

// --- slots that no device names

void HotTable::displace(Location l) noexcept {
  Displaced& mine = displaced_[my_number()];
  mine.lock.lock();
  const std::uint32_t count = mine.count.load(std::memory_order_relaxed);
  TD_ASSERT(count < displaced_max);  // has_room() left one for each thread that may be here
  mine.location[count] = l;
  mine.count.store(count + 1, std::memory_order_relaxed);
  mine.unretired.fetch_add(1, std::memory_order_relaxed);
  mine.lock.unlock();
}

// The lock of the cache comes first where both are held.
void HotTable::retire(Displaced& some, Heap& heap, Heap::Cache& cache) noexcept {
  if (some.count.load(std::memory_order_relaxed) == 0) return;
  std::array<Location, displaced_max> copy;
  some.lock.lock();
  const std::uint32_t count = some.count.load(std::memory_order_relaxed);
  std::copy_n(some.location.begin(), count, copy.begin());
  some.count.store(0, std::memory_order_relaxed);
  some.lock.unlock();
  {
    const Heap::Cache::Lock lock(cache);
    for (std::uint32_t i = 0; i < count; ++i) heap.retire(cache, copy[i]);
  }
  // Not earlier: a thread that waits for slots must find them either here or among the retired.
  some.unretired.fetch_sub(count, std::memory_order_relaxed);
}

void HotTable::retire(Heap& heap, Heap::Cache& cache, bool all) noexcept {
  if (!all) return retire(displaced_[my_number()], heap, cache);
  for (Displaced& some : std::span(displaced_.get(), lanes)) retire(some, heap, cache);
}

bool HotTable::has_unretired() const noexcept {
  return held_.load(std::memory_order_relaxed) != 0 ||
         std::ranges::any_of(std::span(displaced_.get(), lanes),
                             [](const Displaced& some) { return some.unretired.load(std::memory_order_relaxed) != 0; });
}

void HotTable::clear(Heap& heap, Heap::Cache& cache) noexcept {
  retire(heap, cache, true);
  const Heap::Cache::Lock lock(cache);
  for (Bucket& bucket : std::span(buckets_.get(), bucket_count_)) {
    for (Cell& cell : bucket.cell) {
      if (cell.key.load(std::memory_order_relaxed) == 0) continue;
      const Location from = cell.from.load(std::memory_order_relaxed);
      if (from != no_location && cell.is_dirty()) heap.retire(cache, from);
      cell.key.store(0, std::memory_order_release);
    }
  }
  keys_.store(0, std::memory_order_relaxed);
  held_.store(0, std::memory_order_relaxed);
}

HotTableStats HotTable::stats() const noexcept {
  return {.keys = keys(),
          .keys_max = keys_max_,
          .held = held_.load(std::memory_order_relaxed),
          .promoted = promoted_.load(std::memory_order_relaxed),
          .cleaned = cleaned_.load(std::memory_order_relaxed),
          .replayed = replayed_.load(std::memory_order_relaxed)};
}

}  // namespace tandem
