#include "store/scan_calls.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "task/arrange.hpp"
#include "task/scan.hpp"

namespace tandem {
namespace {

constexpr std::size_t scanned_bytes_max = 256 * 1024;  // of one snapshot; one item may be larger

class Copies final : public ScanSink {
 public:
  Copies(ScanBuffers& buffers, bool cas) noexcept : to_(buffers), cas_(cas) { to_.clear(); }
  void restart() override { to_.clear(); }
  TD_INLINE bool item(const Item& item, const ItemVersion& seen, std::uint64_t value_bytes) override {
    return to_.add(item, seen, value_bytes, cas_, scanned_bytes_max);
  }
  std::uint32_t items(const Heap& heap, std::span<const ScanHit> hits) override { return take_each(*this, heap, hits); }
  void complete() override { to_.copy_long_values(); }

 private:
  ScanBuffers& to_;
  const bool cas_;
};

void require_order(const Context& context) {
  if (!context.shared.index.is_ordered())
    throw std::logic_error("a scan needs an ordered store (Options::ordered, or preset heterokv)");
}

}  // namespace

void ScanBuffers::clear() noexcept {
  size_ = 0;
  count_ = 0;
  long_values_ = 0;
}

bool ScanBuffers::make_room(std::size_t bytes, std::size_t bytes_max) {
  constexpr std::size_t least = 4096;
  if (count_ != 0 && size_ + bytes > bytes_max) return false;
  if (items_ == nullptr) items_ = std::make_unique_for_overwrite<ScannedItem[]>(scan_items_max);
  if (size_ + bytes + slack <= capacity_) return true;
  const std::size_t capacity = std::max({size_ + bytes + slack, 2 * capacity_, least});
  auto more = std::make_unique_for_overwrite<char[]>(capacity);
  std::copy_n(bytes_.get(), size_, more.get());
  for (ScannedItem& item : std::span(items_.get(), count_)) {
    const char* const key = more.get() + (item.key.data() - bytes_.get());
    if (item.value.data() == item.key.data() + item.key.size()) item.value = {key + item.key.size(), item.value.size()};
    item.key = {key, item.key.size()};
  }
  bytes_ = std::move(more);
  capacity_ = capacity;
  return true;
}

void ScanBuffers::copy_long_values() noexcept {
  if (TD_LIKELY(long_values_ == 0)) return;
  for (ScannedItem& item : std::span(items_.get(), count_)) {
    char* const to = bytes_.get() + (item.key.data() - bytes_.get()) + item.key.size();
    if (item.value.data() == to) continue;
    std::copy_n(item.value.data(), item.value.size(), to);
    item.value = {to, item.value.size()};
  }
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
  for (const ScannedItem& item : mine.items()) visit(visitor, item);
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
