#include "heap/cache.hpp"

#include <utility>

namespace tandem {

Heap::Cache::Cache(Heap& heap) : heap_(heap) {
  std::size_t places = prefetch_slots;
  for (std::uint32_t c = 0; c < heap.class_count(); ++c) places += heap.classes_[static_cast<SizeClass>(c)].cache_slots;
  storage_ = std::make_unique<Location[]>(places);
  Location* next = storage_.get() + prefetch_slots;
  for (std::uint32_t c = 0; c < heap.class_count(); ++c) {
    classes_[c].ready = next;
    next += heap.classes_[static_cast<SizeClass>(c)].cache_slots;
  }
  heap.attach(*this);
}

Heap::Cache::~Cache() { heap_.detach(*this); }

void Heap::attach(Cache& cache) noexcept {
  const std::lock_guard list(caches_mutex_);
  cache.next_ = caches_;
  if (caches_ != nullptr) caches_->previous_ = &cache;
  caches_ = &cache;
}

// The slots get a new stamp: later than needed, never too early.
void Heap::adopt_retired(Cache& to, RetiredList& from) noexcept {
  const auto move = [&](Location l) noexcept {
    const SizeClass c = class_of(l);
    to.retired_.push(l, at(l), slot_bytes_at(c, l));
    ++to.classes_[c].retired;
    if (to.retired_.is_full()) seal(to);
  };
  while (from.has_open() || from.oldest_stamp() != RetiredList::no_stamp) {
    retired_bytes_.fetch_add(from.seal(0), std::memory_order_relaxed);
    while (RetiredList::Chunk* const chunk = from.pop(RetiredList::no_stamp)) {
      retired_bytes_.fetch_sub(chunk->bytes, std::memory_order_relaxed);
      for (std::uint32_t i = 0; i < chunk->count; ++i) move(chunk->slots[i]);
      from.recycle(chunk);
    }
    const RetiredList::Chain chain = from.pop_chain(RetiredList::no_stamp);
    retired_bytes_.fetch_sub(chain.bytes, std::memory_order_relaxed);
    for (Location l = chain.head; l != no_location;) {
      const Location next = RetiredList::next_in_chain(at(l));
      move(l);
      l = next;
    }
  }
  if (to.retired_.has_open()) seal(to);
}

void Heap::detach(Cache& cache) noexcept {
  const std::lock_guard list(caches_mutex_);
  const Cache::Lock lock(cache);
  for (std::uint32_t i = 0; i < classes_.count(); ++i) {
    const auto c = static_cast<SizeClass>(i);
    spill(cache, c, 0);
    counters_[i].allocated_by_gone += cache.classes_[c].allocated.load(std::memory_order_relaxed);
  }
  counters_[classes_.count()].allocated_by_gone += cache.classes_[huge_class].allocated.load(std::memory_order_relaxed);
  if (orphans_ != nullptr) {  // else it is the heap going, with all that waits
    const Cache::Lock orphans_lock(*orphans_);
    adopt_retired(*orphans_, cache.retired_);
  }
  (cache.previous_ != nullptr ? cache.previous_->next_ : caches_) = cache.next_;
  if (cache.next_ != nullptr) cache.next_->previous_ = cache.previous_;
}

}  // namespace tandem
