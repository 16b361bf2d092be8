#include "heap/probation.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <mutex>
#include <new>
#include <stdexcept>
#include <system_error>

namespace tandem {
namespace {
constexpr std::uint64_t ghost_share = 64;  // of the budget
// A queue may grow to this multiple of its share while nothing has to be evicted.
constexpr std::uint64_t slack = 2;
constexpr std::uint64_t places_min = 64;

std::uint16_t ghost_of(Fingerprint f) noexcept { return static_cast<std::uint16_t>(f.signature | 1); }
}  // namespace

Probation::Probation(MemoryBudget& budget, PageId page_limit, std::uint32_t class_count)
    : budget_(budget), queues_(std::make_unique<Queue[]>(class_count)) {
  const std::uint64_t ghosts = std::bit_floor(budget.limit_bytes() / ghost_share / sizeof(std::uint16_t));
  if (!budget.take(ghosts * sizeof(std::uint16_t))) throw std::invalid_argument("no memory to remember evicted keys");
  ghost_mask_ = ghosts - 1;
  ghosts_ = std::make_unique<std::atomic<std::uint16_t>[]>(ghosts);
  bits_bytes_ = std::uint64_t{page_limit} * page_granules / 8;
  void* const p =
      mmap(nullptr, bits_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "heap: no address space");
  bits_ = static_cast<std::atomic<std::uint64_t>*>(p);
}

Probation::~Probation() {
  munmap(bits_, bits_bytes_);
  budget_.give_back((ghost_mask_ + 1) * sizeof(std::uint16_t));
}

void Probation::admit(SizeClass c, Location l, Fingerprint f, std::uint64_t slots) noexcept {
  if (recall(f)) return release(l);
  // A slot that still has an entry, from an earlier item, is examined at that entry's turn.
  if ((word(l).fetch_or(bit(l), std::memory_order_relaxed) & bit(l)) != 0) return;
  Queue& queue = queues_[c];
  const std::lock_guard lock(queue.lock);
  try {
    queue.slots.push_back(l);
  } catch (const std::bad_alloc&) {
    return release(l);
  }
  // Memory is not full yet, or entries outlived their items: the oldest is released from probation.
  while (queue.slots.size() > std::max(places_min, slots * slack / slots_per_place)) {
    release(queue.slots.front());
    queue.slots.pop_front();
  }
}

void Probation::forget(PageId page) noexcept {
  constexpr std::uint32_t words = page_granules / 64;
  for (std::uint32_t i = 0; i < words; ++i) bits_[page * words + i].store(0, std::memory_order_relaxed);
}

Location Probation::take_oldest(SizeClass c, std::uint64_t slots) noexcept {
  Queue& queue = queues_[c];
  const std::lock_guard lock(queue.lock);
  while (queue.slots.size() > slots / slots_per_place) {
    const Location l = queue.slots.front();
    queue.slots.pop_front();
    if ((word(l).fetch_and(~bit(l), std::memory_order_relaxed) & bit(l)) != 0) return l;
  }
  return no_location;
}

void Probation::remember(Fingerprint f) noexcept {
  ghosts_[f.hash & ghost_mask_].store(ghost_of(f), std::memory_order_relaxed);
}

bool Probation::recall(Fingerprint f) noexcept {
  std::atomic<std::uint16_t>& ghost = ghosts_[f.hash & ghost_mask_];
  if (ghost.load(std::memory_order_relaxed) != ghost_of(f)) return false;
  ghost.store(0, std::memory_order_relaxed);
  return true;
}

std::uint64_t Probation::queued(SizeClass c) const noexcept {
  const std::lock_guard lock(queues_[c].lock);
  return queues_[c].slots.size();
}

}  // namespace tandem
