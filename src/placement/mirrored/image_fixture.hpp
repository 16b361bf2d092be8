// For tests, on a simulated device: the images of the items that a search has found, as they were behind it on its
// stream.
#pragma once
#include <algorithm>
#include <cstdint>

#include "device/kernel.hpp"
#include "index/item_images.hpp"

namespace tandem {

struct FoundImage {
  std::uint32_t granules = 0;  // 0: the item has no image
  Granule granule[image_granules_limit];
  const Item* item() const noexcept { return granules != 0 ? reinterpret_cast<const Item*>(granule) : nullptr; }
};

struct ReadImagesArguments {
  DeviceImages images;
  DevicePtr<const Location> location;  // `count`, as of `found`
  DevicePtr<FoundImage> found;
  std::uint32_t count = 0;

  std::uint64_t queries() const noexcept { return count; }
  void memory(MemoryUse& use) const {
    images.memory(use);
    use.add(location, count);
    use.add(found, count);
  }
};

inline bool host_read_images(const ReadImagesArguments& a, const HostMemory& memory) noexcept {
  const Granule* const images = memory.at(a.images.granules);
  const Location* const location = memory.at(a.location);
  FoundImage* const found = memory.at(a.found);
  for (std::uint32_t i = 0; i < a.count; ++i) {
    const Location l = location[i];
    std::uint32_t n = l != no_location && l < a.images.count ? image_granules(images[l].word[0], images[l].word[1]) : 0;
    if (n > a.images.item_granules || n > a.images.count - l) n = 0;
    found[i].granules = n;
    if (n != 0) std::copy_n(images + l, n, found[i].granule);
  }
  return true;
}

inline const Kernel<ReadImagesArguments> read_images{"read images", host_read_images, nullptr};

}  // namespace tandem
