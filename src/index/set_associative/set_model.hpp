// Operations on a set-associative index, and on a plain map with each set's order of use beside it. For its tests and
// its fuzz target.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "index/cuckoo/index_test_support.hpp"

namespace tandem {

// Its worker is the only one, so every answer and every eviction is known beforehand.
template <class I>
class SetModel {
 public:
  SetModel(std::uint64_t entries, Fingerprint (*fingerprint)(std::string_view, std::uint64_t),
           std::string_view lanes = {})
      : store_({.cells = entries, .fingerprint = fingerprint, .lanes = lanes}), worker_(store_) {
    store_.index.stamps().give(clock_);
  }

  BasicTestStore<I>& store() { return store_; }
  std::uint64_t evictions() const { return evictions_; }
  const std::string& problem() {
    if (problem_.empty()) problem_ = store_.difference_from(values_);
    return problem_;
  }

  // One operation on one key, in a moment of its own.
  void step(std::uint64_t kind, std::uint64_t number) {
    ++clock_;
    const std::string key = key_of(number);
    const bool known = values_.contains(key);
    switch (kind % 8) {
      case 0:
        expect(worker_.erase(key) == known, "removal: " + key);
        if (known) forget(key);
        break;
      case 1:
        expect(worker_.touch(key, 7) == known, "change: " + key);
        if (known) use(key);
        break;
      case 2:
      case 3:
      case 4:
        set(key, known);
        break;
      default:
        get(key, known);
    }
  }

 private:
  using Worker = BasicTestWorker<I>;

  std::vector<std::string>& set_of(const std::string& key) {
    return order_[store_.index.view().index_of(store_.fingerprint(key))];
  }
  void use(const std::string& key) {
    std::vector<std::string>& order = set_of(key);
    std::erase(order, key);
    order.push_back(key);
  }
  void forget(const std::string& key) {
    values_.erase(key);
    std::erase(set_of(key), key);
  }
  void set(const std::string& key, bool known) {
    const std::vector<std::string>& order = set_of(key);
    const bool full = order.size() == store_.index.cell_count() / store_.index.view().count;
    auto outcome = worker_.set(key, clock_);
    expect(outcome == (known || !full ? Worker::Outcome::done : Worker::Outcome::no_room), "insertion: " + key);
    if (outcome == Worker::Outcome::no_room) {
      const std::string victim = evict_for(key);
      expect(!order.empty() && victim == order.front(), "evicted " + victim + " for " + key);
      if (!victim.empty()) forget(victim);
      outcome = worker_.set(key, clock_);
      expect(outcome == Worker::Outcome::done, "insertion after an eviction: " + key);
    }
    values_[key] = clock_;
    use(key);
  }
  std::string evict_for(const std::string& key) {
    const typename Worker::Batch batch(worker_);
    typename I::Guard guard = store_.index.lock(store_.fingerprint(key));
    if (guard.find(std::string_view(key)) != nullptr) return {};
    const Item* const victim = guard.find_victim();
    if (victim == nullptr || guard.has_room()) return {};
    std::string evicted(victim->key());
    if (!guard.erase()) return {};
    ++evictions_;
    return evicted;
  }
  void get(const std::string& key, bool known) {
    const auto value = worker_.get(key);
    expect(value.has_value() == known && (!known || *value == values_.at(key)), "search: " + key);
    if (!known) return;
    const typename Worker::Batch batch(worker_);
    ItemVersion seen;
    const Fingerprint f = store_.fingerprint(key);
    const Item* const item = store_.index.find(f, key, seen);
    if (item != nullptr) store_.index.note_access(f, store_.heap.location_of(item), clock_);
    use(key);
  }
  void expect(bool is_so, const std::string& what) {
    if (!is_so && problem_.empty()) problem_ = what;
  }

  BasicTestStore<I> store_;
  Worker worker_;
  std::atomic<std::uint32_t> clock_{0};
  std::map<std::string, std::uint64_t> values_;
  std::map<std::uint32_t, std::vector<std::string>> order_;  // by set: the least recently used key first
  std::uint64_t evictions_ = 0;
  std::string problem_;
};

}  // namespace tandem
