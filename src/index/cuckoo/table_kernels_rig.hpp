// For tests of the table's kernels: tables in device memory, and random operations.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <unordered_map>
#include <vector>

#include "device/device_contract.hpp"
#include "index/cuckoo/cuckoo.hpp"
#include "index/cuckoo/cuckoo_check.hpp"
#include "index/cuckoo/table_kernels.hpp"

namespace tandem {

// An empty table in device memory, with the words that store_cells needs.
class TestedTable {
 public:
  TestedTable(Device& device, Stream& stream, std::uint32_t buckets)
      : buckets_(device, buckets), winners_(device, std::uint64_t{buckets} * bucket_cells) {
    EXPECT_EQ(stream.zero(buckets_.bytes_at(), buckets_.bytes()), DeviceStatus::ok);
    EXPECT_EQ(stream.zero(winners_.bytes_at(), winners_.bytes()), DeviceStatus::ok);
  }
  DeviceIndex index() const { return {buckets_.at(), {.mask = static_cast<std::uint32_t>(buckets_.count() - 1)}}; }
  DevicePtr<Bucket> buckets() const { return buckets_.at(); }
  DevicePtr<std::uint32_t> winners() const { return winners_.at(); }
  std::uint64_t bucket_count() const { return buckets_.count(); }
  std::uint64_t cells() const { return winners_.count(); }

 private:
  DeviceArray<Bucket> buckets_;
  DeviceArray<std::uint32_t> winners_;
};

// A batch of keys to insert or to erase, in pinned memory or beside the table.
struct KeyBatch {
  std::vector<Fingerprint> f;
  std::vector<Location> location;
  void add(Fingerprint fingerprint, Location l) {
    f.push_back(fingerprint);
    location.push_back(l);
  }
  std::uint32_t count() const { return static_cast<std::uint32_t>(f.size()); }
};

// Inserts, removals and searches in batches at a high load, against a map.
class DeviceChurn {
 public:
  DeviceChurn(Device& device, Stream& stream, std::uint32_t buckets, std::uint32_t signatures)
      : device_(device), stream_(stream), table_(device, stream, buckets), signatures_(signatures) {}

  std::size_t items() const { return where_.size(); }
  std::uint64_t refused() const { return refused_; }
  const TestedTable& table() const { return table_; }

  void insert(std::uint32_t count) {
    KeyBatch batch;
    for (std::uint32_t i = 0; i < count; ++i)
      batch.add(check_fingerprint(next_key_ + i, signatures_), static_cast<Location>(next_key_ + i + 1));
    const std::vector<std::uint8_t> done = run(batch, insert_into_table);
    for (std::uint32_t i = 0; i < count; ++i) {
      ASSERT_LE(done[i], 1);
      if (done[i] == 0) ++refused_;
      if (done[i] == 1) where_.emplace(next_key_ + i, static_cast<Location>(next_key_ + i + 1));
    }
    next_key_ += count;
  }

  // Keys of the table, keys that were never in it, and wrong locations; each at most once.
  void erase(std::uint32_t count, Random& random) {
    KeyBatch batch;
    std::vector<std::uint64_t> keys;
    std::set<std::uint64_t> seen;
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint64_t key = random.below(next_key_ + 10);
      if (!seen.insert(key).second) continue;
      const bool wrong_location = random.below(8) == 0;
      keys.push_back(key);
      batch.add(check_fingerprint(key, signatures_), static_cast<Location>(wrong_location ? ~key : key + 1));
    }
    const std::vector<std::uint8_t> done = run(batch, erase_from_table);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto found = where_.find(keys[i]);
      const bool expected = found != where_.end() && found->second == batch.location[i];
      ASSERT_EQ(done[i], expected) << "key " << keys[i];
      if (expected) where_.erase(found);
    }
  }

  // Every key is in exactly one cell, of its own two buckets, the table has nothing else, and searches find the keys.
  void check(const std::vector<Bucket>& buckets) {
    std::unordered_map<Location, std::uint32_t> bucket_of;
    for (std::uint32_t b = 0; b < buckets.size(); ++b) {
      for (const std::uint64_t bits : buckets[b].cell) {
        if (bits == 0) continue;
        const Location location = Cell{bits}.location();
        ASSERT_TRUE(bucket_of.emplace(location, b).second) << "location " << location << " is there twice";
        ASSERT_EQ(Cell{bits}.signature(), check_fingerprint(location - 1, signatures_).signature);
      }
    }
    ASSERT_EQ(bucket_of.size(), where_.size());
    const IndexView view{nullptr, table_.index().shape.mask};
    KeyBatch batch;
    for (const auto& [key, location] : where_) {
      const Fingerprint f = check_fingerprint(key, signatures_);
      ASSERT_TRUE(bucket_of.contains(location)) << "key " << key;
      const std::uint32_t b = bucket_of[location];
      ASSERT_TRUE(b == view.first(f) || b == view.second(f)) << "key " << key;
      batch.add(f, location);
    }
    const PinnedArray<Fingerprint> f(device_, batch.count());
    const PinnedArray<Location> found(device_, batch.count());
    std::ranges::copy(batch.f, f.data());
    SearchArguments search{.index = table_.index()};
    for (std::uint32_t begin = 0, size = 1; begin < batch.count(); begin += size, size = size * 3 + 1) {
      size = std::min(size, batch.count() - begin);
      search.part[search.parts++] = {
          .fingerprints = f.at(begin).address(), .locations = found.at(begin).address(), .count = size};
    }
    ASSERT_EQ(stream_.launch(search_table, search), DeviceStatus::ok);
    ASSERT_EQ(finish(stream_), DeviceStatus::ok);
    for (std::uint32_t i = 0; i < batch.count(); ++i) {
      ASSERT_NE(found[i], no_location);
      ASSERT_TRUE(signatures_ != 0 || found[i] == batch.location[i]);
    }
  }

 private:
  // Alternates between arrays in pinned and in device memory.
  std::vector<std::uint8_t> run(const KeyBatch& batch, const Kernel<UpdateArguments>& kernel) {
    const std::uint32_t count = batch.count();
    const PinnedArray<Fingerprint> f(device_, count);
    const PinnedArray<Location> location(device_, count);
    const PinnedArray<std::uint8_t> done(device_, count);
    std::ranges::copy(batch.f, f.data());
    std::ranges::copy(batch.location, location.data());
    std::fill_n(done.data(), count, std::uint8_t{0xee});
    if (++runs_ % 2 == 0) {
      EXPECT_EQ(stream_.launch(kernel, {table_.index(), f.at(), location.at(), done.at(), count}), DeviceStatus::ok);
      EXPECT_EQ(finish(stream_), DeviceStatus::ok);
    } else {
      const DeviceArray<Fingerprint> f_array(device_, count);
      const DeviceArray<Location> location_array(device_, count);
      const DeviceArray<std::uint8_t> done_array(device_, count);
      EXPECT_EQ(stream_.copy_to_device(f_array.bytes_at(), f.data(), f.bytes()), DeviceStatus::ok);
      EXPECT_EQ(stream_.copy_to_device(location_array.bytes_at(), location.data(), location.bytes()), DeviceStatus::ok);
      EXPECT_EQ(stream_.launch(kernel, {table_.index(), f_array.at(), location_array.at(), done_array.at(), count}),
                DeviceStatus::ok);
      EXPECT_EQ(stream_.copy_to_host(done.data(), done_array.bytes_at(), done.bytes()), DeviceStatus::ok);
      EXPECT_EQ(finish(stream_), DeviceStatus::ok);
    }
    return {done.data(), done.data() + count};
  }

  Device& device_;
  Stream& stream_;
  TestedTable table_;
  std::uint32_t signatures_;
  std::unordered_map<std::uint64_t, Location> where_;
  std::uint64_t next_key_ = 0, refused_ = 0;
  int runs_ = 0;
};

}  // namespace tandem
