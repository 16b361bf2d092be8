#include "store/scan_calls.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/racing_copy.hpp"
#include "task/scan.hpp"

namespace tandem {
namespace {

constexpr std::size_t scanned_bytes_max = 256 * 1024;  // of one snapshot; one item may be larger

// Copies of a snapshot's items.
class Copies final : public ScanSink {
 public:
  explicit Copies(bool cas) noexcept : cas_(cas) {}
  void restart() override {
    bytes_.clear();
    items_.clear();
  }
  bool item(const Item& item, const ItemVersion& seen, std::uint64_t value_bytes) override {
    const std::string_view key = item.key();
    if (!items_.empty() && bytes_.size() + key.size() + value_bytes > scanned_bytes_max) return false;
    const bool is_long = value_bytes > rewritten_value_bytes_max;
    items_.push_back({bytes_.size(), key.size(), value_bytes, item.client_flags(), cas_ ? seen.cas() : 0,
                      is_long ? item.value() : nullptr});
    const std::size_t at = bytes_.size();
    bytes_.resize(at + key.size() + value_bytes);
    char* const value = std::copy(key.begin(), key.end(), bytes_.data() + at);
    if (!is_long) racing_copy(value, item.value(), value_bytes);
    return true;
  }
  void complete() override {
    for (const Place& p : items_) {
      if (p.long_value != nullptr) std::copy_n(p.long_value, p.value_bytes, bytes_.data() + p.begin + p.key_bytes);
    }
  }
  template <class Visit>
  void for_each(Visit visit) const {
    for (const Place& p : items_) {
      const char* const at = bytes_.data() + p.begin;
      visit(ScannedItem{{at, p.key_bytes}, {at + p.key_bytes, p.value_bytes}, p.flags, p.cas});
    }
  }

 private:
  struct Place {
    std::size_t begin, key_bytes, value_bytes;
    std::uint32_t flags;
    std::uint64_t cas;
    const char* long_value;  // to be copied when the snapshot is complete; else nullptr
  };
  const bool cas_;
  std::vector<char> bytes_;
  std::vector<Place> items_;
};

}  // namespace

Scanned scan_copied(Context& context, const KeyRange& range, std::size_t limit,
                    void (*visit)(void* visitor, const ScannedItem& item), void* visitor) {
  if (!context.shared.index.is_ordered())
    throw std::logic_error("a scan needs an ordered store (Options::ordered, or preset heterokv)");
  if (limit == 0) throw std::invalid_argument("a scan of no items");
  context.let_go();
  Copies copies(context.shared.policy.cas);
  const ScanEnd end = task::scan(
      context, {.begin = range.begin, .end = range.end, .after_begin = range.after_begin, .reverse = range.reverse},
      static_cast<std::uint32_t>(std::min<std::size_t>(limit, task::scan_items_max)), copies);
  if (end.failed) throw std::bad_alloc();
  copies.for_each([&](const ScannedItem& item) { visit(visitor, item); });
  return {.count = end.count, .done = end.done, .last = end.done ? std::string() : std::string(end.last_key())};
}

KeyRange range_of_prefix(std::string_view prefix, std::string& above) {
  above = prefix;
  above.resize(end_of_prefix(above.data(), above.size()));
  return {.begin = prefix, .end = above};
}

std::uint64_t Session::remove_range(const KeyRange& range) {
  std::uint64_t removed = 0;
  scan_all(range, [&](const ScannedItem& item) { removed += remove(item.key) == Code::removed ? 1u : 0u; });
  return removed;
}

}  // namespace tandem
