#include "device/sim/sim_stream.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <new>
#include <utility>

#include "index/cuckoo.hpp"

namespace tandem::sim {
namespace {

template <class T>
Range range_of(DevicePtr<T> at, std::uint64_t count) noexcept {
  return {at.address(), count * sizeof(T), alignof(T)};
}

Range table_of(DeviceIndex index) noexcept {
  const std::uint64_t buckets = std::uint64_t{index.mask} + 1;
  if (buckets < 2 || !std::has_single_bit(buckets)) return {0, 1, 1};  // no table: no such range
  return range_of(index.buckets, buckets);
}

IndexView view_of(std::byte* buckets, std::uint32_t mask) noexcept {
  return {reinterpret_cast<Bucket*>(buckets), mask};
}

template <class T>
T* as(std::byte* at) noexcept {
  return reinterpret_cast<T*>(at);
}

// False: a winner was not zero.
bool apply_cells(IndexView index, const std::uint32_t* winners, const DirtyCell* cells, std::uint32_t count) noexcept {
  const std::uint64_t in_table = (std::uint64_t{index.mask} + 1) * bucket_cells;
  bool zero = true;
  for (std::uint32_t i = 0; i < count; ++i) {
    const DirtyCell c = cells[i];
    if (c.index >= in_table) continue;
    zero = zero && winners[c.index] == 0;
    std::uint64_t& cell = index.buckets[c.index / bucket_cells].cell[c.index % bucket_cells];
    std::atomic_ref<std::uint64_t>(cell).store(c.bits, std::memory_order_relaxed);
  }
  return zero;
}

}  // namespace

SimStream::SimStream(std::shared_ptr<Core> core) : queue_(std::make_shared<Queue>(std::move(core))) {
  thread_ = std::thread([queue = queue_] { queue->run(); });
}

SimStream::~SimStream() {
  queue_->close();
  thread_.join();
  queue_->drop();  // what came as the device was lost
}

DeviceStatus SimStream::submit(Engine engine, Nanoseconds duration, std::initializer_list<Range> ranges,
                               Run run) noexcept {
  Core& core = queue_->core();
  if (core.lost()) return DeviceStatus::lost;
  if (core.refuse.hit()) return DeviceStatus::failed;
  for (const Range& range : ranges) {
    if (core.memory.find(range.address, range.bytes, range.alignment).at == nullptr) return DeviceStatus::failed;
  }
  return push(engine, duration, ranges, std::move(run));
}

DeviceStatus SimStream::push(Engine engine, Nanoseconds duration, std::initializer_list<Range> ranges,
                             Run run) noexcept {
  Work work;
  work.engine = engine;
  work.duration = duration;
  std::ranges::copy(ranges, work.ranges.begin());
  work.run = std::move(run);
  return queue_->push(std::move(work));
}

DeviceStatus SimStream::copy(Engine engine, std::uint64_t to, std::uint64_t from, std::uint64_t bytes) noexcept {
  return submit(engine, queue_->core().copy_time(bytes), {{to, bytes, 1}, {from, bytes, 1}}, [bytes](const Places& at) {
    std::memcpy(at[0], at[1], bytes);
    return true;
  });
}

DeviceStatus SimStream::copy_to_device(DevicePtr<std::byte> to, const void* from, std::uint64_t bytes) noexcept {
  if (bytes == 0) return queue_->poll(0);
  return copy(Engine::copy_in, to.address(), queue_->core().memory.address_of(from, bytes), bytes);
}

DeviceStatus SimStream::copy_to_host(void* to, DevicePtr<const std::byte> from, std::uint64_t bytes) noexcept {
  if (bytes == 0) return queue_->poll(0);
  return copy(Engine::copy_out, queue_->core().memory.address_of(to, bytes), from.address(), bytes);
}

DeviceStatus SimStream::zero(DevicePtr<std::byte> at, std::uint64_t bytes) noexcept {
  if (bytes == 0) return queue_->poll(0);
  return submit(Engine::kernel, Nanoseconds(0), {{at.address(), bytes, 1}}, [bytes](const Places& place) {
    std::memset(place[0], 0, bytes);
    return true;
  });
}

DeviceStatus SimStream::search(DeviceIndex index, DevicePtr<const Fingerprint> f, DevicePtr<Location> location,
                               std::uint32_t count) noexcept {
  if (count == 0) return queue_->poll(0);
  return submit(Engine::kernel, queue_->core().kernel_time(count),
                {table_of(index), range_of(f, count), range_of(location, count)},
                [mask = index.mask, count](const Places& at) {
                  cuckoo_scalar.search_in_turn(view_of(at[0], mask), as<const Fingerprint>(at[1]), count,
                                               as<Location>(at[2]), nullptr);
                  return true;
                });
}

// Part by part, after all have been looked at; the first one takes the time of all.
DeviceStatus SimStream::search(DeviceIndex index, const SearchPart* part, std::uint32_t parts) noexcept {
  Core& core = queue_->core();
  if (parts > search_parts_max) return core.lost() ? DeviceStatus::lost : DeviceStatus::failed;
  std::uint64_t queries = 0;
  for (std::uint32_t p = 0; p < parts; ++p) {
    queries += part[p].count;
    for (const Range& range : {range_of(DevicePtr<const Fingerprint>(part[p].fingerprints), part[p].count),
                               range_of(DevicePtr<Location>(part[p].locations), part[p].count)}) {
      if (range.bytes == 0) continue;
      if (core.memory.find(range.address, range.bytes, range.alignment).at == nullptr)
        return core.lost() ? DeviceStatus::lost : DeviceStatus::failed;
    }
  }
  if (queries == 0) return queue_->poll(0);
  Nanoseconds duration = core.kernel_time(queries);
  bool first = true;
  for (std::uint32_t p = 0; p < parts; ++p) {
    if (part[p].count == 0) continue;
    const std::initializer_list<Range> ranges = {
        table_of(index), range_of(DevicePtr<const Fingerprint>(part[p].fingerprints), part[p].count),
        range_of(DevicePtr<Location>(part[p].locations), part[p].count)};
    Run run = [mask = index.mask, count = part[p].count](const Places& at) {
      cuckoo_scalar.search_in_turn(view_of(at[0], mask), as<const Fingerprint>(at[1]), count, as<Location>(at[2]),
                                   nullptr);
      return true;
    };
    const DeviceStatus status = first ? submit(Engine::kernel, duration, ranges, std::move(run))
                                      : push(Engine::kernel, Nanoseconds(0), ranges, std::move(run));
    if (status != DeviceStatus::ok) return status;
    first = false;
  }
  return DeviceStatus::ok;
}

DeviceStatus SimStream::insert(DeviceIndex index, DevicePtr<const Fingerprint> f, DevicePtr<const Location> location,
                               DevicePtr<std::uint8_t> done, std::uint32_t count) noexcept {
  return update(cuckoo_scalar.insert, index, f, location, done, count);
}

DeviceStatus SimStream::erase(DeviceIndex index, DevicePtr<const Fingerprint> f, DevicePtr<const Location> location,
                              DevicePtr<std::uint8_t> done, std::uint32_t count) noexcept {
  return update(cuckoo_scalar.erase, index, f, location, done, count);
}

DeviceStatus SimStream::update(Update one, DeviceIndex index, DevicePtr<const Fingerprint> f,
                               DevicePtr<const Location> location, DevicePtr<std::uint8_t> done,
                               std::uint32_t count) noexcept {
  if (count == 0) return queue_->poll(0);
  return submit(Engine::kernel, queue_->core().kernel_time(count),
                {table_of(index), range_of(f, count), range_of(location, count), range_of(done, count)},
                [one, mask = index.mask, count](const Places& at) {
                  for (std::uint32_t i = 0; i < count; ++i) {
                    as<std::uint8_t>(at[3])[i] =
                        one(view_of(at[0], mask), as<const Fingerprint>(at[1])[i], as<const Location>(at[2])[i]);
                  }
                  return true;
                });
}

DeviceStatus SimStream::apply(DeviceIndex index, DevicePtr<std::uint32_t> winners, DevicePtr<const DirtyCell> cells,
                              std::uint32_t count) noexcept {
  if (count == 0) return queue_->poll(0);
  const std::uint64_t in_table = (std::uint64_t{index.mask} + 1) * bucket_cells;
  return submit(Engine::kernel, queue_->core().kernel_time(count),
                {table_of(index), range_of(winners, in_table), range_of(cells, count)},
                [mask = index.mask, count](const Places& at) {
                  return apply_cells(view_of(at[0], mask), as<const std::uint32_t>(at[1]), as<const DirtyCell>(at[2]),
                                     count);
                });
}

DeviceStatus SimStream::after(Stream& other, DeviceMark mark) noexcept {
  if (queue_->core().lost()) return DeviceStatus::lost;
  const auto* const stream = dynamic_cast<const SimStream*>(&other);
  if (stream == nullptr || &stream->queue_->core() != &queue_->core()) return DeviceStatus::failed;
  if (stream == this) return DeviceStatus::ok;
  Work work;
  work.mark = mark;
  work.other = stream->queue_;
  return queue_->push(std::move(work));
}

}  // namespace tandem::sim
