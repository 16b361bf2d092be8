// One worker's samples of the keys it serves, on their way to the trainer: one query in 2^s, with random gaps as in
// Sampler, in a ring that drops what the trainer has not fetched in time. A query that is not sampled costs a decrement
// and a branch.
//
// Thread safety: offer() on the worker's thread, take() on the trainer's, the rest on any.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

#include "base/fingerprint.hpp"
#include "base/platform.hpp"
#include "observe/counters.hpp"
#include "router/hot_model.hpp"

namespace tandem {

// A key word, with the highest bit of its hash for a write.
struct Sample {
  static constexpr std::uint64_t write_bit = std::uint64_t{1} << 31;

  std::uint64_t bits = 0;
  static Sample of(Fingerprint f, bool write) noexcept { return {key_word(f) | (write ? write_bit : 0)}; }
  std::uint64_t key() const noexcept { return bits & ~write_bit; }
  // But for the bit that marks a write, which is 0.
  Fingerprint fingerprint() const noexcept {
    return {static_cast<std::uint32_t>(bits >> 32), static_cast<std::uint32_t>(key())};
  }
  bool is_write() const noexcept { return (bits & write_bit) != 0; }
};
static_assert(sizeof(Sample) == 8);

class Samples {
 public:
  static constexpr std::uint32_t capacity = 4096;
  static constexpr std::uint64_t ring_bytes = capacity * sizeof(Sample);
  static constexpr std::uint32_t shift_max = 20, off = 32;  // shifts: 2^s queries a sample; off: nothing is sampled

  // has_ring: whether there may be memory for it; without it all samples are dropped. Begins off.
  Samples(std::uint32_t seed, bool has_ring) noexcept
      : random_(seed | 1), ring_(has_ring ? new(std::nothrow) std::atomic<std::uint64_t>[capacity] {} : nullptr) {}
  Samples(const Samples&) = delete;
  Samples& operator=(const Samples&) = delete;

  // Of so many queries: whether the next one to be offered is a sample. For who would have to hash its key.
  TD_INLINE bool is_due(std::uint32_t queries) noexcept {
    if (TD_LIKELY(left_ > queries)) {
      left_ -= queries;
      return false;
    }
    left_ = 1;
    return true;
  }
  TD_INLINE void offer(Fingerprint f, bool write) noexcept {
    if (TD_LIKELY(--left_ != 0)) return;
    record(f, write);
  }

  void set_shift(std::uint32_t shift) noexcept { shift_.store(shift, std::memory_order_relaxed); }
  bool has_ring() const noexcept { return ring_ != nullptr; }

  // Moves samples to `to`, the oldest first; returns how many.
  std::uint32_t take(std::span<Sample> to) noexcept {
    const std::uint32_t from = tail_.load(std::memory_order_relaxed);
    const std::uint32_t count =
        std::min<std::uint32_t>(head_.load(std::memory_order_acquire) - from, static_cast<std::uint32_t>(to.size()));
    for (std::uint32_t i = 0; i < count; ++i) to[i] = {ring_[(from + i) % capacity].load(std::memory_order_relaxed)};
    tail_.store(from + count, std::memory_order_release);
    return count;
  }

  // Since the start.
  std::uint64_t taken() const noexcept { return taken_.get(); }
  std::uint64_t dropped() const noexcept { return dropped_.get(); }
  // Queries that were offered, in gaps that have ended while the sampling was on.
  std::uint64_t offered() const noexcept { return offered_.get(); }

 private:
  // What a worker that does not sample waits until it looks again.
  static constexpr std::uint32_t off_gap = 1024;

  TD_NOINLINE void record(Fingerprint f, bool write) noexcept {
    const std::uint32_t shift = shift_.load(std::memory_order_relaxed);
    if (shift > shift_max) {
      left_ = off_gap;
      gap_ = 0;
      return;
    }
    offered_.add(gap_);
    push(Sample::of(f, write));
    gap_ = left_ = 1 + draw() % (2 * (std::uint32_t{1} << shift) - 1);
  }
  void push(Sample sample) noexcept {
    const std::uint32_t at = head_.load(std::memory_order_relaxed);
    if (ring_ == nullptr || at - tail_.load(std::memory_order_acquire) == capacity) return dropped_.add();
    ring_[at % capacity].store(sample.bits, std::memory_order_relaxed);
    head_.store(at + 1, std::memory_order_release);
    taken_.add();
  }
  std::uint32_t draw() noexcept {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 17;
    random_ ^= random_ << 5;
    return random_;
  }

  // The worker's line; then what both look at.
  alignas(cache_line_bytes) std::uint32_t left_ = 1;
  std::uint32_t gap_ = 0;
  std::uint32_t random_;
  std::atomic<std::uint32_t> head_{0};
  Counter taken_, dropped_, offered_;
  alignas(cache_line_bytes) std::atomic<std::uint32_t> tail_{0};
  std::atomic<std::uint32_t> shift_{off};
  const std::unique_ptr<std::atomic<std::uint64_t>[]> ring_;
};

}  // namespace tandem
