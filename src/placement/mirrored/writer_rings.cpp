#include "placement/mirrored/writer_rings.hpp"

#include <algorithm>
#include <vector>

#include "base/thread_owned.hpp"

namespace tandem {

// The rings that one thread holds, of all logs. They are returned when the thread ends or their log is destroyed.
class WriterRings::OfThread {
 public:
  struct Held {
    std::uint64_t rings;
    WriterRing* ring;
    std::shared_ptr<WriterRings> keeps;  // keeps the ring's memory if the log is destroyed first
  };
  ~OfThread() {
    last_used = {};
    ended = true;
    for (const Held& h : held) h.ring->taken.store(false, std::memory_order_release);
  }

  std::vector<Held> held;
  inline static constinit thread_local bool ended = false;  // other destructors of the thread may still write
};

std::uint64_t WriterRings::next_id() noexcept {
  static std::atomic<std::uint64_t> ids{0};
  return ids.fetch_add(1, std::memory_order_relaxed) + 1;
}

WriterRings::~WriterRings() {
  for (WriterRing* ring = first_.load(std::memory_order_relaxed); ring != nullptr;) {
    WriterRing* const next = ring->next;
    delete[] ring;
    ring = next;
  }
}

WriterRing* WriterRings::find_mine() noexcept {
  if (OfThread::ended) return nullptr;
  try {
    OfThread& mine = ThreadOwned<OfThread>::mine();
    const auto found = std::find_if(mine.held.begin(), mine.held.end(), [this](auto& h) { return h.rings == id_; });
    if (found != mine.held.end()) {
      last_used = {id_, found->ring};
      return found->ring;
    }
    std::erase_if(mine.held, [](const auto& h) { return h.keeps.use_count() == 1; });
    mine.held.reserve(mine.held.size() + 1);
    WriterRing* const ring = take();
    mine.held.push_back({id_, ring, shared_from_this()});
    last_used = {id_, ring};
    return ring;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

// Rings of threads that have ended, or new ones. Taking acquires the previous thread's use of them.
WriterRing* WriterRings::take() {
  for (WriterRing* ring = first(); ring != nullptr; ring = ring->next) {
    if (!ring->taken.load(std::memory_order_relaxed) && !ring->taken.exchange(true, std::memory_order_acquire)) {
      return ring;
    }
  }
  auto made = std::make_unique<WriterRing[]>(shards_);
  for (std::uint32_t s = 0; s < shards_; ++s) {
    made[s].mask = records_ - 1;
    made[s].records = std::make_unique_for_overwrite<std::uint64_t[]>(records_);
  }
  WriterRing* head = first_.load(std::memory_order_relaxed);
  do {
    for (std::uint32_t s = 0; s < shards_; ++s) made[s].next = head != nullptr ? head + s : nullptr;
  } while (!first_.compare_exchange_weak(head, made.get(), std::memory_order_release, std::memory_order_relaxed));
  return made.release();
}

}  // namespace tandem
