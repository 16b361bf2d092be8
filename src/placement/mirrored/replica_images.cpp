#include "placement/mirrored/replica_images.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <limits>
#include <random>
#include <utility>

#include "base/racing_copy.hpp"
#include "heap/item_rewrite.hpp"
#include "placement/mirrored/image_kernels.hpp"

namespace tandem {

ReplicaImages::ReplicaImages(const Heap* heap, const ReplicaImagesOptions& options)
    : heap_(heap),
      options_(options),
      item_granules_(heap == nullptr || options.bytes == 0
                         ? 0
                         : std::clamp(options.item_bytes / granule_bytes, 1u, image_granules_limit)) {
  std::random_device random;
  locks_.seed(std::uint64_t{random()} << 32 | random());
}

void ReplicaImages::make(Device& device, std::uint64_t cells, std::uint32_t ring_granules) {
  if (!is_wanted()) return;
  std::uint64_t count = std::min<std::uint64_t>(
      {options_.bytes / granule_bytes, heap_->reserved_bytes() / granule_bytes, std::numeric_limits<Location>::max()});
  // As many as fit, if that is a good part of them; a sixteenth of the device's memory stays free.
  const std::uint64_t free_bytes = device.memory_free_bytes();
  const std::uint64_t fitting = (free_bytes - free_bytes / 16) / granule_bytes;
  if (fitting >= count / 4) count = std::min(count, fitting);
  constexpr std::uint64_t pieces = 1 << 13;  // at least, beside the images of so many cells
  const std::uint64_t queue = std::bit_ceil(cells * item_granules_ + pieces);
  const auto memory = std::make_shared<const Memory>(DeviceArray<Granule>(device, count),
                                                     DeviceArray<std::uint32_t>(device, mark_words(count)));
  if (queue_memory_.count() != queue) {
    PinnedArray<Granule> queue_memory(device, queue);
    PinnedArray<Location> at(device, queue);
    TD_ASSERT(queue % 64 == 0);
    part_ends_ = std::make_unique<std::uint64_t[]>(queue / 64);
    part_rewrites_ = std::make_unique<std::uint64_t[]>(queue / 64);
    part_begin_ = 0;
    queue_memory_ = std::move(queue_memory);
    at_ = std::move(at);
    queue_ = DirtyQueue<Granule>({queue_memory_.data(), queue_memory_.count()});
  }
  if (const std::uint64_t places = std::uint64_t{options_.writers} * ring_granules; ring_granules_.count() != places) {
    TD_ASSERT(places <= std::numeric_limits<std::uint32_t>::max());
    PinnedArray<Granule> granules(device, places);
    ring_locations_ = PinnedArray<Location>(device, places);
    ring_granules_ = std::move(granules);
  }
  is_read_ = std::make_unique<std::uint64_t[]>(count / 64 + 1);
  memory_ = memory;
  is_empty_ = false;
  images_ = {memory->granules.at(), memory->marks.at(), static_cast<std::uint32_t>(count), item_granules_};
}

DeviceStatus ReplicaImages::make_empty(Stream& stream) noexcept {
  if (!on() || is_empty_) return DeviceStatus::ok;
  DeviceStatus status = stream.zero(memory_->granules.bytes_at(), memory_->granules.bytes());
  if (status == DeviceStatus::ok) status = clear_marks(stream);
  is_empty_ = status == DeviceStatus::ok;
  return status;
}

void ReplicaImages::release(bool gives_up) noexcept {
  given_up_ |= gives_up;
  drop_unsent();
  images_ = {};
  memory_ = nullptr;
  is_read_ = nullptr;
}

std::uint64_t ReplicaImages::room_cells() const noexcept {
  return on() ? queue_.room() / images_.item_granules : std::numeric_limits<std::uint64_t>::max();
}

void ReplicaImages::push(Location at, const Granule& granule) noexcept {
  at_[queue_.appended() & (queue_.capacity() - 1)] = at;
  queue_.push(granule);
}

void ReplicaImages::append(const std::array<std::span<const DirtyCell>, 2>& cells) noexcept {
  const auto [first, second] = cells;
  append_all(first.size() + second.size(),
             [&](std::size_t i) { return Cell{i < first.size() ? first[i].bits : second[i - first.size()].bits}; });
}

void ReplicaImages::append(std::span<const std::uint64_t> cells) noexcept {
  append_all(cells.size(), [&](std::size_t i) { return Cell{cells[i]}; });
}

// Items are scattered in memory: each is prefetched long before it is read.
template <class CellAt>
void ReplicaImages::append_all(std::size_t count, CellAt cell_at) noexcept {
  constexpr std::size_t ahead = 24;
  if (!on()) return;
  const auto prefetch = [&](std::size_t i) {
    if (i >= count) return;
    const Location l = cell_at(i).location();
    prefetch_read(heap_->at(l));
    if (l < images_.count) prefetch_write(&is_read_[l / 64]);
  };
  for (std::size_t i = 0; i < ahead; ++i) prefetch(i);
  for (std::size_t i = 0; i < count; ++i) {
    prefetch(i + ahead);
    const Location l = cell_at(i).location();
    if (l != no_location && l < images_.count && !set_read(l)) append_item(l);
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (const Location l = cell_at(i).location(); l < images_.count) is_read_[l / 64] = 0;
  }
  end_part(false);
}

std::uint64_t ReplicaImages::room_blocks(std::uint64_t cells_room, std::uint32_t block_granules) const noexcept {
  if (!on()) return 0;
  const std::uint64_t room = queue_.room(), reserved = cells_room * images_.item_granules;
  return (room - std::min(room, reserved)) / (block_granules + images_.item_granules);
}

void ReplicaImages::append_blocks(std::span<const std::uint32_t> blocks, std::uint32_t block_granules) noexcept {
  constexpr std::size_t ahead = 12;
  const auto prefetch = [&](std::size_t i) {
    if (i >= blocks.size()) return;
    const char* const block = heap_->at(blocks[i] * block_granules)->bytes();
    for (std::uint32_t at = 0; at < block_granules * granule_bytes; at += cache_line_bytes) prefetch_read(block + at);
  };
  for (std::size_t i = 0; i < ahead; ++i) prefetch(i);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    prefetch(i + ahead);
    heap_->visit_granules(blocks[i] * block_granules, block_granules, [&](Location l, const Item*) {
      if (l < images_.count) append_item(l);
    });
  }
  end_part(false);
}

void ReplicaImages::end_part(bool rewrites) noexcept {
  if (queue_.appended() == part_begin_) return;
  part_begin_ = queue_.appended();
  const std::uint64_t last = part_begin_ - 1, bit = std::uint64_t{1} << last % 64;
  end_bits(last) |= bit;
  rewrite_bits(last) = rewrites ? rewrite_bits(last) | bit : rewrite_bits(last) & ~bit;
}

bool ReplicaImages::append_rewritten(const ImageRing& ring, std::uint64_t end, std::uint64_t cells_room) noexcept {
  const std::uint64_t reserved = cells_room * images_.item_granules;
  const std::uint64_t room = queue_.room() - std::min(queue_.room(), reserved);
  if ((end - ring.taken) / RingPiece::places_max + 2 > room) return false;
  for (std::uint64_t at = ring.taken; at != end;) {
    const std::uint64_t place = at & ring.mask;
    // No image wraps around.
    const std::uint64_t readable = std::min(end - at, ring.capacity() - place);
    const std::uint64_t count = std::min<std::uint64_t>(readable, RingPiece::places_max);
    const RingPiece piece{.first = static_cast<std::uint32_t>(ring.first + place),
                          .count = static_cast<std::uint32_t>(count),
                          .readable = static_cast<std::uint32_t>(readable)};
    push(no_location, std::bit_cast<Granule>(piece));
    at += count;
  }
  return true;
}

void ReplicaImages::end_rewritten() noexcept { end_part(true); }

bool ReplicaImages::set_read(Location l) noexcept {
  std::uint64_t& word = is_read_[l / 64];
  const std::uint64_t mine = std::uint64_t{1} << l % 64;
  const bool was = (word & mine) != 0;
  word |= mine;
  return was;
}

// REQUIRES: it may have an image.
void ReplicaImages::append_item(Location l) noexcept {
  const Item* const item = heap_->at(l);
  // A set that rewrites the item meanwhile has a record in the log, so that a later drain reads the item again; this
  // one sends the version before or after it, never a mix.
  Granule image[image_granules_limit];
  std::uint32_t granules = 0;
  copy_validated(item, 0, [&](const ItemVersion& seen) noexcept {
    // Of a dead item no other word is read: its slot may be reused.
    granules = image_granules(seen.state, seen.fixed);
    if (granules > images_.item_granules || granules > images_.count - l) granules = 0;
    if (granules == 0) return;
    image[granules - 1] = {};  // the rest of the slot after the item is uninitialised
    auto* const to = reinterpret_cast<char*>(image);
    racing_copy(to + sizeof(Item), item->bytes() + sizeof(Item), image_bytes(seen.fixed) - sizeof(Item));
    image[0].word[0] = seen.state;
    image[0].word[1] = seen.fixed;
  });
  if (granules == 0) return push(l, Granule{});
  for (std::uint32_t g = 0; g < granules; ++g) push(l + g, image[g]);
}

std::uint64_t ReplicaImages::part_end() noexcept {
  std::uint64_t position = queue_.sent();
  for (;;) {
    const std::uint64_t bits = end_bits(position) >> position % 64;
    if (bits != 0) return position + static_cast<std::uint64_t>(std::countr_zero(bits)) + 1;
    position += 64 - position % 64;
  }
}

DeviceStatus ReplicaImages::send(Stream& stream) noexcept {
  while (queue_.waiting() != 0) {
    const std::uint64_t end = part_end();
    const std::uint64_t count = std::min<std::uint64_t>(queue_.unsent().size(), end - queue_.sent());
    const std::uint64_t at = queue_.offset();
    const bool rewrites = (rewrite_bits(end - 1) >> (end - 1) % 64 & 1) != 0;
    const auto entries = static_cast<std::uint32_t>(count);
    if (!rewrites) granules_sent_ += count;
    const DeviceStatus status = rewrites
                                    ? store_pieces(stream, at, entries)
                                    : stream.launch(store_images, {images_, at_.at(at), queue_memory_.at(at), entries});
    if (status != DeviceStatus::ok) return status;
    queue_.send(count);
    if (queue_.sent() == end) end_bits(end - 1) &= ~(std::uint64_t{1} << (end - 1) % 64);
  }
  return DeviceStatus::ok;
}

DeviceStatus ReplicaImages::store_pieces(Stream& stream, std::uint64_t at, std::uint32_t count) noexcept {
  constexpr auto filling = static_cast<std::uint64_t>(ItemState::filling);
  StoreRewritesArguments of{.images = images_,
                            .granules = ring_granules_.at(),
                            .location = ring_locations_.at(),
                            .piece = DevicePtr<const RingPiece>(queue_memory_.at(at).address()),
                            .places = static_cast<std::uint32_t>(ring_granules_.count()),
                            .count = count,
                            .lock = word::State::put(locks_(), filling)};
  for (const Granule& entry : std::span(queue_memory_.data() + at, count))
    of.granules_read += std::bit_cast<RingPiece>(entry).count;
  granules_sent_ += of.granules_read;
  return stream.launch(store_rewrites, of);
}

bool ReplicaImages::are_marks_old() noexcept {
  using std::chrono::milliseconds, std::chrono::seconds, std::chrono::steady_clock;
  if (!on()) return false;
  const auto now = steady_clock::now();
  if (now < look_after_) return false;
  look_after_ = now + milliseconds(10);
  const std::uint64_t eighths = heap_->eighths_swept();
  if (eighths == eighths_at_clear_ && now - cleared_ < seconds(10)) return false;
  cleared_ = now;
  eighths_at_clear_ = eighths;
  return true;
}

DeviceStatus ReplicaImages::clear_marks(Stream& stream) noexcept {
  return on() ? stream.zero(memory_->marks.bytes_at(), memory_->marks.bytes()) : DeviceStatus::ok;
}

void ReplicaImages::drop_unsent() noexcept {
  if (queue_.waiting() == 0) return;
  for (std::uint64_t position = queue_.sent(); position != queue_.appended(); ++position)
    end_bits(position) &= ~(std::uint64_t{1} << position % 64);
  queue_.drop_unsent();
  part_begin_ = queue_.appended();
}

}  // namespace tandem
