// The kernels that keep the images of items in a device's memory up to date (index/item_images.hpp).
#pragma once
#include <cstdint>

#include "device/device.hpp"
#include "heap/item.hpp"
#include "index/item_images.hpp"

namespace tandem {

struct StoreImagesArguments {
  DeviceImages images;
  DevicePtr<const Location> location;  // `count` of them, as of `granules`
  DevicePtr<const Granule> granules;
  std::uint32_t count = 0;

  std::uint64_t queries() const noexcept { return count; }
  void memory(MemoryUse& use) const;
};

// Stores granules[i] at location[i] and clears its mark. REQUIRES: no two are of one location, or any of their granules
// may win. Locations beyond the images are ignored.
extern const Kernel<StoreImagesArguments> store_images;

// A piece of a writer's ring of images, as the device is told of it. Has a granule's size: it is sent in a queue of
// them.
struct alignas(granule_bytes) RingPiece {
  static constexpr std::uint32_t places_max = 128;
  std::uint32_t first = 0;     // place in the memory of the rings
  std::uint32_t count = 0;     // places where images may begin, at most places_max
  std::uint32_t readable = 0;  // places up to the end of the last image, which may lie behind them
  std::uint32_t unused[5] = {};
};
static_assert(sizeof(RingPiece) == sizeof(Granule));

struct StoreRewritesArguments {
  DeviceImages images;
  DevicePtr<const Granule> granules;   // `places` of them, as of `location`: all rings
  DevicePtr<const Location> location;  // of the image that begins at this granule; no_location: none does
  DevicePtr<const RingPiece> piece;    // `count` of them
  std::uint32_t places = 0, count = 0;
  std::uint32_t granules_read = 0;  // places of all pieces
  // What a thread that stores an image puts in place of its state word. Of no item, and no other thread can know it:
  // where the launch finds no image there may be any bytes that clients have sent.
  std::uint64_t lock = 0;

  std::uint64_t queries() const noexcept { return granules_read; }
  void memory(MemoryUse& use) const;
};

// Stores the whole images that begin in the pieces. An image is stored unless the device has one of a live item there
// with the same or a larger CAS id; of several in one launch the largest wins. Clears the mark of what it stores.
// Images of more granules than images.item_granules, and locations beyond the images, are ignored.
extern const Kernel<StoreRewritesArguments> store_rewrites;

// Their CUDA entries (image_kernels.cu).
int cuda_store_images(const StoreImagesArguments& a, CUstream_st* stream) noexcept;
int cuda_store_rewrites(const StoreRewritesArguments& a, CUstream_st* stream) noexcept;

}  // namespace tandem
