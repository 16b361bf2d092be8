#include "store/scan_calls.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/racing_copy.hpp"
#include "task/arrange.hpp"
#include "task/scan.hpp"

namespace tandem {
namespace {

constexpr std::size_t scanned_bytes_max = 256 * 1024;  // of one snapshot; one item may be larger

// Copies of a snapshot's items.
class Copies final : public ScanSink {
 public:
  Copies(ScanBuffers& buffers, bool cas) noexcept : to_(buffers), cas_(cas) { to_.clear(); }
  void restart() override { to_.clear(); }
  TD_INLINE bool item(const Item& item, const ItemVersion& seen, std::uint64_t value_bytes) override {
    const std::string_view key = item.key();
    const std::size_t bytes = key.size() + value_bytes;
    if (TD_UNLIKELY(to_.size() + bytes > scanned_bytes_max) && to_.count() != 0) return false;
    const bool is_long = value_bytes > rewritten_value_bytes_max;
    const auto [place, copy] = to_.add(bytes);
    place.value_bytes = static_cast<std::uint32_t>(value_bytes);
    place.flags = item.client_flags();
    place.key_bytes = static_cast<std::uint32_t>(key.size());
    place.cas = cas_ ? seen.cas() : 0;
    place.long_value = is_long ? item.value() : nullptr;
    racing_copy(copy, key.data(), is_long ? key.size() : bytes);  // the value lies behind the key
    return true;
  }
  std::uint32_t items(const Heap& heap, std::span<const ScanHit> hits) override { return take_each(*this, heap, hits); }
  void complete() override {
    for (std::size_t i = 0; i < to_.count(); ++i) {
      const ScanBuffers::Place& p = to_.place(i);
      if (TD_UNLIKELY(p.long_value != nullptr))
        std::copy_n(p.long_value, p.value_bytes, to_.bytes() + p.begin + p.key_bytes);
    }
  }
  template <class Visit>
  void for_each(Visit visit) const {
    for (std::size_t i = 0; i < to_.count(); ++i) {
      const ScanBuffers::Place& p = to_.place(i);
      const char* const at = to_.bytes() + p.begin;
      visit(ScannedItem{{at, p.key_bytes}, {at + p.key_bytes, p.value_bytes}, p.flags, p.cas});
    }
  }

 private:
  ScanBuffers& to_;
  const bool cas_;
};

void require_order(const Context& context) {
  if (!context.shared.index.is_ordered())
    throw std::logic_error("a scan needs an ordered store (Options::ordered, or preset heterokv)");
}

}  // namespace

void ScanBuffers::grow(std::size_t bytes) {
  constexpr std::size_t least = 4096;
  const std::size_t capacity = std::max({bytes, 2 * capacity_, least});
  auto more = std::make_unique_for_overwrite<char[]>(capacity);
  std::copy_n(bytes_.get(), size_, more.get());
  bytes_ = std::move(more);
  capacity_ = capacity;
}

Scanned scan_copied(Context& context, ScanBuffers& buffers, const KeyRange& range, std::size_t limit,
                    void (*visit)(void* visitor, const ScannedItem& item), void* visitor) {
  require_order(context);
  if (limit == 0) throw std::invalid_argument("a scan of no items");
  context.let_go();
  ScanBuffers mine = std::exchange(buffers, {});
  Copies copies(mine, context.shared.policy.cas);
  const ScanEnd end = task::scan(
      context, {.begin = range.begin, .end = range.end, .after_begin = range.after_begin, .reverse = range.reverse},
      static_cast<std::uint32_t>(std::min<std::size_t>(limit, scan_items_max)), copies);
  if (end.failed) throw std::bad_alloc();
  copies.for_each([&](const ScannedItem& item) { visit(visitor, item); });
  if (mine.capacity() <= 2 * scanned_bytes_max) buffers = std::move(mine);
  return {.count = end.count, .done = end.done, .last = end.done ? std::string() : std::string(end.last_key())};
}

std::uint64_t arrange_all(Context& context) {
  require_order(context);
  context.let_go();
  return task::arrange_all(context);
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
