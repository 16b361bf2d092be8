#include "pipeline/device_batch.hpp"

#include <algorithm>
#include <bit>

#include "base/hash.hpp"
#include "task/key_compare.hpp"

namespace tandem {
namespace {

Batch batch_over(DevicePart* only, Fingerprint* fingerprints, Location* locations, std::uint32_t capacity) {
  return only != nullptr ? Batch(capacity, fingerprints, locations) : Batch(capacity);
}

}  // namespace

DeviceBatch::DeviceBatch(EpochDomain& epochs, std::vector<std::unique_ptr<DevicePart>> parts, std::uint32_t capacity)
    : parts_(std::move(parts)),
      shard_bits_(static_cast<std::uint32_t>(std::bit_width(parts_.size()) - 1)),
      batch_(batch_over(parts_.size() == 1 ? parts_[0].get() : nullptr, parts_[0]->fingerprints_.data(),
                        parts_[0]->locations_.data(), capacity)),
      epoch_(epochs) {
  TD_ASSERT(std::has_single_bit(parts_.size()) && parts_.size() <= shards_max);
  batch_.shard_bits = shard_bits_;
  if (shard_bits_ != 0 && std::ranges::any_of(parts_, [](const auto& part) { return part->images_.count() != 0; }))
    images_ = std::make_unique<std::uint32_t[]>(capacity);
}

bool DeviceBatch::is_with_schedulers() const noexcept {
  return std::ranges::any_of(parts_, [](const auto& part) { return part->is_with_scheduler(); });
}

bool DeviceBatch::is_done() const noexcept {
  return std::ranges::all_of(
      parts_, [](const auto& part) { return !part->has_queries() || part->state() == DevicePart::State::done; });
}

void DeviceBatch::hash(std::uint64_t hash_seed, std::uint32_t device_end) noexcept {
  batch_.device_end = device_end;
  const Query* const queries = batch_.queries();
  Fingerprint* const fingerprints = batch_.fingerprints();
  for (std::uint32_t i = 0; i < device_end; ++i) {
    const Query& q = queries[i];
    const bool has_key = TD_LIKELY(q.opcode != Opcode::control && q.opcode != Opcode::nothing);
    fingerprints[i] = has_key ? fingerprint_of(q.key, q.key_bytes, hash_seed) : Fingerprint{1, 0};
  }
}

void DeviceBatch::scatter() noexcept {
  struct Column {
    Fingerprint* fingerprints = nullptr;
    std::uint32_t* images = nullptr;
    std::uint32_t filled = 0;
  };
  std::array<Column, shards_max> columns{};
  for (std::size_t s = 0; s < parts_.size(); ++s) {
    DevicePart& part = *parts_[s];
    columns[s] = {part.fingerprints_.data(), part.images_.count() != 0 ? part.images_.data() : nullptr};
  }
  const bool with_images = columns[0].images != nullptr || images_ != nullptr;
  const Fingerprint* const fingerprints = batch_.fingerprints();
  const Query* const queries = batch_.queries();
  if (shard_bits_ == 0) {
    for (std::uint32_t i = 0; with_images && i < batch_.device_end; ++i)
      columns[0].images[i] = task::is_read_by_image(queries[i]) ? 1 : 0;
    for (std::uint32_t i = batch_.device_end; with_images && i < batch_.size(); ++i) columns[0].images[i] = 0;
    columns[0].filled = batch_.device_end;
  } else {
    for (std::uint32_t i = 0; i < batch_.device_end; ++i) {
      const Shard shard{Shard::number_of(fingerprints[i], shard_bits_), shard_bits_};
      Column& column = columns[shard.number];
      column.fingerprints[column.filled] = shard.local(fingerprints[i]);
      if (with_images && column.images != nullptr)
        column.images[column.filled] = task::is_read_by_image(queries[i]) ? 1 : 0;
      ++column.filled;
    }
  }
  for (std::size_t s = 0; s < parts_.size(); ++s)
    parts_[s]->queries_.store(columns[s].filled, std::memory_order_relaxed);
}

void DeviceBatch::gather() {
  // A device that was given up may yet write to its columns.
  if (!abandoned_ && std::ranges::any_of(parts_, [](const auto& p) { return p->state() == DevicePart::State::lost; })) {
    abandoned_ = true;
    if (shard_bits_ == 0) batch_.use_own_columns();
  }
  batch_.searched = handed_over_ && is_done() && !let_go_;
  batch_.images = nullptr;
  if (!batch_.searched) return;
  batch_.whole = true;
  std::array<const std::uint32_t*, shards_max> images{};
  for (std::size_t s = 0, searched = 0; s < parts_.size(); ++s) {
    const DevicePart& part = *parts_[s];
    if (!part.has_queries()) continue;
    // Launches are numbered together: what was not changed since the oldest, was not since any.
    const std::uint32_t launch = part.launch_.load(std::memory_order_relaxed);
    if (searched++ == 0 || static_cast<std::int32_t>(launch - batch_.launch) < 0) batch_.launch = launch;
    batch_.whole &= part.whole_.load(std::memory_order_relaxed);
    batch_.arenas[s] = part.arena_.data();
    if (part.with_images_.load(std::memory_order_relaxed)) images[s] = part.images_.data();
  }
  if (shard_bits_ == 0) {
    batch_.images = images[0];
    return;
  }
  const bool with_images = std::ranges::any_of(images, [](const auto* column) { return column != nullptr; });
  std::array<const Location*, shards_max> found{};
  for (std::size_t s = 0; s < parts_.size(); ++s) found[s] = parts_[s]->locations_.data();
  const Fingerprint* const fingerprints = batch_.fingerprints();
  Location* const locations = batch_.locations();
  for (std::uint32_t i = 0; i < batch_.device_end; ++i) {
    const std::uint32_t s = Shard::number_of(fingerprints[i], shard_bits_);
    locations[i] = *found[s]++;
    if (with_images) images_[i] = images[s] != nullptr ? *images[s]++ : 0;
  }
  if (!with_images) return;
  std::fill(images_.get() + batch_.device_end, images_.get() + batch_.size(), 0);
  batch_.images = images_.get();
}

}  // namespace tandem
