#include "engine/key_order.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

namespace tandem {
namespace {

constexpr std::uint32_t items_per_sample = 1024;
constexpr std::size_t samples_per_part = 16;

std::size_t common_bytes_of(std::string_view a, std::string_view b) noexcept {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

// The bytes from `skip` on as a number that is ordered as they are.
std::uint64_t bytes_as_number(std::string_view key, std::size_t skip) noexcept {
  std::uint64_t bytes = 0;
  if (key.size() > skip) std::memcpy(&bytes, key.data() + skip, std::min(key.size() - skip, sizeof bytes));
  return std::endian::native == std::endian::little ? __builtin_bswap64(bytes) : bytes;
}

}  // namespace

void KeyOrder::sample(PageId page) noexcept {
  std::uint32_t n = page * 389;  // not the same slots of all pages
  heap_.visit(page, [&](Location, const Item* item) {
    if (n++ % items_per_sample != 0) return;
    const std::lock_guard lock(mutex_);
    try {
      samples_.push_back(item->key());
    } catch (const std::bad_alloc&) {
      failed_.store(true, std::memory_order_relaxed);
    }
  });
}

bool KeyOrder::cut() noexcept {
  std::sort(samples_.begin(), samples_.end());
  if (!samples_.empty()) common_bytes_ = common_bytes_of(samples_.front(), samples_.back());
  std::size_t count = 0;
  for (std::size_t i = samples_per_part; i < samples_.size(); i += samples_per_part) samples_[count++] = samples_[i];
  samples_.resize(count);
  try {
    for (const std::string_view key : samples_) heads_.push_back(head_of(key));
    parts_.resize(count + 1);
  } catch (const std::bad_alloc&) {
    return false;
  }
  return !has_failed();
}

// A key that lacks the common bytes is below or above all samples.
std::uint64_t KeyOrder::head_of(std::string_view key) const noexcept {
  if (common_bytes_ != 0) {
    const int order = key.substr(0, common_bytes_).compare(samples_.front().substr(0, common_bytes_));
    if (order != 0) return order < 0 ? 0 : ~std::uint64_t{0};
  }
  return bytes_as_number(key, common_bytes_);
}

std::size_t KeyOrder::part_of(std::string_view key) const noexcept {
  if (samples_.empty()) return 0;
  const std::uint64_t head = head_of(key);
  auto at = static_cast<std::size_t>(std::lower_bound(heads_.begin(), heads_.end(), head) - heads_.begin());
  while (at < heads_.size() && heads_[at] == head && samples_[at] <= key) ++at;
  return at;
}

void KeyOrder::Collector::operator()(PageId page) noexcept {
  order_.heap_.visit(page, [this](Location l, const Item* item) {
    try {
      if (parts_.empty()) parts_.resize(order_.parts_.size());
      parts_[order_.part_of(item->key())].push_back(l);
    } catch (const std::bad_alloc&) {
      order_.failed_.store(true, std::memory_order_relaxed);
    }
  });
}

KeyOrder::Collector::~Collector() {
  const std::lock_guard lock(order_.mutex_);
  try {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (!parts_[i].empty()) order_.parts_[i].push_back(std::move(parts_[i]));
    }
  } catch (const std::bad_alloc&) {
    order_.failed_.store(true, std::memory_order_relaxed);
  }
}

void KeyOrder::take(std::size_t part, const std::function<void(std::span<const Location>)>& use) {
  const std::vector<std::vector<Location>> lists = std::move(parts_[part]);
  std::vector<Location> all;
  try {
    all = sorted(lists);
  } catch (const std::bad_alloc&) {
    for (const auto& list : lists) use(list);
    return;
  }
  use(all);
}

std::vector<Location> KeyOrder::sorted(const std::vector<std::vector<Location>>& lists) const {
  constexpr std::size_t ahead = 8;
  struct Entry {
    std::uint64_t head;
    Location location;
  };
  std::vector<Location> all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  const auto key = [this](Location l) { return heap_.at(l)->key(); };
  // What the part's keys have in common is more than all keys have.
  const std::string_view first = all.empty() ? std::string_view{} : key(all.front());
  std::size_t common = first.size();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i + ahead < all.size()) prefetch_read(heap_.at(all[i + ahead]));
    common = common_bytes_of(first.substr(0, common), key(all[i]));
  }
  std::vector<Entry> entries;
  entries.reserve(all.size());
  for (const Location l : all) entries.push_back({bytes_as_number(key(l), common), l});
  std::sort(entries.begin(), entries.end(), [&](const Entry& a, const Entry& b) {
    return a.head != b.head ? a.head < b.head : key(a.location) < key(b.location);
  });
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = entries[i].location;
  return all;
}

}  // namespace tandem
