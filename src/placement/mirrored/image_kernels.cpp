#include "placement/mirrored/image_kernels.hpp"

namespace tandem {
namespace {

bool host_store_images(const StoreImagesArguments& a, const HostMemory& memory) noexcept {
  Granule* const granules = memory.at(a.images.granules);
  std::uint32_t* const marks = memory.at(a.images.marks);
  const Location* const location = memory.at(a.location);
  const Granule* const from = memory.at(a.granules);
  for (std::uint32_t i = 0; i < a.count; ++i) {
    const Location l = location[i];
    if (l >= a.images.count) continue;
    granules[l] = from[i];
    marks[l / 32] &= ~(1u << l % 32);
  }
  return true;
}

}  // namespace

void StoreImagesArguments::memory(MemoryUse& use) const {
  use.add(images.granules, images.count);
  use.add(images.marks, mark_words(images.count));
  use.add(location, count);
  use.add(granules, count);
}

const Kernel<StoreImagesArguments> store_images{"store images", host_store_images,
                                                cuda_entry<StoreImagesArguments, cuda_store_images>()};

}  // namespace tandem
