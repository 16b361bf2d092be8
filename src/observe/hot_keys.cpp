#include "observe/hot_keys.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "base/hash.hpp"

namespace tandem {

KeySketch::KeySketch(std::uint64_t seed)
    : seed_(seed), entries_(new Entry[keys_max]), heap_(new std::uint16_t[keys_max]), table_(new std::uint16_t[slots]) {
  clear();
}

void KeySketch::clear() noexcept {
  size_ = 0;
  total_ = 0;
  std::fill_n(table_.get(), slots, none);
}

void KeySketch::offer(std::string_view key, double weight, std::uint32_t now_s) noexcept {
  key = key.substr(0, key_bytes_kept);
  total_ += weight;
  const auto hash = static_cast<std::uint32_t>(XXH3_64bits_withSeed(key.data(), key.size(), seed_));
  for (std::uint32_t slot = hash % slots; table_[slot] != none; slot = (slot + 1) % slots) {
    Entry& e = entries_[table_[slot]];
    if (e.hash != hash || std::string_view(e.key, e.key_bytes) != key) continue;
    e.count += weight;
    e.last_s = now_s;
    return sift_down(e.place);
  }
  std::uint16_t index;
  if (size_ < keys_max) {
    index = static_cast<std::uint16_t>(size_);
    entries_[index].count = weight;
    entries_[index].error = 0;
    put(size_++, index);
    sift_up(entries_[index].place);
  } else {
    index = heap_[0];
    std::uint32_t slot = entries_[index].hash % slots;
    while (table_[slot] != index) slot = (slot + 1) % slots;
    erase_slot(slot);
    entries_[index].error = entries_[index].count;
    entries_[index].count += weight;
    sift_down(0);
  }
  Entry& e = entries_[index];
  e.hash = hash;
  e.last_s = now_s;
  e.key_bytes = static_cast<std::uint8_t>(key.size());
  std::memcpy(e.key, key.data(), key.size());
  insert_slot(index);
}

void KeySketch::scale(double factor) noexcept {
  total_ *= factor;
  for (std::uint32_t i = 0; i < size_; ++i) {
    entries_[i].count *= factor;
    entries_[i].error *= factor;
  }
}

std::vector<KeySketch::Counted> KeySketch::counted() const {
  std::vector<Counted> out;
  out.reserve(size_);
  for (std::uint32_t i = 0; i < size_; ++i) {
    const Entry& e = entries_[i];
    out.push_back({.key = std::string(e.key, e.key_bytes), .count = e.count, .error = e.error, .last_s = e.last_s});
  }
  return out;
}

void KeySketch::insert_slot(std::uint16_t entry) noexcept {
  std::uint32_t slot = entries_[entry].hash % slots;
  while (table_[slot] != none) slot = (slot + 1) % slots;
  table_[slot] = entry;
}

// Linear probing without tombstones: following entries move up where they may.
void KeySketch::erase_slot(std::uint32_t slot) noexcept {
  std::uint32_t gap = slot;
  for (std::uint32_t next = (slot + 1) % slots; table_[next] != none; next = (next + 1) % slots) {
    const std::uint32_t home = entries_[table_[next]].hash % slots;
    if ((next - home) % slots < (next - gap) % slots) continue;  // its home is behind the gap
    table_[gap] = table_[next];
    gap = next;
  }
  table_[gap] = none;
}

void KeySketch::put(std::uint32_t place, std::uint16_t entry) noexcept {
  heap_[place] = entry;
  entries_[entry].place = static_cast<std::uint16_t>(place);
}

void KeySketch::sift_up(std::uint32_t place) noexcept {
  const std::uint16_t entry = heap_[place];
  while (place != 0) {
    const std::uint32_t parent = (place - 1) / 2;
    if (entries_[heap_[parent]].count <= entries_[entry].count) break;
    put(place, heap_[parent]);
    place = parent;
  }
  put(place, entry);
}

void KeySketch::sift_down(std::uint32_t place) noexcept {
  const std::uint16_t entry = heap_[place];
  for (;;) {
    std::uint32_t child = 2 * place + 1;
    if (child >= size_) break;
    if (child + 1 < size_ && entries_[heap_[child + 1]].count < entries_[heap_[child]].count) ++child;
    if (entries_[entry].count <= entries_[heap_[child]].count) break;
    put(place, heap_[child]);
    place = child;
  }
  put(place, entry);
}

void HotKeyCounter::clear() noexcept {
  const std::lock_guard lock(mutex_);
  sketch_.clear();
  growth_ = 1;
  squares_ = 0;
}

void HotKeyCounter::advance(std::uint32_t now_s) noexcept {
  constexpr double growth_max = 1e12;
  const double passed_s = now_s > now_s_ ? now_s - now_s_ : 0;
  now_s_ = now_s;
  growth_ *= std::exp2(std::min(passed_s, 900.0) / half_life_s);
  if (growth_ < growth_max) return;
  sketch_.scale(1 / growth_);
  squares_ /= growth_ * growth_;
  growth_ = 1;
}

HotKeyCounter::Snapshot HotKeyCounter::read(std::uint32_t now_s) {
  const std::lock_guard lock(mutex_);
  if (now_s > now_s_) advance(now_s);
  Snapshot s{.keys = sketch_.counted(),
             .total = sketch_.total() / growth_,
             .squares = squares_ / (growth_ * growth_),
             .absent_max = sketch_.absent_max() / growth_,
             .now_s = now_s_};
  for (KeySketch::Counted& c : s.keys) {
    c.count /= growth_;
    c.error /= growth_;
  }
  return s;
}

HotKeys merge_hot_keys(const std::vector<HotKeyCounter::Snapshot>& workers, std::size_t count_max) {
  // A key's true weight is between count - error and count if it has a counter, else between 0 and absent_max.
  struct Sum {
    double high = 0, low = 0, absent = 0;  // absent: the counting workers' share of the absent_max sum
    bool is_seen = false;                  // recently
  };
  std::unordered_map<std::string_view, Sum> sums;
  double total = 0, squares = 0, absent_max = 0;
  for (const HotKeyCounter::Snapshot& w : workers) {
    total += w.total;
    squares += w.squares;
    absent_max += w.absent_max;
    for (const KeySketch::Counted& c : w.keys) {
      Sum& s = sums[c.key];
      s.high += c.count;
      s.low += c.count - c.error;
      s.absent += w.absent_max;
      // A clock that went back makes no key old.
      s.is_seen |= w.now_s <= c.last_s || w.now_s - c.last_s <= HotKeyCounter::unseen_max_s;
    }
  }
  HotKeys out;
  if (total <= 0 || squares <= 0) return out;
  out.samples = total * total / squares;
  std::vector<std::pair<double, std::string_view>> order;
  order.reserve(sums.size());
  for (auto& [key, s] : sums) {
    if (!s.is_seen) continue;
    s.high = std::min(s.high + absent_max - s.absent, total);
    order.emplace_back((s.low + s.high) / 2, key);
  }
  const std::size_t count = std::min(count_max, order.size());
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
      [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  for (std::size_t i = 0; i < count; ++i) {
    const Sum& s = sums[order[i].second];
    const double share = order[i].first / total;
    const double sampling = 2 * std::sqrt(std::max(share * (1 - share), 1 / out.samples) / out.samples);
    out.keys.push_back({.key = std::string(order[i].second),
                        .share = share,
                        .share_error = std::min((s.high - s.low) / 2 / total + sampling, 1.0)});
  }
  return out;
}

}  // namespace tandem
