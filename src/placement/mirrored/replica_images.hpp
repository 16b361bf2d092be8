// Images of small items in a device's memory, beside its replica of the index: then a search returns the items, too,
// and no processor has to read them where they lie (docs/decisions/0015-items-in-device-memory.md).
//
// Whoever keeps the replica tells of every cell that it sends to the device: the item that the cell names goes along,
// or the word that it has no image. So what a launch finds is as true as the cells that it searched.
//
// Several cells of one part may name one item; the device stores its granules in any order. That is right since each
// item of a part is read after all records that the part answers were noted: what was committed by then is in all of
// those reads, and what was not is delivered again.
//
// Thread safety: one thread at a time.
#pragma once
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>

#include "device/device.hpp"
#include "heap/heap.hpp"
#include "index/item_images.hpp"
#include "placement/mirrored/dirty_queue.hpp"

namespace tandem {

struct ReplicaImagesOptions {
  std::uint64_t bytes = 0;         // of the device's memory, for items of the first so many of the heap; 0: no images
  std::uint32_t item_bytes = 128;  // header and key included, of an item with an image; at most granule_bytes *
                                   // image_granules_limit
};

class ReplicaImages {
 public:
  // heap: outlives it; nullptr: there are no images.
  ReplicaImages(const Heap* heap, const ReplicaImagesOptions& options);

  // The device's part: lives as long as somebody may search it.
  struct Memory {
    DeviceArray<Granule> granules;
    DeviceArray<std::uint32_t> marks;
    std::uint64_t bytes() const noexcept { return granules.bytes() + marks.bytes(); }
  };

  // Takes memory for images, and pinned memory so that `cells` cells at once have room for theirs. Does nothing unless
  // is_wanted(). Throws DeviceError, std::bad_alloc.
  void make(Device& device, std::uint64_t cells);
  // Queues what makes new memory empty. Before anything else is sent there.
  [[nodiscard]] DeviceStatus make_empty(Stream& stream) noexcept;
  // Lets go of the device's memory. gives_up: there will be none until try_again().
  void release(bool gives_up) noexcept;
  void try_again() noexcept { given_up_ = false; }

  bool on() const noexcept { return images_.count != 0; }
  // There are to be images, and are none yet.
  bool is_wanted() const noexcept { return heap_ != nullptr && options_.bytes != 0 && !given_up_ && !on(); }
  bool given_up() const noexcept { return given_up_; }
  // Of an item with an image, at most; 0: there are to be none.
  std::uint32_t item_granules() const noexcept { return item_granules_; }
  const DeviceImages& images() const noexcept { return images_; }
  const std::shared_ptr<const Memory>& memory() const noexcept { return memory_; }

  // Cells whose items have room now. All of them, without images.
  std::uint64_t room_cells() const noexcept;
  // Reads the items of these cells; they are one part. REQUIRES: the caller is in the epoch in which it read the cells;
  // there are no more than room_cells().
  void append(const std::array<std::span<const DirtyCell>, 2>& cells) noexcept;
  void append(std::span<const std::uint64_t> cells) noexcept;
  // Queues all parts that wait.
  [[nodiscard]] DeviceStatus send(Stream& stream) noexcept;
  // Who reads an item by its image tells the host at the first time, so that its CLOCK bit and the second of its last
  // access are what they would be without images; when that is out of date they have to hear of it again: some seconds
  // later (the host notes accesses by the minute), or when CLOCK's hand has passed over an eighth of some size class.
  bool are_marks_old() noexcept;
  [[nodiscard]] DeviceStatus clear_marks(Stream& stream) noexcept;
  std::uint64_t sent() const noexcept { return queue_.sent(); }
  // The device is done with what was sent before `position`.
  void release_until(std::uint64_t position) noexcept { queue_.release(position); }
  // What waits is not wanted any more.
  void drop_unsent() noexcept;

  std::uint64_t waiting() const noexcept { return queue_.waiting() + queue_.in_flight(); }
  std::uint64_t device_bytes() const noexcept { return memory_ != nullptr ? memory_->bytes() : 0; }
  std::uint64_t pinned_bytes() const noexcept { return queue_memory_.bytes() + at_.bytes(); }

 private:
  template <class CellAt>
  void append_all(std::size_t count, CellAt cell_at) noexcept;
  void append_item(Location l) noexcept;
  void push(Location at, const Granule& granule) noexcept;
  std::uint64_t& end_bits(std::uint64_t position) noexcept {
    return part_ends_[(position & (queue_.capacity() - 1)) / 64];
  }
  // Where the part that is to be sent next ends. REQUIRES: queue_.waiting() != 0.
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
  DirtyQueue<Granule> queue_;
  std::unique_ptr<std::uint64_t[]> part_ends_;  // a bit for each place of the queue: the last granule of a part
  DeviceImages images_;
};

}  // namespace tandem
