// An index of the simplest kind that does what index_kind.hpp says, an ordered scan included: a sorted map under one
// lock, with room for so many keys until it grows. For tests: what holds for it and for the cuckoo table is the
// contract, not the table. The preset `plain` of kind.cpp has a store serve with it.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/hash.hpp"
#include "heap/heap.hpp"
#include "index/index_kind.hpp"

namespace tandem {

class PlainIndex : public Index {
  struct Less {
    using is_transparent = void;
    bool operator()(std::string_view a, std::string_view b) const noexcept { return a < b; }  // as memcmp
  };

 public:
  static constexpr std::string_view kind = "plain";
  static constexpr bool can_be_ordered = true, is_always_ordered = true;
  using Put = IndexPut;
  struct Prefetcher {
    void operator()(Fingerprint) const noexcept {}
  };

  PlainIndex(const IndexOptions& options, MemoryBudget&, EpochDomain&, Heap& heap) : options_(options), heap_(heap) {
    if (options_.fingerprint == nullptr)
      options_.fingerprint = [](std::string_view key, std::uint64_t seed) { return fingerprint_of(key, seed); };
    cells_ = options.cells_initial;
  }

  Prefetcher prefetcher() const noexcept { return {}; }
  void prefetch_stripe(Fingerprint) const noexcept {}
  void prefetch_guard(Fingerprint) const noexcept {}

  std::uint32_t search_first(const Fingerprint* f, std::uint32_t count, Location* location) const noexcept {
    const std::lock_guard lock(mutex_);
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto found = candidates_.find(bits(f[i]));
      location[i] = found == candidates_.end() ? no_location : found->second;
    }
    return 0;
  }
  void search_second(const Fingerprint*, std::uint32_t, Location*) const noexcept {}
  Item* find(Fingerprint, std::string_view key, ItemVersion& seen, Location = no_location) const noexcept override {
    const std::lock_guard lock(mutex_);
    const auto found = keys_.find(key);
    return found != keys_.end() && is_live_item_of(heap_.at(found->second), key, seen) ? heap_.at(found->second)
                                                                                       : nullptr;
  }

  class Guard {
   public:
    Item* find(std::string_view key, Location = no_location) noexcept {
      const auto found = index_.keys_.find(key);
      const bool there = found != index_.keys_.end() && is_live_item_of(index_.heap_.at(found->second), key, version_);
      if (there) version_ = settled_version(index_.heap_.at(found->second));
      return item_ = there ? index_.heap_.at(found->second) : nullptr;
    }
    Item* find(Location l) noexcept {
      version_ = settled_version(index_.heap_.at(l));
      return item_ = version_.is_live() ? index_.heap_.at(l) : nullptr;
    }
    const ItemVersion& version() const noexcept { return version_; }
    [[nodiscard]] Put put(Location now, std::uint64_t live_state) noexcept {
      if (item_ == nullptr && index_.keys_.size() >= index_.cells_) return Put::needs_room;
      if (item_ != nullptr && !lock_item(item_, version_)) return Put::changed;
      Item* const item = index_.heap_.at(now);
      index_.begin_change();
      item->state_word.store(live_state, std::memory_order_release);
      if (item_ != nullptr) kill();
      index_.keys_.insert_or_assign(std::string(item->key()), now);
      index_.end_change();
      index_.candidates_.insert_or_assign(bits(f_), now);
      item_ = item;
      return Put::done;
    }
    [[nodiscard]] bool erase() noexcept {
      if (!lock_item(item_, version_)) return false;
      index_.begin_change();
      kill();
      index_.keys_.erase(index_.keys_.find(item_->key()));
      index_.end_change();
      const auto found = index_.candidates_.find(bits(f_));
      if (found->second == index_.heap_.location_of(item_)) index_.candidates_.erase(found);
      item_ = nullptr;
      return true;
    }
    [[nodiscard]] bool update_state(std::uint64_t mask, std::uint64_t state) noexcept {
      if (!lock_item(item_, version_)) return false;
      version_.state = (version_.state & ~mask) | state;
      unlock_item(item_, version_.state);
      return true;
    }

   private:
    friend class PlainIndex;
    Guard(PlainIndex& index, Fingerprint f) noexcept : index_(index), f_(f), lock_(index.mutex_) {}
    // Of the locked item.
    void kill() noexcept {
      unlock_item(item_, word::State::put(version_.state, static_cast<std::uint64_t>(ItemState::dead)));
    }

    PlainIndex& index_;
    const Fingerprint f_;
    const std::lock_guard<std::mutex> lock_;
    Item* item_ = nullptr;
    ItemVersion version_{};
  };
  [[nodiscard]] Guard lock(Fingerprint f) noexcept { return Guard(*this, f); }
  std::unique_ptr<KeyHold> hold(Fingerprint f) override { return std::make_unique<GuardHold<PlainIndex>>(*this, f); }

  bool is_ordered() const noexcept override { return true; }
  ScanResult scan(const ScanRange& range, std::uint32_t most, ScanCopies& copies, ScanStamp& stamp) noexcept override {
    const std::lock_guard lock(mutex_);
    stamp.add(changes_, changes_.load(std::memory_order_acquire));
    ScanResult result;
    const std::uint32_t first = copies.count();
    const auto is_outside = [&](const auto& entry) {
      return range.is_below(entry.first) || range.is_above(entry.first);
    };
    const auto give = [&](auto at, auto end) {
      ScanCopies::Adder adder(copies, heap_.items());
      for (; at != end && !is_outside(*at) && adder.count() != first + most; ++at) adder.add(at->second);
      result.done = at == end || is_outside(*at);
    };
    const auto begin = range.after_begin ? keys_.upper_bound(range.begin) : keys_.lower_bound(range.begin);
    const auto end = range.end.empty() ? keys_.end() : keys_.lower_bound(range.end);
    if (range.reverse) {
      give(std::make_reverse_iterator(end), keys_.rend());
    } else {
      give(begin, keys_.end());
    }
    result.count = copies.count() - first;
    return result;
  }

  bool make_room(Fingerprint, std::string_view) noexcept override {
    const std::lock_guard lock(mutex_);
    room_failed_ = keys_.size() >= cells_;
    return !room_failed_;
  }
  std::uint32_t candidates(Fingerprint, std::string_view, Location out[candidates_max]) const noexcept override {
    const std::lock_guard lock(mutex_);
    std::uint32_t n = 0;
    for (auto at = keys_.begin(); at != keys_.end() && n < candidates_max; ++at) out[n++] = at->second;
    return n;
  }

  bool wants_growth() const noexcept override {
    const std::lock_guard lock(mutex_);
    return room_failed_ || static_cast<double>(keys_.size()) > options_.load_grow * static_cast<double>(cells_);
  }
  bool grow(EpochDomain::Participant&) override {
    const std::lock_guard lock(mutex_);
    cells_ *= 2;
    room_failed_ = false;
    return true;
  }
  bool growing() const noexcept override { return false; }

  template <class F>
  void for_each_location(F f) const {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, l] : keys_) f(l);
  }
  std::uint64_t item_count() const noexcept override {
    const std::lock_guard lock(mutex_);
    return keys_.size();
  }
  std::uint64_t cell_count() const noexcept override {
    const std::lock_guard lock(mutex_);
    return cells_;
  }
  // As of a table with room for so many; the map itself is not counted.
  std::uint64_t table_bytes() const noexcept override { return cell_count() * sizeof(std::uint64_t); }

 private:
  // Around a change of keys_ or of the item that a key has. REQUIRES: the lock.
  void begin_change() noexcept {
    changes_.store(changes_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
  }
  void end_change() noexcept {
    changes_.store(changes_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  static std::uint64_t bits(Fingerprint f) noexcept { return std::uint64_t{f.signature} << 32 | f.hash; }

  IndexOptions options_;
  Heap& heap_;
  mutable std::mutex mutex_;  // the only stripe
  std::map<std::string, Location, Less> keys_;
  std::unordered_map<std::uint64_t, Location> candidates_;
  std::atomic<std::uint64_t> changes_{0};  // odd: one is being made
  std::uint64_t cells_ = 0;
  bool room_failed_ = false;
};

static_assert(IndexKind<PlainIndex> && !DeviceSearches<PlainIndex>);

}  // namespace tandem
