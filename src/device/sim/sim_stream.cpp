#include "device/sim/sim_stream.hpp"

#include <algorithm>
#include <array>
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

// What a search touches, in the order in which it is told where that lies.
std::array<Range, 7> ranges_of(DeviceIndex index, const DeviceImages& images, const SearchPart& part) noexcept {
  const std::uint64_t count = part.count, with_images = part.images != 0 ? count : 0;
  return {count != 0 ? table_of(index) : Range{},
          range_of(DevicePtr<const Fingerprint>(part.fingerprints), count),
          range_of(DevicePtr<Location>(part.locations), count),
          range_of(images.granules, with_images != 0 ? images.count : 0),
          range_of(images.marks, with_images != 0 ? mark_words(images.count) : 0),
          range_of(DevicePtr<std::uint32_t>(part.images), with_images),
          range_of(DevicePtr<Granule>(part.arena), with_images * images.item_granules)};
}

// What a GPU's threads do together (item_images-inl.cuh), one item after the other.
void copy_images(const ItemImages& images, const Location* location, std::uint32_t count, std::uint32_t* image,
                 Granule* arena) noexcept {
  std::uint32_t used = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const bool wanted = std::exchange(image[i], 0) != 0;
    const Location l = location[i];
    if (!wanted || l == no_location || l >= images.count) continue;
    const Granule* const item = images.granules + l;
    const std::uint32_t granules = image_granules(item->word[0], item->word[1]);
    if (granules == 0 || granules > images.item_granules || granules > images.count - l) continue;
    std::uint32_t& marks = images.marks[l / 32];
    const std::uint32_t mark = 1u << l % 32;
    std::copy_n(item, granules, arena + used);
    arena[used].word[0] = word::Accessed::put(item->word[0], (marks & mark) != 0 ? 1 : 0);
    marks |= mark;
    image[i] = used + 1;
    used += granules;
  }
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
  return push(engine, duration, {ranges.begin(), ranges.size()}, std::move(run));
}

DeviceStatus SimStream::push(Engine engine, Nanoseconds duration, std::span<const Range> ranges, Run run) noexcept {
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

// Part by part, after all have been looked at; the first one takes the time of all.
DeviceStatus SimStream::search_parts(DeviceIndex index, const DeviceImages& images, const SearchPart* part,
                                     std::uint32_t parts) noexcept {
  Core& core = queue_->core();
  if (core.lost()) return DeviceStatus::lost;
  if (parts > search_parts_max) return DeviceStatus::failed;
  std::uint64_t queries = 0;
  for (std::uint32_t p = 0; p < parts; ++p) {
    queries += part[p].count;
    for (const Range& range : ranges_of(index, images, part[p])) {
      if (range.bytes != 0 && core.memory.find(range.address, range.bytes, range.alignment).at == nullptr)
        return core.lost() ? DeviceStatus::lost : DeviceStatus::failed;
    }
  }
  if (queries == 0) return queue_->poll(0);
  if (core.refuse.hit()) return DeviceStatus::failed;
  Nanoseconds duration = core.kernel_time(queries);
  for (std::uint32_t p = 0; p < parts; ++p) {
    if (part[p].count == 0) continue;
    const auto ranges = ranges_of(index, images, part[p]);
    Run run = [mask = index.mask, images, one = part[p]](const Places& at) {
      Location* const location = as<Location>(at[2]);
      cuckoo_scalar.search_in_turn(view_of(at[0], mask), as<const Fingerprint>(at[1]), one.count, location, nullptr);
      if (one.images != 0) {
        copy_images({as<Granule>(at[3]), as<std::uint32_t>(at[4]), images.count, images.item_granules}, location,
                    one.count, as<std::uint32_t>(at[5]), as<Granule>(at[6]));
      }
      return true;
    };
    const DeviceStatus status = push(Engine::kernel, duration, ranges, std::move(run));
    if (status != DeviceStatus::ok) return status;
    duration = Nanoseconds(0);
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

DeviceStatus SimStream::change(DeviceIndex index, DevicePtr<const CellChange> changes, DevicePtr<std::uint8_t> done,
                               std::uint32_t count) noexcept {
  if (count == 0) return queue_->poll(0);
  return submit(Engine::kernel, queue_->core().kernel_time(count),
                {table_of(index), range_of(changes, count), range_of(done, count)},
                [mask = index.mask, count](const Places& at) {
                  const IndexView table = view_of(at[0], mask);
                  const auto* const change = as<const CellChange>(at[1]);
                  auto* const finished = as<std::uint8_t>(at[2]);
                  for (std::uint32_t i = 0; i < count; ++i)
                    finished[i] = cuckoo_scalar.replace_changed(table, change[i]);
                  for (std::uint32_t i = 0; i < count; ++i) {
                    if (finished[i] == 0) finished[i] = cuckoo_scalar.insert_changed(table, change[i]);
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

DeviceStatus SimStream::apply_images(const DeviceImages& images, DevicePtr<const Location> location,
                                     DevicePtr<const Granule> granules, std::uint32_t count) noexcept {
  if (count == 0) return queue_->poll(0);
  return submit(Engine::kernel, queue_->core().kernel_time(count),
                {range_of(images.granules, images.count), range_of(images.marks, mark_words(images.count)),
                 range_of(location, count), range_of(granules, count)},
                [in_images = images.count, count](const Places& at) {
                  for (std::uint32_t i = 0; i < count; ++i) {
                    const Location l = as<const Location>(at[2])[i];
                    if (l >= in_images) continue;
                    as<Granule>(at[0])[l] = as<const Granule>(at[3])[i];
                    as<std::uint32_t>(at[1])[l / 32] &= ~(1u << l % 32);
                  }
                  return true;
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
