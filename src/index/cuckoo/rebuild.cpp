// Moves a table off the host, and rebuilds it from the heap (Elsewhere).
#include <algorithm>
#include <bit>
#include <thread>
#include <vector>

#include "index/cuckoo/cuckoo_index.hpp"

namespace tandem {
namespace {

// The host's placeholder while the table is elsewhere: the smallest that has an address.
constexpr std::uint64_t table_buckets_min = 4096 / sizeof(Bucket);
constexpr double rebuilt_load = 0.75;

}  // namespace

void CuckooIndex::move_out(Elsewhere& to) {
  TD_ASSERT(elsewhere() == nullptr && options_.log == nullptr);
  std::unique_ptr<Table> rest =
      Table::make(table_buckets_min, table_->serial() + 1, false, budget_, options_.shard_bits);
  if (!rest) throw std::bad_alloc();
  publish({rest.get(), nullptr, rest.get()});
  table_bytes_.store(rest->bytes(), std::memory_order_relaxed);
  table_ = std::move(rest);
  elsewhere_.store(&to, std::memory_order_seq_cst);
}

void CuckooIndex::wait_for_batches() noexcept { epochs_.synchronize(); }

void CuckooIndex::rebuild(Heap::Cache& cache, unsigned threads) noexcept {
  TD_ASSERT(elsewhere() != nullptr);
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
      more = false;  // continue with the threads that started
    }
  }
  insert_pages();
  for (std::thread& t : others) t.join();

  count(-dropped.load());
  publish({&table, nullptr, &table});
  table_bytes_.store(table.bytes(), std::memory_order_relaxed);
  // Only a prefetch may still use the previous one.
  if (made) table_.swap(made);
  elsewhere_.store(nullptr, std::memory_order_seq_cst);
}

}  // namespace tandem
