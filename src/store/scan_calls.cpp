#include "store/scan_calls.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/racing_copy.hpp"
#include "task/arrange.hpp"
#include "task/scan.hpp"

namespace tandem {
namespace {

// Copies of a snapshot's items.
class Copies final : public ScanSink {
 public:
  Copies(ScanBuffers& buffers, bool cas, std::span<const Location> next) noexcept
      : to_(buffers), cas_(cas), next_(next) {
    to_.clear();
  }
  void restart() override { to_.clear(); }
  std::uint32_t items(const Heap& heap, std::span<const ScanHit> hits) override {
    return to_.add(heap, hits, cas_, next_);
  }
  void complete() override { to_.copy_long_values(); }

 private:
  ScanBuffers& to_;
  const bool cas_;
  std::span<const Location> next_;
};

void require_order(const Context& context) {
  if (!context.shared.index.is_ordered())
    throw std::logic_error("a scan needs an ordered store (Options::ordered, or preset heterokv)");
}

void require_items(std::size_t limit) {
  if (limit == 0) throw std::invalid_argument("a scan of no items");
}

ScanStart start_of(const KeyRange& range, std::size_t limit) noexcept {
  return {.range = {.begin = range.begin,
                    .end = range.end,
                    .after_begin = range.after_begin,
                    .reverse = range.reverse},
          .limit = static_cast<std::uint32_t>(std::min<std::size_t>(limit, scan_items_max))};
}

// The visitor may scan, too: it finds no buffers.
template <class Visit>
Scanned scan_one(Context& context, ScanBuffers& buffers, const ScanStart& start, std::span<const Location> next,
                 Visit visit) {
  context.let_go();
  ScanBuffers mine = std::exchange(buffers, {});
  Copies copies(mine, context.shared.policy.cas, next);
  const ScanEnd end = task::scan(context, start.range, start.limit, copies);
  if (end.failed) throw std::bad_alloc();
  visit(mine.items());
  if (mine.capacity() <= 2 * ScanBuffers::bytes_max) buffers = std::move(mine);
  return {.count = end.count, .done = end.done, .last = end.done ? std::string() : std::string(end.last_key())};
}

}  // namespace

void ScanBuffers::clear() noexcept {
  size_ = 0;
  count_ = 0;
  long_values_ = 0;
}

// Kept in registers, since each item's place is behind the one before.
struct ScanBuffers::Cursor {
  explicit Cursor(const ScanBuffers& buffers) noexcept
      : to(buffers.bytes_.get() + buffers.size_),
        room(static_cast<std::ptrdiff_t>(std::min(buffers.capacity_, bytes_max)) -
             static_cast<std::ptrdiff_t>(buffers.size_)),
        copy(buffers.items_.get() + buffers.count_) {}
  char* to;
  std::ptrdiff_t room;
  ScannedItem* copy;
};

std::uint32_t ScanBuffers::add(const Heap& heap, std::span<const ScanHit> hits, bool cas,
                               std::span<const Location> next) {
  auto fetched = next.begin();
  const Heap::Items all = heap.items();
  if (TD_UNLIKELY(items_ == nullptr)) items_ = std::make_unique_for_overwrite<ScannedItem[]>(scan_items_max);
  Cursor at(*this);
  const auto keep = [&] {
    size_ = static_cast<std::size_t>(at.to - bytes_.get());
    count_ = static_cast<std::size_t>(at.copy - items_.get());
  };
  const std::size_t count_before = count_;
  for (const ScanHit& hit : hits) {
    // Lengths are constant while the item is live. Its flags, if it has any, are copied with its key.
    const std::uint64_t fixed = hit.version.fixed;
    const std::size_t key_bytes = word::KeyBytes::get(fixed), flag_bytes = word::HasFlags::get(fixed) * 4;
    std::size_t value_bytes = word::ValueBytes::get(fixed);
    if (TD_UNLIKELY(word::Huge::get(fixed) != 0)) value_bytes = heap.value_bytes(hit.item);
    const std::size_t head_bytes = flag_bytes + key_bytes, bytes = head_bytes + value_bytes;
    if (TD_UNLIKELY(at.room < static_cast<std::ptrdiff_t>(bytes))) {
      keep();
      if (count_ != 0 && size_ + bytes > bytes_max) break;
      grow(size_ + bytes);
      at = Cursor(*this);
    }
    if (fetched != next.end()) prefetch_read(all.at(*fetched++));
    const bool is_long = value_bytes > rewritten_value_bytes_max;
    const char* const key = at.to + flag_bytes;
    racing_copy_pieces(at.to, hit.item->bytes() + sizeof(Item), is_long ? head_bytes : bytes);
    at.copy->key = {key, key_bytes};
    at.copy->value = {key + key_bytes, value_bytes};
    at.copy->flags = 0;
    if (TD_UNLIKELY(flag_bytes != 0)) std::memcpy(&at.copy->flags, at.to, flag_bytes);
    at.copy->cas = cas ? hit.version.cas() : 0;
    if (TD_UNLIKELY(is_long)) {
      at.copy->value = {hit.item->value(), value_bytes};
      ++long_values_;
    }
    at.to += bytes;
    at.room -= static_cast<std::ptrdiff_t>(bytes);
    ++at.copy;
  }
  keep();
  return static_cast<std::uint32_t>(count_ - count_before);
}

void ScanBuffers::grow(std::size_t bytes) {
  constexpr std::size_t least = 4096;
  if (bytes <= capacity_) return;
  const std::size_t capacity = std::max({bytes, 2 * capacity_, least});
  auto more = std::make_unique_for_overwrite<char[]>(capacity + slack);
  std::copy_n(bytes_.get(), size_, more.get());
  for (ScannedItem& item : std::span(items_.get(), count_)) {
    const char* const key = more.get() + (item.key.data() - bytes_.get());
    if (item.value.data() == item.key.data() + item.key.size()) item.value = {key + item.key.size(), item.value.size()};
    item.key = {key, item.key.size()};
  }
  bytes_ = std::move(more);
  capacity_ = capacity;
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
                    void (*visit)(void* visitor, std::span<const ScannedItem> items), void* visitor) {
  require_order(context);
  require_items(limit);
  return scan_one(context, buffers, start_of(range, limit), {},
                  [&](std::span<const ScannedItem> items) { visit(visitor, items); });
}

void scan_batch_copied(Context& context, ScanBuffers& buffers, std::span<RangeScan> scans,
                       void (*visit)(void* visitor, std::size_t index, std::span<const ScannedItem> items),
                       void* visitor) {
  require_order(context);
  for (const RangeScan& scan : scans) require_items(scan.limit);
  constexpr std::size_t ahead = ScansAhead::scans_max;
  for (std::size_t first = 0; first < scans.size(); first += ahead) {
    const std::span<RangeScan> some = scans.subspan(first, std::min(ahead, scans.size() - first));
    std::array<ScanStart, ahead> starts;
    context.let_go();
    for (std::size_t i = 0; i < some.size(); ++i) starts[i] = start_of(some[i].range, some[i].limit);
    ScansAhead found;
    task::prefetch_scans(context, std::span(starts).first(some.size()), found);
    for (std::size_t i = 0; i < some.size(); ++i) {
      const auto next = i + 1 < some.size() ? found.items(i + 1) : std::span<const Location>();
      some[i].scanned = scan_one(context, buffers, starts[i], next,
                                 [&](std::span<const ScannedItem> items) { visit(visitor, first + i, items); });
    }
  }
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
  struct Removal {
    Session& session;
    std::vector<Request> requests;
    std::uint64_t removed = 0;
  } removal{*this, {}};
  const ErasedItemVisitor remove_all = [](void* of, std::span<const ScannedItem> items) {
    auto& [session, requests, removed] = *static_cast<Removal*>(of);
    requests.clear();
    for (const ScannedItem& item : items) requests.push_back({.action = Action::remove, .key = item.key});
    session.execute(requests, [&removed](std::size_t, const Reply& reply) { removed += reply.code == Code::removed; });
  };
  KeyRange rest = range;
  for (std::string last;;) {
    constexpr std::size_t page = 256;
    Scanned scanned = scan_erased(rest, page, remove_all, &removal);
    if (scanned.done) return removal.removed;
    last = std::move(scanned.last);
    rest.go_on_behind(last);
  }
}

}  // namespace tandem
