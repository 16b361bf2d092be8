// Locations of a recovered heap's items in the order of their keys, for an ordered index: keys that ascend leave full
// leaves behind, so the order needs no more memory than that of the process before.
//
// A sample of the keys cuts them into parts of some 16 Ki items. Each item is put into its part by location, 4 bytes;
// a part's keys are sorted when it is indexed. Parts are in order, and so are the items of each.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "heap/recovery.hpp"

namespace tandem {

class KeyOrder {
 public:
  explicit KeyOrder(const HeapRecovery& heap) : heap_(heap) {}

  // --- first, page by page. Any thread
  void sample(PageId page) noexcept;
  // Ends the sample. False: there is no memory. One thread.
  bool cut() noexcept;

  // --- then, page by page: one Collector for each thread, which hands over at its end
  class Collector {
   public:
    explicit Collector(KeyOrder& order) : order_(order) {}
    Collector(const Collector&) = delete;
    Collector& operator=(const Collector&) = delete;
    ~Collector();
    void operator()(PageId page) noexcept;

   private:
    KeyOrder& order_;
    std::vector<std::vector<Location>> parts_;
  };
  // Some items are missing, for lack of memory.
  bool has_failed() const noexcept { return failed_.load(std::memory_order_relaxed); }

  // --- then, part by part. Any thread, each part once
  std::size_t parts() const noexcept { return parts_.size(); }
  // A part's keys are at or above it. REQUIRES: not the first part.
  std::string_view low(std::size_t part) const noexcept { return samples_[part - 1]; }
  // Calls use() with the items of a part, in order; without memory to sort them it is called several times, without an
  // order.
  void take(std::size_t part, const std::function<void(std::span<const Location>)>& use);

 private:
  // 8 bytes of a key behind those that all samples have in common: of two keys the lower one's are not higher.
  std::uint64_t head_of(std::string_view key) const noexcept;
  std::size_t part_of(std::string_view key) const noexcept;
  std::vector<Location> sorted(const std::vector<std::vector<Location>>& lists) const;

  const HeapRecovery& heap_;
  std::atomic<bool> failed_{false};
  std::mutex mutex_;                       // of samples_ and parts_
  std::vector<std::string_view> samples_;  // then the first keys of all parts but the lowest one
  std::vector<std::uint64_t> heads_;       // of those
  std::size_t common_bytes_ = 0;
  std::vector<std::vector<std::vector<Location>>> parts_;  // of each part, by collector
};

}  // namespace tandem
