// Operations on a slab list and on a plain map. For its tests and its fuzz target.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "index/cuckoo/index_test_support.hpp"
#include "index/slab_list/slab_index.hpp"

namespace tandem {

// Its worker is the only one, so every answer is known beforehand.
class SlabModel {
 public:
  explicit SlabModel(Fingerprint (*fingerprint)(std::string_view, std::uint64_t), std::string_view lanes = {})
      : store_({.cells = 64, .fingerprint = fingerprint, .lanes = lanes}), worker_(store_) {}

  BasicTestStore<SlabListIndex>& store() { return store_; }
  const std::string& problem() {
    if (problem_.empty()) problem_ = store_.difference_from(values_);
    return problem_;
  }

  void step(std::uint64_t kind, std::uint64_t number) {
    ++now_;
    const std::string key = key_of(number);
    const bool known = values_.contains(key);
    switch (kind % 16) {
      case 0:
      case 1:
      case 2:
        expect(worker_.erase(key) == known, "removal: " + key);
        values_.erase(key);
        break;
      case 3:
        expect(worker_.touch(key, 7) == known, "change: " + key);
        break;
      case 4:
        if (store_.index.wants_growth() || (number % 8 == 0 && store_.index.bucket_count() < buckets_max))
          expect(worker_.grow(), "growth");
        break;
      case 5:
        expect(evict_one(key) || values_.empty(), "eviction for " + key);
        break;
      case 6:
      case 7:
      case 8:
      case 9:
        expect(worker_.set(key, now_) == Worker::Outcome::done, "insertion: " + key);
        values_[key] = now_;
        break;
      default: {
        const auto value = worker_.get(key);
        expect(value.has_value() == known && (!known || *value == values_.at(key)), "search: " + key);
      }
    }
  }

 private:
  using Worker = BasicTestWorker<SlabListIndex>;
  static constexpr std::uint32_t buckets_max = 2000;  // each growth adds an eighth

  // Of the key's bucket, which may be empty.
  bool evict_one(const std::string& key) {
    const typename Worker::Batch batch(worker_);
    Location some[Index::candidates_max];
    const std::uint32_t n = store_.index.candidates(store_.fingerprint(key), key, some);
    if (n == 0) return true;
    const auto evicted = worker_.evict(some[n / 2]);
    return evicted && values_.erase(*evicted) == 1;
  }
  void expect(bool is_so, const std::string& what) {
    if (!is_so && problem_.empty()) problem_ = what;
  }

  BasicTestStore<SlabListIndex> store_;
  Worker worker_;
  std::map<std::string, std::uint64_t> values_;
  std::uint64_t now_ = 0;
  std::string problem_;
};

}  // namespace tandem
