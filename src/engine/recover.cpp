#include "engine/recover.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdio>
#include <memory>
#include <span>
#include <system_error>
#include <thread>
#include <vector>

#include "engine/key_order.hpp"

namespace tandem {
namespace {

using Steady = std::chrono::steady_clock;
constexpr PageId chunk_pages = 4;  // claimed by a thread at once
constexpr unsigned threads_max = 16;
// The index's share of the memory limit, as 1 / index_share (as when it grows).
constexpr std::uint64_t index_share = 2;

double seconds_since(Steady::time_point start) { return std::chrono::duration<double>(Steady::now() - start).count(); }

unsigned thread_count(unsigned wanted, PageId pages) {
  if (wanted == 0) wanted = std::min(std::max(std::thread::hardware_concurrency(), 1u), threads_max);
  return std::clamp(wanted, 1u, std::max(pages / chunk_pages, 1u));
}

// Runs work(n) for all numbers of a range on `threads` threads, `chunk` at once. The calling thread is one of them and
// reports the progress.
template <class Worker>
void for_all(std::uint32_t begin, std::uint32_t end, std::uint32_t chunk, unsigned threads,
             const std::function<void(double share)>& tell, Worker make_worker) {
  constexpr auto between_words = std::chrono::seconds(1);
  std::atomic<std::uint32_t> next{begin};
  const auto run = [&](bool tells) {
    auto work = make_worker();
    auto told = Steady::now();
    for (std::uint32_t first = 0; (first = next.fetch_add(chunk, std::memory_order_relaxed)) < end;) {
      for (std::uint32_t p = first; p < std::min(first + chunk, end); ++p) work(p);
      if (tells && tell && Steady::now() - told > between_words) {
        told = Steady::now();
        tell(static_cast<double>(first) / static_cast<double>(end));
      }
    }
  };
  std::vector<std::jthread> others;
  for (bool more = true; more && others.size() + 1 < threads;) {
    try {
      others.emplace_back([&] { run(false); });
    } catch (const std::exception&) {
      more = false;  // continue with the threads that started
    }
  }
  run(true);
}

// False: there is no memory for it.
bool sort_by_key(KeyOrder& order, const HeapRecovery& found, unsigned threads) {
  for_all(1, found.page_end(), chunk_pages, threads, nullptr, [&] { return [&](PageId p) { order.sample(p); }; });
  if (!order.cut()) return false;
  for_all(1, found.page_end(), chunk_pages, threads, nullptr,
          [&] { return [collector = std::make_unique<KeyOrder::Collector>(order)](PageId p) { (*collector)(p); }; });
  return !order.has_failed();
}

// Cells for the items at a load below growth, or as many as the limit has room for.
std::uint64_t cells_for(const HeapRecovery& found, const IndexOptions& options, std::uint64_t order_bytes,
                        const MemoryBudget& budget, std::uint64_t cell_bytes) {
  constexpr double load_max = 0.95;  // up to which displacement finds room
  // A small table's shards are too uneven for that load.
  const std::uint64_t cells_min = options.shard_bits == 0 ? 64 : 1 << 16;
  const auto fit = [&](std::uint64_t items) {
    const auto cells = static_cast<std::uint64_t>(static_cast<double>(items) / options.load_grow) + 1;
    return std::bit_ceil(std::max(cells, cells_min));
  };
  std::uint64_t items = found.items_found();
  const std::uint64_t limit = budget.limit_bytes();
  const std::uint64_t heap = found.bytes_found() + order_bytes;
  // Half of that may have been all that the order left room for.
  const double load_of_half = 2 * static_cast<double>(items) / static_cast<double>(fit(items));
  if (order_bytes != 0 && heap + fit(items) * cell_bytes > limit && load_of_half <= load_max &&
      fit(items) / 2 >= cells_min)
    return fit(items) / 2;
  const std::uint64_t total = heap + fit(items) * cell_bytes;
  if (total > limit) {
    const double share = static_cast<double>(limit) / static_cast<double>(total);
    items = static_cast<std::uint64_t>(share * static_cast<double>(items));
  }
  const std::uint64_t most = std::bit_floor(std::max<std::uint64_t>(limit / index_share / cell_bytes, 64));
  const std::uint64_t least = std::min(fit(items), most);
  const bool has_room = heap + options.cells_initial * cell_bytes <= limit;
  return has_room ? std::max(least, options.cells_initial) : least;
}

}  // namespace

std::string describe(const RestartReport& r) {
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.3f", r.seconds);
  std::string text = std::to_string(r.items) + " items in " + seconds + " s";
  if (r.was_killed) text += "; the process before was killed";
  if (r.expired != 0) text += "; " + std::to_string(r.expired) + " expired or flushed";
  if (r.no_room != 0) text += "; " + std::to_string(r.no_room) + " dropped, the memory limit has no room for them";
  if (r.damaged != 0) text += "; " + std::to_string(r.damaged) + " damaged and dropped";
  return text;
}

RestartReport recover(Heap& heap, std::unique_ptr<Index>& index, IndexOptions index_options, MemoryBudget& budget,
                      EpochDomain& epochs, const RecoverOptions& options) {
  const auto start = Steady::now();
  HeapRecovery recovery(heap, options.rules);
  const unsigned threads = thread_count(options.threads, recovery.page_end());
  const auto teller = [&](std::string_view what) -> std::function<void(double)> {
    if (!options.log) return nullptr;
    return [&options, what](double share) {
      options.log(std::string(what) + " " + std::to_string(static_cast<int>(100 * share)) + " %");
    };
  };
  for_all(1, recovery.page_end(), chunk_pages, threads, teller("reading the memory file:"),
          [&] { return [&](PageId p) { recovery.scan(p); }; });

  // The order grows while items are put into it. What it will need is not given to pages, so that the oldest pages go,
  // and not what happens to come last.
  // Of ten items with ascending keys (docs/sizing.md).
  const std::uint64_t order_bytes_of_ten = options.kind->is_always_ordered ? 250 : 110;
  const bool is_ordered = index_options.ordered || options.kind->is_always_ordered;
  const std::uint64_t order =
      is_ordered ? std::min(recovery.items_found() * order_bytes_of_ten / 10, budget.limit_bytes() / 2) : 0;
  // The process before had a table of the same size, in which all items had room.
  if (options.kind->fixed_entry_bytes == 0)
    index_options.cells_initial = cells_for(recovery, index_options, order, budget, options.kind->cell_bytes);
  index = options.kind->make(index_options, budget, epochs, heap);
  const bool has_claimed = budget.claim(order);
  recovery.choose();
  if (has_claimed) budget.give_back(order);
  const auto make_indexer = [&] {
    return options.kind->make_indexer(recovery, *index, epochs, index_options.hash_seed);
  };
  const auto indexing = teller("indexing the items of the memory file:");
  KeyOrder by_key(recovery);
  if (index->is_ordered() && sort_by_key(by_key, recovery, threads)) {
    // Threads in neighbouring parts would wait for each other's leaves, and those in one leaf would leave half-full
    // ones behind.
    for (std::size_t block = 1; block < threads; ++block) {
      const std::size_t first = by_key.parts() * block / threads;
      if (first != 0) index->cut_order(by_key.low(first));
    }
    for_all(0, threads, 1, threads, indexing, [&] {
      return [&, indexer = make_indexer()](std::uint32_t block) {
        for (std::size_t part = by_key.parts() * block / threads; part < by_key.parts() * (block + 1) / threads; ++part)
          by_key.take(part, [&](std::span<const Location> items) { (*indexer)(items); });
      };
    });
  } else {
    for_all(1, recovery.page_end(), chunk_pages, threads, indexing,
            [&] { return [indexer = make_indexer()](PageId p) { (*indexer)(p); }; });
  }
  recovery.finish();
  static_cast<void>(index->take_unpaid_leaves());  // what is left of the limit is for the leaves to come

  const HeapRecovery::Dropped dropped = recovery.dropped();
  return {.items = index->item_count(),
          .expired = dropped.expired,
          .damaged = dropped.damaged,
          .no_room = dropped.no_room,
          .seconds = seconds_since(start)};
}

}  // namespace tandem
