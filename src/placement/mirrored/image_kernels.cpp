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

bool host_store_rewrites(const StoreRewritesArguments& arguments, const HostMemory& memory) noexcept {
  const StoreImagesArguments& a = arguments.of;
  if ((arguments.lock & word::State::mask) != static_cast<std::uint64_t>(ItemState::filling)) return false;
  Granule* const granules = memory.at(a.images.granules);
  std::uint32_t* const marks = memory.at(a.images.marks);
  const Location* const location = memory.at(a.location);
  const Granule* const from = memory.at(a.granules);
  for (std::uint32_t i = 0; i < a.count; ++i) {
    const Location l = location[i];
    if (l == no_location || l >= a.images.count) continue;
    const std::uint64_t state = from[i].word[0], fixed = from[i].word[1];
    const std::uint32_t count = image_granules(state, fixed);
    if (count > a.count - i || count > a.images.count - l) continue;
    if (!is_newer_image(state, fixed, granules[l].word[0], granules[l].word[1])) continue;
    for (std::uint32_t g = 0; g < count; ++g) granules[l + g] = from[i + g];
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
const Kernel<StoreRewritesArguments> store_rewrites{"store rewrites", host_store_rewrites,
                                                    cuda_entry<StoreRewritesArguments, cuda_store_rewrites>()};

}  // namespace tandem
