// The kernel that keeps the images of items in a device's memory up to date (index/item_images.hpp).
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

// Stores granules[i] at location[i] and clears its mark. If a location occurs several times, any of its granules may
// win. Locations beyond the images are ignored.
extern const Kernel<StoreImagesArguments> store_images;

// Its CUDA entry (image_kernels.cu).
int cuda_store_images(const StoreImagesArguments& a, CUstream_st* stream) noexcept;

}  // namespace tandem
