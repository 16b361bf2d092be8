// MemcachedGPU's figure 2: misses of the store's set-associative index, by the number of entries and of ways, beside a
// table with chaining and one LRU list.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.hpp"
#include "bench/papers/memcached_gpu.hpp"
#include "bench/workload/random.hpp"
#include "bench/workload/zipf.hpp"
#include "heap/cache.hpp"
#include "index/set_associative/set_index-inl.hpp"

namespace tandem::bench::memcached_gpu_paper {
namespace {

// Section 5.2: keys, requests of the trace, and the share of SETs among them. YCSB's skew.
constexpr std::uint64_t paper_keys = 10'000'000, paper_requests = 10'000'000;
constexpr std::uint64_t set_percent = 5;
constexpr double theta = 0.99;
constexpr std::uint32_t batch_requests = 512;  // section 5.3; a batch has one time stamp

struct Trace {
  std::uint64_t keys, requests, seed;

  // visit(key, is_set): first a SET of each key, then the requests. Popular keys lie anywhere among the keys.
  template <class Load, class Request>
  void run(Load load, Request request) const {
    for (std::uint64_t key = 0; key < keys; ++key) load(key);
    const workload::Zipf zipf(keys, theta);
    workload::Random random(seed);
    std::uint64_t step = 6'364'136'223 % keys;
    while (std::gcd(step, keys) != 1) ++step;
    for (std::uint64_t i = 0; i < requests; ++i) {
      const std::uint64_t key = zipf.draw(random) * step % keys;
      request(key, random.below(100) < set_percent);
    }
  }
};

struct Counts {
  std::uint64_t gets = 0, misses = 0, evictions = 0, entries = 0;
  double seconds = 0;
  double miss_percent() const { return 100 * static_cast<double>(misses) / static_cast<double>(gets); }
};

// The index over a heap, as the store has them, with items of a key of 8 bytes and nothing else.
template <unsigned Ways>
class SetCache {
 public:
  explicit SetCache(std::uint64_t entries)
      : budget_(entries * (sizeof(EntrySet<Ways>) / Ways + 2 * granule_bytes) + (std::uint64_t{64} << 20)),
        heap_({}, budget_, epochs_),
        index_({.cells_initial = entries, .hash_seed = hash_seed}, budget_, epochs_, heap_),
        epoch_(epochs_),
        cache_(heap_) {
    index_.stamps().give(clock_);
    epoch_.enter();
  }
  ~SetCache() { epoch_.exit(); }
  SetCache(const SetCache&) = delete;
  SetCache& operator=(const SetCache&) = delete;

  bool get(std::uint64_t number) {
    const Key key(number);
    Location l = no_location;
    index_.search_second(&key.f, index_.search_first(&key.f, 1, &l), &l);
    const Item* item = l != no_location ? heap_.at(l) : nullptr;
    if (item == nullptr || item->key() != key.text()) {
      ItemVersion seen;
      item = index_.find(key.f, key.text(), seen);
    }
    if (item != nullptr) index_.note_access(key.f, heap_.location_of(item), clock_.load(std::memory_order_relaxed));
    end_request();
    return item != nullptr;
  }
  void set(std::uint64_t number) {
    const Key key(number);
    Location slot = no_location;
    {
      const Heap::Cache::Lock lock(cache_);
      const std::uint64_t bytes = Item::total_bytes(0, sizeof number, 0);
      slot = heap_.allocate(cache_, heap_.size_class(bytes), bytes);
      TD_ASSERT(slot != no_location);
      heap_.format(slot, key.text(), 0, 0, 0, 0, false);
    }
    Location old = no_location;
    {
      auto guard = index_.lock(key.f);
      const Item* gone = guard.find(key.text());
      if (gone == nullptr && !guard.has_room()) {
        gone = guard.find_victim();
        TD_ASSERT(guard.erase());
      }
      if (gone != nullptr) old = heap_.location_of(gone);
      TD_ASSERT(guard.put(slot, static_cast<std::uint64_t>(ItemState::live)) == IndexPut::done);
    }
    if (old != no_location) {
      const Heap::Cache::Lock lock(cache_);
      heap_.retire(cache_, old);
    }
    end_request();
  }
  std::uint64_t evictions() const { return index_.evictions(); }
  std::uint64_t entries() const { return index_.cell_count(); }

 private:
  static constexpr std::uint64_t hash_seed = 1;
  struct Key {
    explicit Key(std::uint64_t number) : f{} {
      std::memcpy(bytes, &number, sizeof bytes);
      f = fingerprint_of(text(), hash_seed);
    }
    std::string_view text() const { return {bytes, sizeof bytes}; }
    char bytes[sizeof(std::uint64_t)];
    Fingerprint f;
  };
  void end_request() {
    if (++requests_ % batch_requests != 0) return;
    clock_.fetch_add(1, std::memory_order_relaxed);
    epoch_.exit();
    {
      const Heap::Cache::Lock lock(cache_);
      heap_.reclaim(cache_);
    }
    epoch_.enter();
  }

  EpochDomain epochs_{4};
  MemoryBudget budget_;
  Heap heap_;
  BasicSetIndex<Ways> index_;
  EpochDomain::Participant epoch_;
  Heap::Cache cache_;
  std::atomic<std::uint32_t> clock_{0};
  std::uint64_t requests_ = 0;
};

// What hash chaining keeps: every key that was stored, up to a number of them, then the least recently used one goes.
class ChainedCache {
 public:
  ChainedCache(std::uint64_t entries, std::uint64_t keys)
      : entries_(entries), links_(keys + 1, {none, none}), end_(static_cast<std::uint32_t>(keys)) {
    links_[end_] = {end_, end_};
  }
  bool get(std::uint64_t number) {
    const auto key = static_cast<std::uint32_t>(number);
    if (links_[key].before == none) return false;
    use(key);
    return true;
  }
  void set(std::uint64_t number) {
    const auto key = static_cast<std::uint32_t>(number);
    if (links_[key].before == none && count_++ == entries_) {
      --count_;
      ++evictions_;
      unlink(links_[end_].before);
    }
    use(key);
  }
  std::uint64_t evictions() const { return evictions_; }
  std::uint64_t entries() const { return entries_; }

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  struct Link {
    std::uint32_t before, after;
  };
  void unlink(std::uint32_t key) {
    Link& link = links_[key];
    links_[link.before].after = link.after;
    links_[link.after].before = link.before;
    link = {none, none};
  }
  void use(std::uint32_t key) {
    if (links_[key].before != none) unlink(key);
    links_[key] = {end_, links_[end_].after};
    links_[links_[end_].after].before = key;
    links_[end_].after = key;
  }

  const std::uint64_t entries_;
  std::vector<Link> links_;  // a ring from the most to the least recently used key, by way of end_
  const std::uint32_t end_;
  std::uint64_t count_ = 0, evictions_ = 0;
};

template <class Cache>
Counts play(const Trace& trace, Cache&& cache) {
  Counts counts;
  const auto start = std::chrono::steady_clock::now();
  trace.run([&](std::uint64_t key) { cache.set(key); },
            [&](std::uint64_t key, bool is_set) {
              if (is_set) return cache.set(key);
              ++counts.gets;
              if (!cache.get(key)) ++counts.misses;
            });
  counts.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  counts.evictions = cache.evictions();
  counts.entries = cache.entries();
  return counts;
}

// The paper's number of keys, or an eighth of it where that does not fit into free memory.
std::uint64_t keys_for(const PaperRun& run) {
  constexpr std::uint64_t quick_part = 100, small_part = 8, bytes_per_key = 200;
  if (run.options().quick) return paper_keys / quick_part;
  const auto free_bytes =
      static_cast<std::uint64_t>(sysconf(_SC_AVPHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return free_bytes >= paper_keys * bytes_per_key ? paper_keys : paper_keys / small_part;
}

constexpr std::array<std::uint64_t, 6> sizes_millions = {1, 2, 4, 6, 8, 10};

// One point for each size.
template <class MakeCounts>
std::vector<PaperRun::Point> points_of(PaperRun& run, const Trace& trace, const std::string& name,
                                       MakeCounts counts_of) {
  std::vector<PaperRun::Point> points;
  for (const std::uint64_t millions : sizes_millions) {
    run.say(fmt::format("{}, {} M entries", name, millions));
    const std::uint64_t entries = millions * trace.keys / 10;
    const Counts counts = counts_of(entries);
    const std::uint64_t requests = trace.keys + trace.requests;
    const double miss = counts.miss_percent();
    points.push_back({std::to_string(millions), {miss, miss, miss}, {run.run_count()}});
    run.document()["runs"].push_back(
        {{"kind", "memory"},
         {"cell", fmt::format("{} M entries", millions)},
         {"subject", name},
         {"round", 0},
         {"command", run.command()},
         {"seed", run.options().seed},
         {"settings", {{"threads", 1}, {"keys", trace.keys}, {"entries", counts.entries}, {"theta", theta}}},
         {"result",
          {{"seconds", counts.seconds},
           {"ops", requests},
           {"ops_per_s", static_cast<double>(requests) / counts.seconds},
           {"ns_per_op", counts.seconds * 1e9 / static_cast<double>(requests)},
           {"gets", counts.gets},
           {"misses", counts.misses},
           {"evictions", counts.evictions}}}});
  }
  return points;
}

// The least share of the hits of `all` that `some` has, in percent.
double least_share(const std::vector<PaperRun::Point>& some, const std::vector<PaperRun::Point>& all) {
  double least = 100;
  for (std::size_t i = 0; i < some.size(); ++i)
    least = std::min(least, 100 * (100 - some[i].y.median) / (100 - all[i].y.median));
  return least;
}

}  // namespace

void figure_2(PaperRun& run) {
  const std::uint64_t keys = keys_for(run);
  const Trace trace{keys, keys * (paper_requests / paper_keys), run.options().seed};
  run.axes("entries of the table (millions)", "GETs that miss", "%", true);
  if (keys != paper_keys)
    run.missing(fmt::format("the paper's 10 million keys: this ran with {} keys and as many parts of each size", keys));
  const auto draw = [&](const std::string& name, auto make) {
    return points_of(run, trace, name, [&](std::uint64_t entries) { return play(trace, make(entries)); });
  };
  run.measured("1 way", draw("1 way", [](std::uint64_t entries) { return SetCache<1>(entries); }));
  run.measured("2 ways", draw("2 ways", [](std::uint64_t entries) { return SetCache<2>(entries); }));
  run.measured("4 ways", draw("4 ways", [](std::uint64_t entries) { return SetCache<4>(entries); }));
  run.measured("8 ways", draw("8 ways", [](std::uint64_t entries) { return SetCache<8>(entries); }));
  const auto sets = draw("16 ways", [](std::uint64_t entries) { return SetCache<16>(entries); });
  const auto chains = draw("chaining", [&](std::uint64_t entries) { return ChainedCache(entries, trace.keys); });
  run.measured("16 ways", sets,
               fmt::format("at least {:.1f} % of chaining's hits at every size; the paper, section 5.2: 95.4 %",
                           least_share(sets, chains)));
  run.measured("chaining", chains, "a list of all keys by their last use");
  run.given("paper: 1 way", "section 5.2, text", {{"8", 21.2}});
  run.given("paper: 16 ways", "section 5.2, text", {{"8", 10.4}});
  run.given("paper: chaining", "section 5.2, text", {{"10", 0}});
  run.not_given("paper: 2 to 8 ways, and other sizes", "figure 2, a plot");
}

}  // namespace tandem::bench::memcached_gpu_paper
