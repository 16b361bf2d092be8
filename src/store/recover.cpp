#include "store/recover.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdio>
#include <system_error>
#include <thread>
#include <vector>

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

// Runs work(page) for all pages on `threads` threads. The calling thread is one of them and reports the progress.
template <class Worker>
void for_all_pages(PageId end, unsigned threads, const std::function<void(double share)>& tell, Worker make_worker) {
  constexpr auto between_words = std::chrono::seconds(1);
  std::atomic<PageId> next{1};
  const auto run = [&](bool tells) {
    auto work = make_worker();
    auto told = Steady::now();
    for (PageId first = 0; (first = next.fetch_add(chunk_pages, std::memory_order_relaxed)) < end;) {
      for (PageId p = first; p < std::min(first + chunk_pages, end); ++p) work(p);
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

// Cells for the items at a load below growth, or as many as the limit has room for.
std::uint64_t cells_for(const HeapRecovery& found, const IndexOptions& options, const MemoryBudget& budget) {
  constexpr std::uint64_t cell_bytes = sizeof(std::uint64_t);
  // A small table's shards are too uneven for that load.
  const std::uint64_t cells_min = options.shard_bits == 0 ? 64 : 1 << 16;
  const auto fit = [&](std::uint64_t items) {
    const auto cells = static_cast<std::uint64_t>(static_cast<double>(items) / options.load_grow) + 1;
    return std::bit_ceil(std::max(cells, cells_min));
  };
  std::uint64_t items = found.items_found();
  const std::uint64_t limit = budget.limit_bytes();
  const std::uint64_t total = found.bytes_found() + fit(items) * cell_bytes;
  if (total > limit) {
    const double share = static_cast<double>(limit) / static_cast<double>(total);
    items = static_cast<std::uint64_t>(share * static_cast<double>(items));
  }
  const std::uint64_t most = std::bit_floor(std::max<std::uint64_t>(limit / index_share / cell_bytes, 64));
  const std::uint64_t least = std::min(fit(items), most);
  const bool has_room = found.bytes_found() + options.cells_initial * cell_bytes <= limit;
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
  for_all_pages(recovery.page_end(), threads, teller("reading the memory file:"),
                [&] { return [&](PageId p) { recovery.scan(p); }; });

  // The process before had a table of the same size, in which all items had room.
  if (options.kind->fixed_entry_bytes == 0) index_options.cells_initial = cells_for(recovery, index_options, budget);
  index = options.kind->make(index_options, budget, epochs, heap);
  // The order grows while items are put into it. What it will need is not given to pages, so that the oldest pages go,
  // and not what happens to come last.
  constexpr std::uint64_t order_bytes = 34;  // of an item, of keys in a random order (docs/sizing.md)
  const std::uint64_t order =
      index->is_ordered() ? std::min(recovery.items_found() * order_bytes, budget.limit_bytes() / 2) : 0;
  const bool has_claimed = budget.claim(order);
  recovery.choose();
  if (has_claimed) budget.give_back(order);
  for_all_pages(recovery.page_end(), threads, teller("indexing the items of the memory file:"), [&] {
    auto indexer = options.kind->make_indexer(recovery, *index, epochs, index_options.hash_seed);
    return [indexer = std::move(indexer)](PageId p) { (*indexer)(p); };
  });
  recovery.finish();

  const HeapRecovery::Dropped dropped = recovery.dropped();
  return {.items = index->item_count(),
          .expired = dropped.expired,
          .damaged = dropped.damaged,
          .no_room = dropped.no_room,
          .seconds = seconds_since(start)};
}

}  // namespace tandem
