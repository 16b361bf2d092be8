#include "placement/mirrored/image_kernels.hpp"

#include <algorithm>
#include <span>

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

bool host_store_rewrites(const StoreRewritesArguments& a, const HostMemory& memory) noexcept {
  if ((a.lock & word::State::mask) != static_cast<std::uint64_t>(ItemState::filling)) return false;
  Granule* const granules = memory.at(a.images.granules);
  std::uint32_t* const marks = memory.at(a.images.marks);
  const Granule* const all = memory.at(a.granules);
  const Location* const location = memory.at(a.location);
  for (const RingPiece& piece : std::span(memory.at(a.piece), a.count)) {
    if (piece.first > a.places || piece.readable > a.places - piece.first || piece.count > piece.readable) return false;
    for (std::uint32_t i = 0; i < piece.count; ++i) {
      const Location l = location[piece.first + i];
      if (l == no_location || l >= a.images.count) continue;
      const Granule* const from = all + piece.first + i;
      const std::uint64_t state = from->word[0], fixed = from->word[1];
      const std::uint32_t count = image_granules(state, fixed);
      if (count > std::min({a.images.item_granules, piece.readable - i, a.images.count - l})) continue;
      if (!is_newer_image(state, fixed, granules[l].word[0], granules[l].word[1])) continue;
      std::copy_n(from, count, granules + l);
      marks[l / 32] &= ~(1u << l % 32);
    }
  }
  return true;
}

}  // namespace

void StoreImagesArguments::memory(MemoryUse& use) const {
  images.memory(use);
  use.add(location, count);
  use.add(granules, count);
}

void StoreRewritesArguments::memory(MemoryUse& use) const {
  images.memory(use);
  use.add(granules, places);
  use.add(location, places);
  use.add(piece, count);
}

const Kernel<StoreImagesArguments> store_images{"store images", host_store_images,
                                                cuda_entry<StoreImagesArguments, cuda_store_images>()};
const Kernel<StoreRewritesArguments> store_rewrites{"store rewrites", host_store_rewrites,
                                                    cuda_entry<StoreRewritesArguments, cuda_store_rewrites>()};

}  // namespace tandem
