// Images of small items in device memory, beside the replica of the index. A search then returns the items, too, and no
// processor has to read them from host memory (docs/decisions/0015-items-in-device-memory.md).
//
// The replica reports every cell that it sends to the device. The item that the cell names is sent along, or a word
// saying that it has no image. So an image is as current as the cells that the launch searched.
//
// Several cells of one part may name one item. It is read once, after all records of the part were noted: what was
// committed by then is in it, and the rest is delivered again. Two reads might be of two versions, and their granules
// the device would mix, and a set that put its image into the log has no record by which that would be mended.
//
// The images that writers have put into the log are parts of their own, stored only over older versions, each ahead of
// the part of the cells of the same drain. The device reads them in the writers' rings: the queue has the pieces of
// these (RingPiece), a few for each ring and drain.
//
// Thread safety: one thread at a time.
#pragma once
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <span>

#include "device/device.hpp"
#include "heap/heap.hpp"
#include "index/item_images.hpp"
#include "placement/mirrored/dirty_queue.hpp"
#include "placement/mirrored/writer_rings.hpp"

namespace tandem {

struct ReplicaImagesOptions {
  std::uint64_t bytes = 0;         // of device memory, for the items in as many first bytes of the heap; 0: no images
  std::uint32_t item_bytes = 128;  // header and key included, of an item with an image; at most granule_bytes *
                                   // image_granules_limit
  std::uint32_t writers = 64;      // threads with a ring for the images of their sets; other threads announce cells
};

class ReplicaImages {
 public:
  // heap: outlives it; nullptr: there are no images.
  ReplicaImages(const Heap* heap, const ReplicaImagesOptions& options);

  // The part on the device; lives while a search may use it.
  struct Memory {
    DeviceArray<Granule> granules;
    DeviceArray<std::uint32_t> marks;
    std::uint64_t bytes() const noexcept { return granules.bytes() + marks.bytes(); }
  };

  // Takes device memory for images, and pinned memory for the images of `cells` cells at once and for writers' rings.
  // Does nothing unless is_wanted(). Throws DeviceError, std::bad_alloc.
  void make(Device& device, std::uint64_t cells, std::uint32_t ring_granules);
  ImageMemory ring_memory() const noexcept {
    return {ring_granules_.data(), ring_locations_.data(), ring_granules_.count() != 0 ? options_.writers : 0};
  }
  // Queues the initialisation of new memory. Called before anything else is sent there.
  [[nodiscard]] DeviceStatus make_empty(Stream& stream) noexcept;
  // Frees the device's memory. gives_up: there will be none until try_again().
  void release(bool gives_up) noexcept;
  void try_again() noexcept { given_up_ = false; }

  bool on() const noexcept { return images_.count != 0; }
  // Images are configured but not allocated.
  bool is_wanted() const noexcept { return heap_ != nullptr && options_.bytes != 0 && !given_up_ && !on(); }
  bool given_up() const noexcept { return given_up_; }
  // The largest item with an image; 0: there are to be none.
  std::uint32_t item_granules() const noexcept { return item_granules_; }
  const DeviceImages& images() const noexcept { return images_; }
  const std::shared_ptr<const Memory>& memory() const noexcept { return memory_; }

  // Number of cells with room for their items now. Unlimited without images.
  std::uint64_t room_cells() const noexcept;
  // Reads the items of these cells, as one part. REQUIRES: the caller is in the epoch in which it read the cells; there
  // are no more than room_cells().
  void append(const std::array<std::span<const DirtyCell>, 2>& cells) noexcept;
  void append(std::span<const std::uint64_t> cells) noexcept;
  // Number of blocks of the heap, of so many granules, with room for their items beside the images of `cells_room`
  // cells.
  std::uint64_t room_blocks(std::uint64_t cells_room, std::uint32_t block_granules) const noexcept;
  // Reads the items that begin in these blocks, as one part: numbers of blocks. REQUIRES: the caller is in an epoch;
  // there are no more than room_blocks(), each once.
  void append_blocks(std::span<const std::uint32_t> blocks, std::uint32_t block_granules) noexcept;
  // Has the device read what a writer's ring has published up to position `end` and drains have not taken. Several
  // rings are one part, which end_rewritten() ends. False: there is no room beside the images of `cells_room` cells.
  // REQUIRES: on(); the ring is of ring_memory(), and keeps it until released() is what appended() is now.
  [[nodiscard]] bool append_rewritten(const ImageRing& ring, std::uint64_t end, std::uint64_t cells_room) noexcept;
  void end_rewritten() noexcept;
  // Queues all waiting parts.
  [[nodiscard]] DeviceStatus send(Stream& stream) noexcept;
  // The first read of an item by its image is reported to the host, so that its CLOCK bit and its last access are what
  // they would be without images. A mark suppresses later reports. True when reports are due again: after some seconds
  // (the host notes accesses by the minute), or when CLOCK's hand has passed over an eighth of some size class.
  bool are_marks_old() noexcept;
  [[nodiscard]] DeviceStatus clear_marks(Stream& stream) noexcept;
  std::uint64_t sent() const noexcept { return queue_.sent(); }
  std::uint64_t granules_sent() const noexcept { return granules_sent_; }  // those in pieces of rings among them
  std::uint64_t appended() const noexcept { return queue_.appended(); }
  std::uint64_t released() const noexcept { return queue_.sent() - queue_.in_flight(); }
  // The device has read everything sent before `position`.
  void release_until(std::uint64_t position) noexcept { queue_.release(position); }
  // Discards the waiting parts.
  void drop_unsent() noexcept;

  bool has_unsent() const noexcept { return queue_.waiting() != 0; }
  std::uint64_t waiting() const noexcept { return queue_.waiting() + queue_.in_flight(); }
  std::uint64_t device_bytes() const noexcept { return memory_ != nullptr ? memory_->bytes() : 0; }
  std::uint64_t pinned_bytes() const noexcept {
    return queue_memory_.bytes() + at_.bytes() + ring_granules_.bytes() + ring_locations_.bytes();
  }

 private:
  template <class CellAt>
  void append_all(std::size_t count, CellAt cell_at) noexcept;
  void append_item(Location l) noexcept;
  bool set_read(Location l) noexcept;  // returns what it was
  void push(Location at, const Granule& granule) noexcept;
  // The words of part_ends_ and of part_rewrites_ with the bit of a position.
  std::uint64_t& end_bits(std::uint64_t position) noexcept {
    return part_ends_[(position & (queue_.capacity() - 1)) / 64];
  }
  std::uint64_t& rewrite_bits(std::uint64_t position) noexcept {
    return part_rewrites_[(position & (queue_.capacity() - 1)) / 64];
  }
  void end_part(bool rewrites) noexcept;
  DeviceStatus store_pieces(Stream& stream, std::uint64_t at, std::uint32_t count) noexcept;
  // End of the part to be sent next. REQUIRES: queue_.waiting() != 0.
  std::uint64_t part_end() noexcept;

  const Heap* const heap_;
  const ReplicaImagesOptions options_;
  const std::uint32_t item_granules_;
  bool given_up_ = false, is_empty_ = false;
  std::chrono::steady_clock::time_point cleared_{}, look_after_{};
  std::uint64_t eighths_at_clear_ = 0;
  std::shared_ptr<const Memory> memory_;
  PinnedArray<Granule> queue_memory_;
  PinnedArray<Location> at_;  // of the granules in queue_memory_
  PinnedArray<Granule> ring_granules_;
  PinnedArray<Location> ring_locations_;
  DirtyQueue<Granule> queue_;
  std::uint64_t part_begin_ = 0;  // the position behind the last part
  std::uint64_t granules_sent_ = 0;
  // Bits for each place of the queue: it is the last entry of a part, and of one of pieces of rings.
  std::unique_ptr<std::uint64_t[]> part_ends_, part_rewrites_;
  std::unique_ptr<std::uint64_t[]> is_read_;  // a bit for each location: the item was read for this part
  std::mt19937_64 locks_;                     // of store_rewrites, another one for each launch
  DeviceImages images_;
};

}  // namespace tandem
