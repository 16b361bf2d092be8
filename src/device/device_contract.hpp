// What the contract of a device (device.hpp) is tested with: the devices of this machine, tables in their memory, and
// random operations.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "device/cuda/cuda_device.hpp"
#include "device/device.hpp"
#include "device/sim/sim_device.hpp"
#include "index/cuckoo.hpp"
#include "index/cuckoo_check.hpp"

namespace tandem {

#if defined(TANDEM_SANITIZED)
inline constexpr std::uint32_t contract_effort = 1;
#else
inline constexpr std::uint32_t contract_effort = 8;
#endif

struct DeviceKind {
  std::string name;
  std::function<std::unique_ptr<Device>()> make;
  friend std::ostream& operator<<(std::ostream& out, const DeviceKind& kind) { return out << kind.name; }
};

// `sim` as fast as it goes, `sim` with times like a GPU's behind PCIe, and every GPU.
inline std::vector<DeviceKind> device_kinds() {
  using namespace std::chrono_literals;
  const SimOptions timed{.latency = 20us, .copy_bytes_per_s = 20e9, .lanes = 1 << 15, .lane_time = 2us};
  std::vector<DeviceKind> kinds{{"sim", [] { return make_sim_device(); }},
                                {"sim_timed", [timed] { return make_sim_device(timed); }}};
  for (std::uint32_t i = 0; i < cuda_device_count().count; ++i) {
    kinds.push_back({"cuda" + std::to_string(i), [i] { return make_cuda_device(i); }});
  }
  return kinds;
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15ULL;
    return mix_bits(state_);
  }
  std::uint32_t below(std::uint64_t n) { return static_cast<std::uint32_t>(next() % n); }

 private:
  std::uint64_t state_;
};

// Waits far longer than any of these tests should take.
inline DeviceStatus finish(Stream& stream) { return stream.wait(stream.mark(), std::chrono::minutes(2)); }

class DeviceContract : public testing::TestWithParam<DeviceKind> {
 protected:
  std::unique_ptr<Device> device = GetParam().make();
  std::unique_ptr<Stream> stream = device->make_stream();

  // The array in pinned memory, with these contents.
  template <class T>
  PinnedArray<T> pinned(const std::vector<T>& from) {
    PinnedArray<T> array(*device, from.size());
    if (!from.empty()) std::memcpy(array.data(), from.data(), from.size() * sizeof(T));
    return array;
  }
  template <class T>
  void upload(DevicePtr<T> to, const T* from, std::uint64_t count) {
    PinnedArray<std::byte> staging(*device, count * sizeof(T));
    std::memcpy(staging.data(), from, staging.bytes());
    ASSERT_EQ(stream->copy_to_device(DevicePtr<std::byte>(to.address()), staging.data(), staging.bytes()),
              DeviceStatus::ok);
    ASSERT_EQ(finish(*stream), DeviceStatus::ok);
  }
  template <class T>
  std::vector<T> download(DevicePtr<T> from, std::uint64_t count) {
    PinnedArray<std::byte> staging(*device, count * sizeof(T));
    EXPECT_EQ(stream->copy_to_host(staging.data(), DevicePtr<const std::byte>(from.address()), staging.bytes()),
              DeviceStatus::ok);
    EXPECT_EQ(finish(*stream), DeviceStatus::ok);
    std::vector<T> to(count);
    std::memcpy(static_cast<void*>(to.data()), staging.data(), staging.bytes());
    return to;
  }
};

// An empty table in the device's memory, and the words that apply() needs beside it.
class TestedTable {
 public:
  TestedTable(Device& device, Stream& stream, std::uint32_t buckets)
      : buckets_(device, buckets), winners_(device, std::uint64_t{buckets} * bucket_cells) {
    EXPECT_EQ(stream.zero(buckets_.bytes_at(), buckets_.bytes()), DeviceStatus::ok);
    EXPECT_EQ(stream.zero(winners_.bytes_at(), winners_.bytes()), DeviceStatus::ok);
  }
  DeviceIndex index() const { return {buckets_.at(), static_cast<std::uint32_t>(buckets_.count() - 1)}; }
  DevicePtr<Bucket> buckets() const { return buckets_.at(); }
  DevicePtr<std::uint32_t> winners() const { return winners_.at(); }
  std::uint64_t bucket_count() const { return buckets_.count(); }
  std::uint64_t cells() const { return winners_.count(); }

 private:
  DeviceArray<Bucket> buckets_;
  DeviceArray<std::uint32_t> winners_;
};

// A batch of keys for insert() and erase(), in pinned memory or beside the table.
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
    const std::vector<std::uint8_t> done = run(batch, &Stream::insert);
    for (std::uint32_t i = 0; i < count; ++i) {
      ASSERT_LE(done[i], 1);
      if (done[i] == 0) ++refused_;
      if (done[i] == 1) where_.emplace(next_key_ + i, static_cast<Location>(next_key_ + i + 1));
    }
    next_key_ += count;
  }

  // Keys of the table, keys that were never there, and locations that are not the key's; each at most once.
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
    const std::vector<std::uint8_t> done = run(batch, &Stream::erase);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto found = where_.find(keys[i]);
      const bool expected = found != where_.end() && found->second == batch.location[i];
      ASSERT_EQ(done[i], expected) << "key " << keys[i];
      if (expected) where_.erase(found);
    }
  }

  // Every key in exactly one cell, of its own two buckets, and nothing else in the table; and searches find them.
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
    const IndexView view{nullptr, table_.index().mask};
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
    ASSERT_EQ(stream_.search(table_.index(), f.at(), found.at(), batch.count()), DeviceStatus::ok);
    ASSERT_EQ(finish(stream_), DeviceStatus::ok);
    for (std::uint32_t i = 0; i < batch.count(); ++i) {
      ASSERT_NE(found[i], no_location);
      ASSERT_TRUE(signatures_ != 0 || found[i] == batch.location[i]);
    }
  }

 private:
  using Kernel = DeviceStatus (Stream::*)(DeviceIndex, DevicePtr<const Fingerprint>, DevicePtr<const Location>,
                                          DevicePtr<std::uint8_t>, std::uint32_t) noexcept;

  // In turn with the arrays in pinned memory and in the device's.
  std::vector<std::uint8_t> run(const KeyBatch& batch, Kernel kernel) {
    const std::uint32_t count = batch.count();
    const PinnedArray<Fingerprint> f(device_, count);
    const PinnedArray<Location> location(device_, count);
    const PinnedArray<std::uint8_t> done(device_, count);
    std::ranges::copy(batch.f, f.data());
    std::ranges::copy(batch.location, location.data());
    std::fill_n(done.data(), count, std::uint8_t{0xee});
    if (++runs_ % 2 == 0) {
      EXPECT_EQ((stream_.*kernel)(table_.index(), f.at(), location.at(), done.at(), count), DeviceStatus::ok);
      EXPECT_EQ(finish(stream_), DeviceStatus::ok);
    } else {
      const DeviceArray<Fingerprint> f_array(device_, count);
      const DeviceArray<Location> location_array(device_, count);
      const DeviceArray<std::uint8_t> done_array(device_, count);
      EXPECT_EQ(stream_.copy_to_device(f_array.bytes_at(), f.data(), f.bytes()), DeviceStatus::ok);
      EXPECT_EQ(stream_.copy_to_device(location_array.bytes_at(), location.data(), location.bytes()), DeviceStatus::ok);
      EXPECT_EQ((stream_.*kernel)(table_.index(), f_array.at(), location_array.at(), done_array.at(), count),
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
