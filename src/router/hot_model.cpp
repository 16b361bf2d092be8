#include "router/hot_model.hpp"

#include <algorithm>
#include <bit>
#include <new>

namespace tandem {

std::uint64_t HotModel::slots_for(std::uint64_t keys) noexcept {
  return std::bit_ceil(std::max<std::uint64_t>(2 * keys, 2));
}

std::unique_ptr<HotModel> HotModel::of_keys(std::span<const Fingerprint> keys, double threshold) noexcept {
  std::unique_ptr<HotModel> model(new (std::nothrow) HotModel);
  if (model == nullptr) return nullptr;
  const std::uint64_t slots = slots_for(keys.size());
  model->slots_.reset(new (std::nothrow) std::uint64_t[slots]());
  if (model->slots_ == nullptr) return nullptr;
  model->slot_mask_ = slots - 1;
  model->threshold_ = threshold;
  for (const Fingerprint f : keys) {
    const std::uint64_t key = key_word(f);
    std::uint64_t at = model->slot_of(key);
    while (model->slots_[at] != 0 && model->slots_[at] != key) at = (at + 1) & model->slot_mask_;
    if (model->slots_[at] == key) continue;
    model->slots_[at] = key;
    model->set_class(class_of(f));
    ++model->size_;
  }
  return model;
}

std::unique_ptr<HotModel> HotModel::of_bins(std::span<const std::uint8_t> is_hot, double threshold) noexcept {
  std::unique_ptr<HotModel> model(new (std::nothrow) HotModel);
  if (model == nullptr) return nullptr;
  const auto bins = static_cast<std::uint32_t>(std::min<std::size_t>(is_hot.size(), class_count));
  model->threshold_ = threshold;
  for (const std::uint8_t hot : is_hot.first(bins)) model->size_ += hot != 0;
  for (std::uint32_t c = 0; model->size_ != 0 && c < class_count; ++c) {
    if (is_hot[bin_of(c, bins)] != 0) model->set_class(c);
  }
  return model;
}

}  // namespace tandem
