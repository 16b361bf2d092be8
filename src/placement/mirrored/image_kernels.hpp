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

struct StoreRewritesArguments {
  StoreImagesArguments of;
  // What a thread that stores an image puts in place of its state word. Of no item, and nobody else can know it: where
  // the launch finds no image there may be any bytes that clients have sent.
  std::uint64_t lock = 0;

  std::uint64_t queries() const noexcept { return of.count; }
  void memory(MemoryUse& use) const { of.memory(use); }
};

// Stores whole images, one behind the other: location[i] is that of the image that begins at granules[i], and
// no_location where none begins. An image is stored unless the device has one of a live item there with the same or a
// larger CAS id; of several in one launch the largest wins. Clears the mark of what it stores.
extern const Kernel<StoreRewritesArguments> store_rewrites;

// Their CUDA entries (image_kernels.cu).
int cuda_store_images(const StoreImagesArguments& a, CUstream_st* stream) noexcept;
int cuda_store_rewrites(const StoreRewritesArguments& a, CUstream_st* stream) noexcept;

}  // namespace tandem
