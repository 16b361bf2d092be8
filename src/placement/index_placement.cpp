#include "placement/index_placement.hpp"

#include <algorithm>

namespace tandem {
namespace {

constexpr double device_load_max = 0.95;

}  // namespace

void IndexPlacement::retire(Heap::Cache& cache, std::span<const Location> displaced) noexcept {
  if (!is_here()) return;
  const Heap::Cache::Lock lock(cache);
  for (const Location l : displaced) heap_.retire(cache, l);
}

void IndexPlacement::reclaim_changes(Heap::Cache& cache, Overlay::Reclaim whose) noexcept {
  if (!can_search()) return;
  for (const auto& overlay : overlays_) overlay->reclaim(heap_, cache, index_->stripes(), whose);
}

bool IndexPlacement::has_unretired() const noexcept {
  return !is_here() && std::ranges::any_of(overlays_, [](const auto& overlay) { return overlay->has_unretired(); });
}

void IndexPlacement::move_to_devices(std::vector<std::unique_ptr<Overlay>> overlays, std::uint64_t cells) {
  TD_ASSERT(is_here() && index_ != nullptr && overlays.size() == std::size_t{1} << index_->shard_bits());
  overlays_ = std::move(overlays);
  cells_ = cells;
  bool all = true;
  index_->for_each_to_move([](Fingerprint, Location) {},
                           [&](Fingerprint f, Location l) {
                             all = all && overlay_of(f).has_room();
                             if (all) overlay_of(f).put(f, no_location, l, Overlay::none, true);
                           });
  try {
    if (!all) throw std::bad_alloc();
    index_->move_out(*this);
  } catch (const std::bad_alloc&) {
    overlays_.clear();
    throw;
  }
  place_.store(Place::device, std::memory_order_seq_cst);
}

void IndexPlacement::leave() noexcept {
  Place expected = Place::device;
  place_.compare_exchange_strong(expected, Place::leaving, std::memory_order_seq_cst);
}

void IndexPlacement::bring_back(Heap::Cache& cache, unsigned threads) noexcept {
  TD_ASSERT(is_closed());
  index_->wait_for_batches();
  for (const auto& overlay : overlays_) overlay->retire_all(heap_, cache);
  index_->rebuild(cache, threads);
  device_full_.store(false, std::memory_order_relaxed);
  place_.store(Place::host, std::memory_order_seq_cst);
}

void IndexPlacement::watch_load() noexcept {
  const bool full = static_cast<double>(index_->item_count()) >= device_load_max * static_cast<double>(cells_);
  if (full != is_full()) device_full_.store(full, std::memory_order_relaxed);
}

std::uint64_t IndexPlacement::bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const auto& overlay : overlays_) bytes += overlay->bytes();
  return bytes;
}

}  // namespace tandem
