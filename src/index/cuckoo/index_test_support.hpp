// For the tests of the index: a heap and an index, and a worker's operations on them. Values are numbers, keys are
// short texts.
#pragma once
#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.hpp"
#include "base/racing_copy.hpp"
#include "heap/cache.hpp"
#include "index/cuckoo/cuckoo_check.hpp"
#include "index/cuckoo/cuckoo_index.hpp"
#include "index/index_kind.hpp"
#include "index/worker_batch_of_test.hpp"

namespace tandem {

#if defined(TANDEM_SANITIZED)
inline constexpr int effort = 1;
#else
inline constexpr int effort = 10;
#endif

inline std::string key_of(std::uint64_t n) { return "key:" + std::to_string(n); }

inline Fingerprint plain_fingerprint(std::string_view key, std::uint64_t seed) { return fingerprint_of(key, seed); }
// Few signatures with the normal bucket hash: several keys of one signature in most pairs of buckets of a small table.
template <std::uint32_t Signatures>
Fingerprint few_signatures(std::string_view key, std::uint64_t seed) {
  const Fingerprint f = fingerprint_of(key, seed);
  return {static_cast<std::uint32_t>(mix_bits(f.signature % Signatures + 7)) | 1u, f.hash};
}

struct TestStoreOptions {
  std::uint64_t cells = 1 << 12;
  std::uint64_t memory_bytes = std::uint64_t{256} << 20;
  double load_grow = 0.9;
  Fingerprint (*fingerprint)(std::string_view, std::uint64_t) = plain_fingerprint;
  std::string_view lanes = {};
  ChangeLog* log = nullptr;
  std::uint32_t shard_bits = 0;
  bool ordered = false;
};

// With an index of kind I.
template <IndexKind I>
class BasicTestStore {
 public:
  using Options = TestStoreOptions;
  static constexpr std::uint64_t hash_seed = 99;
  explicit BasicTestStore(const Options& options = {})
      : options_(options),
        epochs(32),
        budget(options.memory_bytes),
        heap({}, budget, epochs),
        index({.cells_initial = options.cells,
               .hash_seed = hash_seed,
               .load_grow = options.load_grow,
               .huge_pages = false,
               .lanes = options.lanes,
               .log = options.log,
               .ordered = options.ordered,
               .shard_bits = options.shard_bits,
               .fingerprint = options.fingerprint},
              budget, epochs, heap) {}

  Fingerprint fingerprint(std::string_view key) const { return options_.fingerprint(key, hash_seed); }

  // Every key of the index with its value. Sets `problem` if a key or a location occurs twice, or a cell's item is not
  // live. REQUIRES: no writer is active, and no growth is unfinished.
  std::map<std::string, std::uint64_t> scan(std::string& problem) {
    std::map<std::string, std::uint64_t> all;
    index.for_each_location([&](Location l) {
      const Item* item = heap.at(l);
      std::uint64_t value = 0;
      std::memcpy(&value, item->value(), sizeof value);
      const std::string key(item->key());
      if (Item::state_of(item->state_acquire()) != ItemState::live) problem = key + " is not live";
      if (!all.emplace(key, value).second) problem = key + " is in the table twice";
    });
    if constexpr (requires { index.for_each_cell([](const Table&, std::uint64_t, Cell) {}); }) {
      index.for_each_cell([&](const Table&, std::uint64_t, Cell c) {
        const std::string_view key = heap.at(c.location())->key();
        if (c.signature() != fingerprint(key).signature) problem = std::string(key) + " lies under another signature";
      });
    }
    if (all.size() != index.item_count()) problem = "item_count() is " + std::to_string(index.item_count());
    return all;
  }
  // The same as scan()'s problem, or that these are not its keys and values; empty: neither.
  std::string difference_from(const std::map<std::string, std::uint64_t>& values) {
    std::string problem;
    if (scan(problem) != values && problem.empty()) problem = "the table's keys are not the model's";
    return problem;
  }

 private:
  Options options_;

 public:
  EpochDomain epochs;
  MemoryBudget budget;
  Heap heap;
  I index;
};
using TestStore = BasicTestStore<CuckooIndex>;

// One worker, one thread at a time. Each operation is a batch of its own unless the caller holds a Batch.
template <IndexKind I>
class BasicTestWorker {
 public:
  explicit BasicTestWorker(BasicTestStore<I>& s) : store(s), epoch(s.epochs), cache(s.heap) {}

  using Batch = WorkerBatch<BasicTestWorker>;

  enum class Outcome { done, refused, no_room };

  // Sets, or adds when `only_absent`. no_room: make_room() found none.
  Outcome set(const std::string& key, std::uint64_t value, bool only_absent = false) {
    const Batch batch(*this);
    const Fingerprint f = store.fingerprint(key);
    const Location l = allocate(key, value);
    for (;;) {
      Location old = no_location;
      typename I::Put put;
      {
        typename I::Guard guard = store.index.lock(f);
        Item* const found = guard.find(std::string_view(key));
        if (found != nullptr && only_absent) break;
        if (found != nullptr) old = store.heap.location_of(found);
        put = guard.put(l, live);
      }
      if (put == I::Put::done) {
        retire(old);
        return Outcome::done;
      }
      ++rooms;
      if (!store.index.make_room(f, key)) {
        release(l);
        return Outcome::no_room;
      }
    }
    release(l);
    return Outcome::refused;
  }

  bool erase(const std::string& key) {
    const Batch batch(*this);
    Location old = no_location;
    {
      typename I::Guard guard = store.index.lock(store.fingerprint(key));
      Item* const found = guard.find(std::string_view(key));
      if (found == nullptr) return false;
      old = store.heap.location_of(found);
      TD_ASSERT(guard.erase());
    }
    retire(old);
    return true;
  }

  // Changes the key's item in place.
  bool touch(const std::string& key, std::uint32_t expiry_s) {
    const Batch batch(*this);
    typename I::Guard guard = store.index.lock(store.fingerprint(key));
    if (guard.find(std::string_view(key)) == nullptr) return false;
    return guard.update_state(word::ExpiryS::mask, word::ExpiryS::put(0, expiry_s));
  }

  // Replaces the value of the key's item in place, as a set does: by next(value). False: it is absent.
  template <class Next>
    requires AnnouncingGuard<typename I::Guard>
  bool rewrite(const std::string& key, Next next) {
    const Batch batch(*this);
    typename I::Guard guard = store.index.lock(store.fingerprint(key));
    Item* const item = guard.find(std::string_view(key));
    if (item == nullptr) return false;
    return guard.rewrite_item([&](const ImageSlot& slot) noexcept {
      ItemVersion seen = guard.version();
      TD_ASSERT(lock_item(item, seen));  // no other holder of the stripe rewrites it
      fence_release();
      const std::uint64_t fixed = word::CasLow::put(seen.fixed, word::CasLow::get(seen.fixed) + 1);
      item->fixed_word.store(fixed, std::memory_order_relaxed);
      std::uint64_t value = 0;
      std::memcpy(&value, item->value(), sizeof value);
      value = next(value);
      racing_copy(item->value(), reinterpret_cast<const char*>(&value), sizeof value);
      const std::uint64_t state = word::ExpiryS::put(seen.state, 0);
      if (slot.granules != nullptr) slot.publish(item, state, fixed);
      unlock_item(item, state);
      return true;
    });
  }

  // Adds 1 to the value; an absent key becomes 1. False: no room in a long time.
  bool increment(const std::string& key) {
    const Fingerprint f = store.fingerprint(key);
    for (int tries = 0; tries < 100'000; ++tries) {
      const Batch batch(*this);
      const Location l = allocate(key, 0);
      Location old = no_location;
      typename I::Put put;
      {
        typename I::Guard guard = store.index.lock(f);
        std::uint64_t value = 0;
        if (const Item* const found = guard.find(std::string_view(key))) {
          old = store.heap.location_of(found);
          std::memcpy(&value, found->value(), sizeof value);
        }
        ++value;
        std::memcpy(store.heap.at(l)->value(), &value, sizeof value);
        put = guard.put(l, live);
      }
      if (put == I::Put::done) {
        retire(old);
        return true;
      }
      release(l);
      store.index.make_room(f, key);
    }
    return false;
  }

  // Evicts by location, as CLOCK's callers do; returns the evicted key.
  std::optional<std::string> evict(Location l) {
    const Batch batch(*this);
    const Item* const seen = store.heap.at(l);
    if (Item::state_of(seen->state_acquire()) != ItemState::live) return std::nullopt;
    std::string key(seen->key());
    {
      typename I::Guard guard = store.index.lock(store.fingerprint(key));
      if (guard.find(l) == nullptr || !guard.erase()) return std::nullopt;
    }
    retire(l);
    return key;
  }

  // A GET: strip search, key comparison, and find() when that gave nothing.
  std::optional<std::uint64_t> get(const std::string& key) {
    const Batch batch(*this);
    const Fingerprint f = store.fingerprint(key);
    Location l = no_location;
    store.index.prefetcher()(f);
    store.index.search_second(&f, store.index.search_first(&f, 1, &l), &l);
    const Item* item = nullptr;
    if (l != no_location) {
      const Item* const candidate = store.heap.at(l);
      if (Item::state_of(candidate->state_acquire()) == ItemState::live && candidate->key() == key) item = candidate;
    }
    if (item == nullptr) {
      ++second_looks;
      ItemVersion version;
      item = store.index.find(f, key, version);
    }
    if (item == nullptr) return std::nullopt;
    std::uint64_t value = 0;
    std::memcpy(&value, item->value(), sizeof value);
    return value;
  }

  bool grow() { return store.index.grow(epoch); }

  static constexpr std::uint64_t live = word::State::put(0, static_cast<std::uint64_t>(ItemState::live));

  BasicTestStore<I>& store;
  EpochDomain::Participant epoch;
  Heap::Cache cache;
  std::uint64_t rooms = 0, second_looks = 0;

 private:
  friend Batch;
  Location allocate(const std::string& key, std::uint64_t value) {
    const std::uint64_t bytes = Item::total_bytes(0, key.size(), sizeof value);
    const Heap::Cache::Lock lock(cache);
    const Location l = store.heap.allocate(cache, store.heap.size_class(bytes), bytes);
    TD_ASSERT(l != no_location);
    Item* const item = store.heap.format(l, key, 0, sizeof value, 0, 0, false);
    // Of one key's ids the order counts, of two items in one slot any.
    item->set_fixed(word::CasLow::put(item->fixed(), mix_bits(value) % 4 * 1000));
    std::memcpy(item->value(), &value, sizeof value);
    return l;
  }
  void release(Location l) {
    const Heap::Cache::Lock lock(cache);
    store.heap.release(cache, l);
  }
  void retire(Location l) {
    if (l == no_location) return;
    const Heap::Cache::Lock lock(cache);
    store.heap.retire(cache, l);
  }

  int depth_ = 0;
};
using TestWorker = BasicTestWorker<CuckooIndex>;

}  // namespace tandem
