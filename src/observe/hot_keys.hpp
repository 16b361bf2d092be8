// The most requested keys: a sketch per worker, of the keys that its sampler offers, in bounded memory.
//
// The sketch is Space-Saving (Metwally, Agrawal, El Abbadi 2005) with weights: `keys_max` counters. A key without one
// takes over the smallest counter; that count becomes its error. With W the weight of all that was offered:
// - a key's count is at least its true weight, and too large by at most its error, which is at most W / keys_max;
// - every key with a true weight that exceeds W / keys_max has a counter, whatever order the keys come in.
// Weights fade by half each `half_life_s`, so that hot means now; scaling all of them preserves both bounds. Fading
// alone keeps a key's share while no other key is requested, so a key without a sample for `unseen_max_s` is not
// reported.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/platform.hpp"

namespace tandem {

// Thread safety: one thread at a time.
class KeySketch {
 public:
  static constexpr std::uint32_t keys_max = 512;
  static constexpr std::size_t key_bytes_kept = 250;  // whole keys: the protocol's limit

  struct Counted {
    std::string key;
    double count, error;
    std::uint32_t last_s;  // when the key was last offered
  };

  explicit KeySketch(std::uint64_t seed);

  // now_s: seconds of any clock.
  void offer(std::string_view key, double weight, std::uint32_t now_s) noexcept;
  // Multiplies all weights.
  void scale(double factor) noexcept;
  void clear() noexcept;

  double total() const noexcept { return total_; }
  // Maximum weight of a key without a counter.
  double absent_max() const noexcept { return size_ == keys_max ? entries_[heap_[0]].count : 0; }
  std::vector<Counted> counted() const;  // in no order

 private:
  static constexpr std::uint32_t slots = 2 * keys_max;  // of the hash table; half of them stay free
  static constexpr std::uint16_t none = 0xffff;

  struct Entry {
    double count, error;
    std::uint32_t hash;
    std::uint32_t last_s;
    std::uint16_t place;  // in heap_
    std::uint8_t key_bytes;
    char key[key_bytes_kept];
  };

  void insert_slot(std::uint16_t entry) noexcept;
  void erase_slot(std::uint32_t slot) noexcept;
  void put(std::uint32_t place, std::uint16_t entry) noexcept;
  void sift_up(std::uint32_t place) noexcept;
  void sift_down(std::uint32_t place) noexcept;

  std::uint64_t seed_;
  std::uint32_t size_ = 0;
  double total_ = 0;
  std::unique_ptr<Entry[]> entries_;
  std::unique_ptr<std::uint16_t[]> heap_;   // entries, the smallest count first
  std::unique_ptr<std::uint16_t[]> table_;  // entries by hash, linear probing
};

struct HotKey {
  std::string key;
  // Of all requests: estimated, and its error either way: that of the sketches, and two standard errors of the sample.
  double share = 0, share_error = 0;
};

struct HotKeys {
  std::vector<HotKey> keys;  // the hottest first
  double samples = 0;        // effective number behind the estimate: faded ones count less
};

// One worker's sketch with its clock and lock.
//
// Thread safety: record() on the worker's thread, the rest on any. record() never waits: during a read the worker's
// samples are dropped.
class HotKeyCounter {
 public:
  static constexpr double half_life_s = 30;
  static constexpr std::uint32_t unseen_max_s = 60;

  explicit HotKeyCounter(std::uint64_t seed) : sketch_(seed) {}

  // Calls offers(*this), which calls offer().
  template <class F>
  void record(std::uint32_t now_s, F offers) {
    if (TD_UNLIKELY(!mutex_.try_lock())) return;
    const std::lock_guard lock(mutex_, std::adopt_lock);
    if (TD_UNLIKELY(now_s != now_s_)) advance(now_s);
    offers(*this);
  }
  // REQUIRES: within record().
  void offer(std::string_view key, double weight) noexcept {
    sketch_.offer(key, weight * growth_, now_s_);
    squares_ += weight * weight * growth_ * growth_;
  }

  void clear() noexcept;

  struct Snapshot {
    std::vector<KeySketch::Counted> keys;
    double total = 0, squares = 0, absent_max = 0;
    std::uint32_t now_s = 0;
  };
  Snapshot read(std::uint32_t now_s);

 private:
  void advance(std::uint32_t now_s) noexcept;

  std::mutex mutex_;  // guards the rest
  KeySketch sketch_;
  // Instead of old weights shrinking each second, new ones grow; all are scaled back before numbers get too large.
  double growth_ = 1;
  double squares_ = 0;  // sum of the squares of weights, for the standard error
  std::uint32_t now_s_ = 0;
};

// Merges all workers' sketches: at most `count_max` keys, without those that no worker has seen for
// HotKeyCounter::unseen_max_s.
HotKeys merge_hot_keys(const std::vector<HotKeyCounter::Snapshot>& workers, std::size_t count_max);

}  // namespace tandem
