// What the maintenance thread does: expiry of seconds, pages, the index's growth, balance of the size classes.
#include <algorithm>
#include <chrono>

#include "base/memory_reserve.hpp"
#include "engine/engine.hpp"
#include "engine/index_share.hpp"
#include "task/memory.hpp"
#include "task/page_moves.hpp"

namespace tandem {
namespace {

// Unless the clock's second ends sooner.
constexpr auto maintenance_period = std::chrono::milliseconds(250);

}  // namespace

void Engine::maintenance_loop() {
  while (!stopping_.load(std::memory_order_relaxed)) {
    // Right after the second's end: a store in an outdated second would expire too early.
    const auto next_s = std::chrono::ceil<std::chrono::milliseconds>(clock_.until_next_s());
    shared_->maintenance.wait_for(std::min(maintenance_period, next_s));
    maintain();
  }
}

void Engine::maintain() {
  const std::lock_guard lock(maintain_mutex_);
  maintenance_turns_.fetch_add(1, std::memory_order_relaxed);
  clock_.tick();
  if (TD_UNLIKELY(memory_reserve_missing() != 0)) refill_memory_reserve();  // while all workers are asleep
  if (file_) {
    save_clock();
    drop_unwritten();
    say_no_room();
  }
  apply_due_flush();
  if (placement_->is_closed()) bring_index_back();
  shrink();
  if (index_->wants_growth()) grow_index();
  apply_reassign();
  balance_classes();
  heap_->return_unneeded(clock_.now_s());
}

// Takes a page from the heap; or as many as give the budget room for `bytes`, which no worker takes meanwhile. False:
// there is none to take.
bool Engine::free_pages(std::uint64_t bytes) {
  const auto move = [this] { return task::move_page(*maintenance_context_, huge_class, Heap::DonorRule::any) != 0; };
  if (bytes == 0 || !budget_.claim(bytes)) return move();
  bool moves = true;
  while (moves && budget_.overdrawn() && !stopping_.load(std::memory_order_relaxed)) moves = move();
  budget_.give_back(bytes);
  return moves;
}

// Grows the table; takes pages from the heap when the limit has no room for that.
void Engine::grow_index() {
  if (index_->tidy(); !index_->wants_growth()) return shared_->growth_refused.store(false, std::memory_order_relaxed);
  const std::uint64_t more_bytes = index_->growth_bytes(), bytes_after = index_->table_bytes() + more_bytes;
  if (more_bytes != 0 &&
      static_cast<double>(bytes_after) > index_share_max * static_cast<double>(budget_.limit_bytes())) {
    shared_->growth_refused.store(true, std::memory_order_relaxed);
    return;
  }
  for (std::uint64_t claim = 0; !stopping_.load(std::memory_order_relaxed);) {  // a table needs more than it adds
    if (index_->grow(maintenance_context_->epoch)) {
      shared_->growth_refused.store(false, std::memory_order_relaxed);
      index_growths_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    claim += index_->is_ordered() ? more_bytes : 0;
    if (index_->is_memory_refused() || !options_.evict || !free_pages(claim)) {
      shared_->growth_refused.store(true, std::memory_order_relaxed);
      return;
    }
  }
}

// Memory follows the traffic: for each page's worth of items that a class evicts, a page moves to it from the class
// of the items that live longest (Heap::pick_donor), a few at a time. Huge items count as a class.
void Engine::balance_classes() {
  const unsigned level = automove();
  const std::uint64_t moves_per_turn = level >= 2 ? 64 : 8;
  if (!options_.evict || !options_.reassign) return;
  std::uint64_t spare = 0;  // a huge item's pages beyond what a class needed: for the next classes
  for (std::uint32_t i = 0; i <= heap_->class_count() && !stopping_.load(std::memory_order_relaxed); ++i) {
    const auto c = i < heap_->class_count() ? static_cast<SizeClass>(i) : huge_class;
    const ClassStats s = heap_->class_stats(c);
    const std::uint64_t evicted = s.evictions - std::min(evictions_seen_[i], s.evictions);
    // Evictions while the level is 0 must not move pages later.
    const std::uint64_t slots = c == huge_class ? std::max<std::uint64_t>(heap_->huge_items(), 1) : s.slots_per_page;
    const std::uint64_t pages = evicted * (c == huge_class ? s.pages : 1) / slots;
    if (pages == 0 && level != 0) continue;
    evictions_seen_[i] = s.evictions;
    if (level == 0) continue;
    const std::uint64_t wanted = std::min(pages, moves_per_turn);
    std::uint64_t moved = std::min(spare, wanted);
    spare -= moved;
    while (moved < wanted) {
      const std::uint64_t had = task::move_page(*maintenance_context_, c, Heap::DonorRule::longer_life);
      if (had == 0) break;
      moved += had;
      pages_moved_.fetch_add(had, std::memory_order_relaxed);
    }
    spare += moved > wanted ? moved - wanted : 0;
  }
}

}  // namespace tandem
