#include "heap/cache.hpp"

namespace tandem {

Heap::Cache::Cache(Heap& heap) noexcept : heap_(heap) {
  catcher_.left = 1;
  for (Shelf& shelf : shelves_) {
    shelf.giving = &nothing_;
    shelf.taking = &catcher_;
  }
  for (std::uint32_t i = 0; i < heap.class_count(); ++i) {
    const SlotShape& shape = heap.classes_[static_cast<SizeClass>(i)];
    shelves_[i].slot_bytes = shape.slot_bytes;
    shelves_[i].magazine_slots = shape.magazine_slots;
  }
  heap.attach(*this);
}

Heap::Cache::~Cache() {
  heap_.detach(*this);
  const auto give_back = [this](MagazineQueue& queue) {
    while (queue.head != nullptr) supply_.put(queue.pop());
  };
  for (Shelf& shelf : shelves_) {
    if (shelf.giving != &nothing_) supply_.put(shelf.giving);
    if (shelf.taking != &catcher_) supply_.put(shelf.taking);
    give_back(shelf.sealed);
  }
  give_back(sealed_large_);
  if (large_ != nullptr) supply_.put(large_);
}

void Heap::attach(Cache& cache) noexcept {
  const std::lock_guard list(caches_mutex_);
  cache.next_ = caches_;
  if (caches_ != nullptr) caches_->previous_ = &cache;
  caches_ = &cache;
  caches_count_.fetch_add(1, std::memory_order_relaxed);
}

void Heap::detach(Cache& cache) noexcept {
  const std::lock_guard list(caches_mutex_);
  const Cache::Lock lock(cache);
  for (std::uint32_t i = 0; i < classes_.count(); ++i) {
    const auto c = static_cast<SizeClass>(i);
    spill(cache, c, 0);
    counters_[i].allocated_by_gone += cache.shelves_[c].allocated.load(std::memory_order_relaxed);
  }
  counters_[classes_.count()].allocated_by_gone += cache.shelves_[huge_class].allocated.load(std::memory_order_relaxed);
  if (orphans_ != nullptr) {  // null while the heap itself is destroyed
    const Cache::Lock orphans_lock(*orphans_);
    adopt_retired(*orphans_, cache);
  }
  (cache.previous_ != nullptr ? cache.previous_->next_ : caches_) = cache.next_;
  if (cache.next_ != nullptr) cache.next_->previous_ = cache.previous_;
  caches_count_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace tandem
