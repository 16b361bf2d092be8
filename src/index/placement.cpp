// Placement `device`: the table leaves the host, and comes back from the heap if a device is lost.
//
// Coming back: leave_device() closes the door, rebuild() waits for all batches that came in before. Those still work
// over the overlay, and what they write is in the heap. Behind the door nobody reads or writes, so what the heap's live
// items say is the index.
#include <algorithm>
#include <bit>
#include <thread>
#include <vector>

#include "index/index.hpp"

namespace tandem {
namespace {

// Beside a table of the host's: while the device has the index only what must have an address.
constexpr std::uint64_t table_buckets_min = 4096 / sizeof(Bucket);
constexpr double rebuilt_load = 0.75;
constexpr double device_load_max = 0.95;

}  // namespace

void Index::enter_device(std::vector<std::unique_ptr<Overlay>> overlays, std::uint64_t cells) {
  TD_ASSERT(place() == Place::host && options_.log == nullptr &&
            overlays.size() == std::size_t{1} << options_.shard_bits);
  std::unique_ptr<Table> rest =
      Table::make(table_buckets_min, table_->serial() + 1, false, budget_, options_.shard_bits);
  if (!rest) throw std::bad_alloc();
  overlays_ = std::move(overlays);
  device_cells_ = cells;
  bool all = true;
  for_each_to_move([](Fingerprint, Location) {},
                   [&](Fingerprint f, Location l) {
                     all = all && overlay_of(f).has_room();
                     if (all) overlay_of(f).put(f, no_location, l, Overlay::none, true);
                   });
  if (!all) throw std::bad_alloc();
  publish({rest.get(), nullptr, rest.get()});
  table_bytes_.store(rest->bytes(), std::memory_order_relaxed);
  table_ = std::move(rest);
  place_.store(Place::device, std::memory_order_seq_cst);
}

void Index::leave_device() noexcept {
  Place expected = Place::device;
  place_.compare_exchange_strong(expected, Place::leaving, std::memory_order_seq_cst);
}

void Index::watch_device_load() noexcept {
  const bool full = static_cast<double>(item_count()) >= device_load_max * static_cast<double>(device_cells_);
  if (full != is_device_full()) device_full_.store(full, std::memory_order_relaxed);
}

void Index::settle_changes(Heap::Cache& cache, Overlay::Settle whose) noexcept {
  if (place() != Place::device) return;
  for (const auto& overlay : overlays_) overlay->settle(heap_, cache, stripes_, whose);
}

bool Index::has_unretired() const noexcept {
  return on_device() && std::ranges::any_of(overlays_, [](const auto& overlay) { return overlay->has_unretired(); });
}

// A hit stands, as of find(): there is one live item of the key at most. A miss stands if nothing was changed under the
// stripe while the records were looked at.
Item* Index::find_over_device(Fingerprint f, std::string_view key, ItemVersion& seen,
                              Location candidate) const noexcept {
  if (candidate != no_location && is_live_item_of(heap_.at(candidate), key, seen)) return heap_.at(candidate);
  const Stripe& stripe = stripes_.of(f.signature);
  for (SpinWait waiting;; waiting.once()) {
    const StripeWord before{stripe.load(std::memory_order_acquire)};
    if (Item* const item = overlay_of(f).find(f, key, heap_, seen)) return item;
    std::atomic_thread_fence(std::memory_order_acquire);
    if (!before.locked() && stripe.load(std::memory_order_relaxed) == before.bits) return nullptr;
  }
}

void Index::rebuild(Heap::Cache& cache, unsigned threads) noexcept {
  TD_ASSERT(place() == Place::leaving);
  epochs_.synchronize();
  for (const auto& overlay : overlays_) overlay->retire_all(heap_, cache);

  const auto cells = static_cast<std::uint64_t>(static_cast<double>(item_count()) / rebuilt_load) + 1;
  std::uint64_t buckets =
      std::clamp(std::bit_ceil((cells + bucket_cells - 1) / bucket_cells), table_buckets_min, Table::buckets_max);
  std::unique_ptr<Table> made;
  while (
      !(made = Table::make(buckets, table_->serial() + 1, options_.huge_pages, budget_, options_.shard_bits, true)) &&
      buckets > table_buckets_min) {
    buckets /= 2;
  }
  Table& table = made ? *made : *table_;

  const PageId end = heap_.page_end();
  std::atomic<PageId> next{1};
  std::atomic<std::int64_t> dropped{0};
  const auto insert_pages = [&] {
    for (PageId page; (page = next.fetch_add(1, std::memory_order_relaxed)) < end;) {
      heap_.for_each_live(page, [&](Location l) {
        Item* const item = heap_.at(l);
        if (ops_.insert(table.view(), options_.fingerprint(item->key(), options_.hash_seed), l)) return;
        item->state_word.fetch_or(word::State::put(0, static_cast<std::uint64_t>(ItemState::dead)),
                                  std::memory_order_release);
        dropped.fetch_add(1, std::memory_order_relaxed);
        const Heap::Cache::Lock lock(cache);
        heap_.retire(cache, l);
      });
    }
  };
  std::vector<std::thread> others;
  for (bool more = true; more && others.size() + 1 < threads;) {
    try {
      others.emplace_back(insert_pages);
    } catch (const std::exception&) {
      more = false;  // then with those there are
    }
  }
  insert_pages();
  for (std::thread& t : others) t.join();

  count(-dropped.load());
  publish({&table, nullptr, &table});
  table_bytes_.store(table.bytes(), std::memory_order_relaxed);
  // A prefetch may still use the one before; nobody else does.
  if (made) table_.swap(made);
  place_.store(Place::host, std::memory_order_seq_cst);
}

}  // namespace tandem
