// The heap's costs beside unavoidable ones, or the C library's for the same operation. `ratio` divides by the baseline
// that ran before in the same process: malloc for allocation, one read per slot for sweeps, a bitmap for free lists.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heap/heap.hpp"

namespace tandem {
namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;
constexpr std::uint64_t memory_bytes = 256 * mib;  // larger than the processor's caches
constexpr std::uint32_t strip = 128;               // operations under one lock and in one epoch

// ns per operation of the baselines, by name and argument.
using Case = std::pair<std::string, std::vector<std::int64_t>>;
std::map<Case, double>& baselines() {
  static std::map<Case, double> all;
  return all;
}
Case case_of(const benchmark::State& state, const char* name) {
  Case c{name, {state.range(0)}};
  if (c.first == "lists") c.second.push_back(state.range(1));
  return c;
}
// This thread's processor time: unlike wall time it is usable on a shared machine.
class Timer {
 public:
  double ns() const { return now_ns() - start_ns_; }

 private:
  static double now_ns() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
  }
  double start_ns_ = now_ns();
};
void baseline(benchmark::State& state, const char* name, double ns, double operations) {
  baselines()[case_of(state, name)] = ns / operations;
  state.SetItemsProcessed(static_cast<std::int64_t>(operations));
}
void compare(benchmark::State& state, const char* name, double ns, double operations) {
  const auto it = baselines().find(case_of(state, name));
  if (it != baselines().end()) state.counters["ratio"] = ns / operations / it->second;
  state.SetItemsProcessed(static_cast<std::int64_t>(operations));
}

struct Bench {
  Bench() : budget(memory_bytes), epochs(4), heap({}, budget, epochs), cache(heap), epoch(epochs) {}
  MemoryBudget budget;
  EpochDomain epochs;
  Heap heap;
  Heap::Cache cache;
  EpochDomain::Participant epoch;
};

constexpr std::string_view key = "key-8888";

// Overwrites of items of one size in a full heap: each gets a new slot, is written, and the old one is freed. The order
// is random, so the slots are cold.
void BM_malloc_write_free(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  std::vector<char*> live(memory_bytes / (bytes + 16) * 3 / 4);
  for (char*& p : live) p = static_cast<char*>(std::malloc(bytes));
  std::mt19937 random(1);
  const Timer timer;
  for (auto _ : state) {
    for (std::uint32_t i = 0; i < strip; ++i) {
      char* p = static_cast<char*>(std::malloc(bytes));
      std::memset(p, 1, 24);
      std::swap(p, live[random() % live.size()]);
      std::free(p);
    }
  }
  baseline(state, "malloc", timer.ns(), static_cast<double>(state.iterations()) * strip);
  for (char* p : live) std::free(p);
}

void BM_allocate_write_retire(benchmark::State& state) {
  const auto bytes = static_cast<std::uint64_t>(state.range(0));
  Bench b;
  const SizeClass c = b.heap.size_class(bytes);
  std::vector<Location> live(memory_bytes / b.heap.slot_bytes(c) * 3 / 4);
  const auto make = [&] {
    const Location l = b.heap.allocate(b.cache, c, bytes);
    Item* item = b.heap.format(l, key, 0, bytes - sizeof(Item) - key.size(), 0, 0, false);
    item->state_word.store(static_cast<std::uint64_t>(ItemState::live), std::memory_order_release);
    return l;
  };
  {
    const Heap::Cache::Lock lock(b.cache);
    for (Location& l : live) l = make();
  }
  std::mt19937 random(1);
  const Timer timer;
  for (auto _ : state) {
    b.epoch.enter();
    {
      const Heap::Cache::Lock lock(b.cache);
      for (std::uint32_t i = 0; i < strip; ++i) {
        Location l = make();
        std::swap(l, live[random() % live.size()]);
        b.heap.at(l)->state_word.store(static_cast<std::uint64_t>(ItemState::dead), std::memory_order_relaxed);
        b.heap.retire(b.cache, l);
      }
    }
    b.epoch.exit();
    const Heap::Cache::Lock lock(b.cache);
    b.heap.reclaim(b.cache);
  }
  compare(state, "malloc", timer.ns(), static_cast<double>(state.iterations()) * strip);
}

// An add that finds its key: the slot never leaves the worker.
void BM_allocate_release(benchmark::State& state) {
  Bench b;
  const auto bytes = static_cast<std::uint64_t>(state.range(0));
  const SizeClass c = b.heap.size_class(bytes);
  const Heap::Cache::Lock lock(b.cache);
  for (auto _ : state) {
    const Location l = b.heap.allocate(b.cache, c, bytes);
    benchmark::DoNotOptimize(l);
    b.heap.release(b.cache, l);
  }
  state.SetItemsProcessed(state.iterations());
}

// Fills the class and returns how many slots there are.
std::uint64_t fill(Bench& b, std::uint64_t bytes, bool accessed) {
  const Heap::Cache::Lock lock(b.cache);
  const SizeClass c = b.heap.size_class(bytes);
  std::uint64_t count = 0;
  for (Location l; (l = b.heap.allocate(b.cache, c, bytes)) != no_location; ++count) {
    const auto live = static_cast<std::uint64_t>(ItemState::live);
    b.heap.at(l)->state_word.store(accessed ? word::Accessed::put(live, 1) : live, std::memory_order_relaxed);
  }
  return count;
}

// The floor of a sweep: one word of every slot.
void BM_read_one_word_per_slot(benchmark::State& state) {
  Bench b;
  const auto bytes = static_cast<std::uint64_t>(state.range(0));
  fill(b, bytes, true);
  const std::uint32_t stride = b.heap.slot_bytes(b.heap.size_class(bytes));
  constexpr std::uint64_t window = 4096;
  std::uint64_t at = page_bytes;
  std::uint64_t sum = 0;
  double slots = 0;
  const Timer timer;
  for (auto _ : state) {
    for (std::uint64_t i = 0; i < window; ++i) {
      sum += b.heap.at(static_cast<Location>(at / granule_bytes))->state_word.load(std::memory_order_relaxed);
      at += stride;
      if (at + stride > (b.heap.page_end() - 1) * page_bytes) at = page_bytes;
    }
    slots += window;
  }
  benchmark::DoNotOptimize(sum);
  baseline(state, "read", timer.ns(), slots);
}

void BM_sweep_nothing_found(benchmark::State& state) {
  Bench b;
  const auto bytes = static_cast<std::uint64_t>(state.range(0));
  fill(b, bytes, true);
  const SizeClass c = b.heap.size_class(bytes);
  Location victims[64];
  constexpr std::size_t window = 4096;
  // All states are read and no bit has to be cleared: the first turn cleared them, and these are not live.
  for (PageId p = 1; p < b.heap.page_end(); ++p) {
    b.heap.visit_page(p, [](Location, Item* item) { item->state_word.store(3, std::memory_order_relaxed); });
  }
  double slots = 0;
  const Timer timer;
  for (auto _ : state) {
    benchmark::DoNotOptimize(b.heap.sweep(c, victims, window, nullptr, nullptr).found);
    slots += window;
  }
  compare(state, "read", timer.ns(), slots);
}

void BM_sweep_clearing(benchmark::State& state) {
  Bench b;
  const auto bytes = static_cast<std::uint64_t>(state.range(0));
  const std::uint64_t total = fill(b, bytes, true);
  const SizeClass c = b.heap.size_class(bytes);
  Location victims[64];
  const std::size_t window = 4096;
  double slots = 0;
  double ns = 0;
  std::uint64_t turn = 0;
  for (auto _ : state) {
    const Timer timer;
    benchmark::DoNotOptimize(b.heap.sweep(c, victims, window, nullptr, nullptr).found);
    ns += timer.ns();
    slots += static_cast<double>(window);
    turn += window;
    if (turn + window > total) {
      state.PauseTiming();
      for (PageId p = 1; p < b.heap.page_end(); ++p) {
        b.heap.visit_page(p, [](Location, Item* item) { item->state_word.fetch_or(word::Accessed::mask); });
      }
      turn = 0;
      state.ResumeTiming();
    }
  }
  compare(state, "read", ns, slots);
}

// Where to keep a page's free slots (docs/decisions/0003-heap.md). Of all slots of a class, the given per cent are
// freed in random order and taken again in chunks of 64, through the bitmap beside each page, or through a list per
// page with its links in the slots.
struct FreeSlots {
  explicit FreeSlots(benchmark::State& state)
      : budget(memory_bytes),
        pool(budget, true),
        sizes(1.25, granule_bytes, mib),
        c(sizes.of(static_cast<std::uint64_t>(state.range(0)))) {
    pages.init(pool.table(), sizes[c], c);
    for (PageId p = pool.take_page(); p != 0; p = pool.take_page()) pages.add_page(p, false);
    std::vector<Location> chunk(64);
    while (const std::uint32_t n = pages.take(chunk)) freed.insert(freed.end(), chunk.begin(), chunk.begin() + n);
    for (const Location l : freed) std::memset(static_cast<void*>(pool.table().item(l)), 1, sizeof(Item));  // resident
    std::shuffle(freed.begin(), freed.end(), std::mt19937(1));
    freed.resize(freed.size() * static_cast<std::size_t>(state.range(1)) / 100);
  }
  MemoryBudget budget;
  PagePool pool;
  SizeClasses sizes;
  SizeClass c;
  ClassPages pages;
  std::vector<Location> freed;
};

// As a worker does with new slots: writes their headers.
void write_headers(const PageTable& table, const Location* slots, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) table.item(slots[i])->state_word.store(1, std::memory_order_relaxed);
}

void BM_free_slots_in_lists(benchmark::State& state) {
  FreeSlots f(state);
  const PageTable& table = f.pool.table();
  std::vector<Location> heads(table.page_limit, no_location);
  std::mutex mutex;
  std::vector<Location> chunk(64);
  double slots = 0;
  double ns = 0;
  for (auto _ : state) {
    const Timer timer;
    for (std::size_t i = 0; i < f.freed.size(); i += 64) {
      const std::lock_guard lock(mutex);
      for (std::size_t k = i; k < std::min(i + 64, f.freed.size()); ++k) {
        Location& head = heads[page_of(f.freed[k])];
        table.item(f.freed[k])->set_fixed(std::exchange(head, f.freed[k]));
      }
    }
    for (PageId p = 1; p < table.page_limit;) {
      const std::lock_guard lock(mutex);
      std::size_t n = 0;
      while (n < 64 && p < table.page_limit) {
        if (heads[p] == no_location) {
          ++p;
          continue;
        }
        chunk[n++] = heads[p];
        heads[p] = static_cast<Location>(table.item(heads[p])->fixed());
      }
      write_headers(table, chunk.data(), n);
    }
    ns += timer.ns();
    slots += static_cast<double>(f.freed.size());
  }
  baseline(state, "lists", ns, slots);
}

void BM_free_slots_in_bitmaps(benchmark::State& state) {
  FreeSlots f(state);
  std::vector<Location> chunk(64);
  double slots = 0;
  double ns = 0;
  for (auto _ : state) {
    const Timer timer;
    for (std::size_t i = 0; i < f.freed.size(); i += 64) {
      f.pages.put({&f.freed[i], std::min<std::size_t>(64, f.freed.size() - i)});
    }
    while (const std::uint32_t n = f.pages.take(chunk)) write_headers(f.pool.table(), chunk.data(), n);
    ns += timer.ns();
    slots += static_cast<double>(f.freed.size());
  }
  compare(state, "lists", ns, slots);
}

// A whole page moves between classes: closed, found empty, zeroed, opened.
void BM_move_empty_page(benchmark::State& state) {
  Bench b;
  const SizeClass c[2] = {b.heap.size_class(32), b.heap.size_class(576)};
  const PageId page = [&] {
    const Heap::Cache::Lock lock(b.cache);
    const Location l = b.heap.allocate(b.cache, c[0], 32);
    b.heap.release(b.cache, l);
    return page_of(l);
  }();
  for (unsigned to = 1; auto _ : state) {
    b.heap.close_page(page);
    if (!b.heap.finish_page(page, c[to])) state.SkipWithError("the page was not empty");
    to = 1 - to;
  }
}

// A value of several pages: mostly the kernel's time to zero new memory.
void BM_huge_item(benchmark::State& state) {
  Bench b;
  const auto bytes = static_cast<std::uint64_t>(state.range(0));
  const Heap::Cache::Lock lock(b.cache);
  for (auto _ : state) {
    const Location l = b.heap.allocate(b.cache, huge_class, bytes);
    std::memset(b.heap.at(l)->bytes() + sizeof(Item), 1, bytes - sizeof(Item));
    b.heap.release(b.cache, l);
    b.heap.reclaim_all(b.cache);
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

BENCHMARK(BM_malloc_write_free)->Arg(32)->Arg(96)->Arg(560)->Arg(4096);
BENCHMARK(BM_allocate_write_retire)->Arg(32)->Arg(96)->Arg(560)->Arg(4096);
BENCHMARK(BM_allocate_release)->Arg(32)->Arg(560);
BENCHMARK(BM_read_one_word_per_slot)->Arg(32)->Arg(96)->Arg(560)->Arg(4096);
BENCHMARK(BM_sweep_nothing_found)->Arg(32)->Arg(96)->Arg(560)->Arg(4096);
BENCHMARK(BM_sweep_clearing)->Arg(32)->Arg(96)->Arg(560)->Arg(4096);
BENCHMARK(BM_free_slots_in_lists)->ArgsProduct({{32, 560}, {100, 20, 2}});
BENCHMARK(BM_free_slots_in_bitmaps)->ArgsProduct({{32, 560}, {100, 20, 2}});
BENCHMARK(BM_move_empty_page);
BENCHMARK(BM_huge_item)->Arg(4 * mib);

}  // namespace
}  // namespace tandem
