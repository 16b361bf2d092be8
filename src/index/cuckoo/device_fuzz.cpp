// Any sequence of operations on a table in device memory. Its answers and its content must be those of a map and of the
// scalar lanes, and every kind of lanes must find the same in a copy of it.
// With $TANDEM_FUZZ_GPU the device is the first GPU.
// Input: a byte of table size, one of signatures, then pieces: a byte of kind and count, and that many bytes, the keys.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "device/cuda/cuda_device.hpp"
#include "device/device.hpp"
#include "device/sim/sim_device.hpp"
#include "index/cuckoo/cuckoo.hpp"
#include "index/cuckoo/cuckoo_check.hpp"
#include "index/cuckoo/table_kernels.hpp"

namespace tandem {
namespace {

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

class DeviceFuzz {
 public:
  DeviceFuzz(std::uint32_t buckets, std::uint32_t signatures)
      : signatures_(signatures), buckets_(device(), buckets), winners_(device(), cells()), copy_(buckets) {
    finish(stream().zero(buckets_.bytes_at(), buckets_.bytes()), "zero");
    finish(stream().zero(winners_.bytes_at(), winners_.bytes()), "zero");
  }

  void step(std::uint8_t kind, const std::set<std::uint8_t>& keys) {
    switch (kind) {
      case 0:
      case 1:
        insert(keys);
        break;
      case 2:
        erase(keys);
        break;
      case 3:
      case 4:
      case 5:
        change(keys);
        break;
      case 6:
        apply(keys);
        break;
      default:
        break;
    }
    check(keys);
  }

 private:
  static constexpr std::uint32_t count_max = 256;  // keys, each once; cells of apply() twice

  static Device& device() {
    static const std::unique_ptr<Device> one = std::getenv("TANDEM_FUZZ_GPU") ? make_cuda_device(0) : make_sim_device();
    return *one;
  }
  static Stream& stream() {
    static const std::unique_ptr<Stream> one = device().make_stream();
    return *one;
  }
  // Arrays that every call uses, in pinned memory.
  struct Arrays {
    PinnedArray<Fingerprint> f{device(), count_max};
    PinnedArray<Location> location{device(), count_max};
    PinnedArray<CellChange> changes{device(), count_max};
    PinnedArray<std::uint8_t> done{device(), count_max};
    PinnedArray<DirtyCell> dirty{device(), std::uint64_t{2} * count_max};
  };
  static Arrays& arrays() {
    static Arrays all;
    return all;
  }
  static void finish(DeviceStatus asked, const char* what) {
    expect(asked == DeviceStatus::ok, what);
    expect(stream().wait(stream().mark(), std::chrono::minutes(1)) == DeviceStatus::ok, what);
  }

  std::uint64_t cells() const { return buckets_.count() * bucket_cells; }
  DeviceIndex index() const { return {buckets_.at(), {.mask = static_cast<std::uint32_t>(buckets_.count() - 1)}}; }
  Fingerprint fingerprint(std::uint64_t key) const { return check_fingerprint(key, signatures_); }

  // An unused location: usually one that was used before.
  Location fresh() {
    if (free_.size() < 3) return next_++;
    const Location location = free_.front();
    free_.erase(free_.begin());
    return location;
  }

  void insert(const std::set<std::uint8_t>& keys) {
    std::vector<std::uint8_t> absent;
    std::ranges::copy_if(keys, std::back_inserter(absent), [&](std::uint8_t key) { return !where_.contains(key); });
    for (std::size_t i = 0; i < absent.size(); ++i) {
      arrays().f[i] = fingerprint(absent[i]);
      arrays().location[i] = fresh();
    }
    const auto count = static_cast<std::uint32_t>(absent.size());
    finish(stream().launch(insert_into_table,
                           {index(), arrays().f.at(), arrays().location.at(), arrays().done.at(), count}),
           "insert");
    for (std::size_t i = 0; i < absent.size(); ++i) added(absent[i], arrays().location[i], arrays().done[i], count);
  }

  void erase(const std::set<std::uint8_t>& keys) {
    std::size_t i = 0;
    for (const std::uint8_t key : keys) {
      arrays().f[i] = fingerprint(key);
      arrays().location[i++] = where_.contains(key) && key % 8 != 7 ? where_[key] : 0xffffff00u + key;
    }
    const auto count = static_cast<std::uint32_t>(keys.size());
    finish(stream().launch(erase_from_table,
                           {index(), arrays().f.at(), arrays().location.at(), arrays().done.at(), count}),
           "erase");
    i = 0;
    for (const std::uint8_t key : keys) {
      const bool there = where_.contains(key) && key % 8 != 7;
      expect(arrays().done[i++] == there, "whether a key was removed");
      if (there) removed(key);
    }
  }

  // Keys that are present are removed or replaced, absent ones inserted or, in vain, removed.
  void change(const std::set<std::uint8_t>& keys) {
    std::size_t i = 0;
    for (const std::uint8_t key : keys) {
      const bool there = where_.contains(key), stays = (key + calls_) % 4 != 0;
      const Location from = there ? where_[key] : stays ? no_location : 0xffffff00u + key;
      arrays().changes[i++] = {fingerprint(key), from, stays ? fresh() : no_location};
    }
    ++calls_;
    const auto count = static_cast<std::uint32_t>(keys.size());
    finish(stream().launch(change_table, {index(), arrays().changes.at(), arrays().done.at(), count}), "change");
    i = 0;
    for (const std::uint8_t key : keys) {
      const CellChange& c = arrays().changes[i];
      const std::uint8_t done = arrays().done[i++];
      const bool there = where_.contains(key);
      if (there) removed(key);
      expect(done == 1 || (!there && c.to != no_location), "a change that needs no room was refused");
      if (c.to != no_location) added(key, c.to, done, count);
    }
  }

  // Cells are set to something else and, in the same call, back; also some cells beyond the table.
  void apply(const std::set<std::uint8_t>& chosen) {
    download();
    std::uint32_t count = 0;
    for (const std::uint8_t cell : chosen) {
      const std::uint64_t at = cell % cells();
      arrays().dirty[count++] = {cell >= cells() ? cell : at, std::uint64_t{cell} << 40 | cell | 1};
    }
    for (const std::uint8_t cell : chosen) {
      const std::uint64_t at = cell % cells();
      arrays().dirty[count++] = {at, copy_.view().buckets[at / bucket_cells].cell[at % bucket_cells]};
    }
    finish(stream().launch(store_cells, {index(), winners_.at(), arrays().dirty.at(), count}), "apply");
  }

  void added(std::uint8_t key, Location location, std::uint8_t done, std::uint32_t count) {
    expect(done <= 1, "done is 0 or 1");
    if (done == 1) {
      where_[key] = location;
      return;
    }
    free_.push_back(location);
    if (count > 1) return;  // beside other operations its buckets may have been full for a moment
    download();
    const IndexView view = copy_.view();
    for (const std::uint32_t b : {view.first(fingerprint(key)), view.second(fingerprint(key))}) {
      for (const std::uint64_t bits : view.buckets[b].cell) expect(bits != 0, "refused, but there is room");
    }
  }
  void removed(std::uint8_t key) {
    free_.push_back(where_[key]);
    where_.erase(key);
  }

  void download() {
    const PinnedArray<std::byte> staging(device(), buckets_.bytes());
    finish(stream().copy_to_host(staging.data(), buckets_.bytes_at(), buckets_.bytes()), "copy to the host");
    std::memcpy(static_cast<void*>(copy_.view().buckets), staging.data(), staging.bytes());
  }

  void check(const std::set<std::uint8_t>& asked) {
    download();
    const IndexView view = copy_.view();
    expect(copy_.cells_used() == where_.size(), "as many cells as keys");
    for (const auto& [key, location] : where_) {
      const Fingerprint f = fingerprint(key);
      const std::uint64_t bits = Cell::of(f.signature, location).bits;
      const auto in = [&](std::uint32_t b) { return std::ranges::count(view.buckets[b].cell, bits); };
      expect(in(view.first(f)) + in(view.second(f)) == 1, "each key in one cell of its buckets");
    }
    check_search({asked.begin(), asked.end()});
    std::vector<std::uint8_t> all;
    for (const auto& [key, location] : where_) all.push_back(key);
    check_search(all);
  }

  void check_search(const std::vector<std::uint8_t>& keys) {
    const auto count = static_cast<std::uint32_t>(keys.size());
    std::vector<Fingerprint> f;
    for (const std::uint8_t key : keys) f.push_back(fingerprint(key));
    std::ranges::copy(f, arrays().f.data());
    std::fill_n(arrays().location.data(), count, 0xffffffffu);
    finish(stream().launch(search_table, SearchArguments::of(index(), arrays().f.at(), arrays().location.at(), count)),
           "search");
    for (const CuckooOps* ops : cuckoo_ops_built()) {
      if (!ops->supported()) continue;
      std::vector<Location> found(count, 0xffffffff);
      ops->search_in_turn(copy_.view(), f.data(), count, found.data(), nullptr);
      expect(std::equal(found.begin(), found.end(), arrays().location.data()), "lanes find what the device finds");
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      const bool there = where_.contains(keys[i]);
      const Location found = arrays().location[i];
      if (there) expect(found != no_location, "a key that is there is found");
      // With unique signatures, the key itself and nothing else.
      if (signatures_ == 0) expect(found == (there ? where_[keys[i]] : no_location), "what is found");
    }
  }

  const std::uint32_t signatures_;
  const DeviceArray<Bucket> buckets_;
  const DeviceArray<std::uint32_t> winners_;
  CheckTable copy_;  // of the device's table, as last downloaded
  std::map<std::uint8_t, Location> where_;
  std::vector<Location> free_;
  Location next_ = 1;
  std::uint32_t calls_ = 0;
};

}  // namespace
}  // namespace tandem

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  std::span<const std::uint8_t> rest(data + 2, size - 2);
  tandem::DeviceFuzz fuzz(2u << data[0] % 5, data[1] % 8);
  for (int steps = 0; !rest.empty() && steps < 64; ++steps) {
    const std::uint8_t kind = rest[0] % 8;
    const std::size_t count = std::min<std::size_t>(1 + rest[0] / 8, rest.size() - 1);
    fuzz.step(kind, {rest.begin() + 1, rest.begin() + 1 + static_cast<std::ptrdiff_t>(count)});
    rest = rest.subspan(1 + count);
  }
  return 0;
}
