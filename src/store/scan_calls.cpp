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
  Copies(ScanBuffers& buffers, bool cas) noexcept : to_(buffers), cas_(cas) { to_.clear(); }
  void restart() override { to_.clear(); }
  std::uint32_t items(const Heap& heap, std::span<const ScanHit> hits) override { return to_.add(heap, hits, cas_); }
  void complete() override { to_.copy_long_values(); }

 private:
  ScanBuffers& to_;
  const bool cas_;
};

void require_order(const Context& context) {
  if (!context.shared.index.is_ordered())
    throw std::logic_error("a scan needs an ordered store (Options::ordered, or preset heterokv)");
}

void require_items(std::size_t limit) {
  if (limit == 0) throw std::invalid_argument("a scan of no items");
}

ScanStart start_of(const KeyRange& range, std::size_t limit) noexcept {
  return {.range = {.begin = range.begin, .end = range.end, .after_begin = range.after_begin, .reverse = range.reverse},
          .limit = static_cast<std::uint32_t>(std::min<std::size_t>(limit, scan_items_max))};
}

// The visitor may scan, too: it finds no buffers.
template <class Visit>
Scanned scan_one(Context& context, ScanBuffers& buffers, const ScanStart& start, Visit visit) {
  context.let_go();
  ScanBuffers mine = std::exchange(buffers, {});
  Copies copies(mine, context.shared.policy.cas);
  const ScanEnd end = task::scan(context, start.range, start.limit, copies);
  if (end.failed) throw std::bad_alloc();
  visit(mine.items());
  if (mine.capacity() <= 2 * ScanBuffers::bytes_max) buffers = std::move(mine);
  return {.count = end.count, .done = end.done, .last = end.done ? std::string() : std::string(end.last_key())};
}

// While one scan copies its items, those of the next one come from memory.
template <class Visit>
void scan_some(Context& context, ScanBuffers& buffers, std::span<RangeScan> scans, Visit visit) {
  std::array<ScanStart, ScansAhead::scans_max> starts;
  for (std::size_t i = 0; i < scans.size(); ++i) starts[i] = start_of(scans[i].range, scans[i].limit);
  ScansAhead ahead;
  if (scans.size() > 1) {
    context.let_go();
    task::prefetch_scans(context, std::span(starts).first(scans.size()), ahead);
  }
  const Heap::Items items = context.shared.heap.items();
  for (std::size_t i = 0; i < scans.size(); ++i) {
    if (i + 1 < scans.size()) {
      const ScansAhead::Scan& next = ahead.scans[i + 1];
      for (std::uint32_t k = 0; k < next.count; ++k) prefetch_read_later(items.at(next.items[k]));
      starts[i + 1].range.fetched = next.count;
    }
    Scanned end = scan_one(context, buffers, starts[i], [&](std::span<const ScannedItem> found) { visit(i, found); });
    Scanned& told = scans[i].scanned;
    told.count = end.count;
    told.done = end.done;
    if (!end.done) told.last = std::move(end.last);
  }
}

}  // namespace

void ScanBuffers::clear() noexcept {
  size_ = 0;
  count_ = 0;
  long_values_ = 0;
}

std::uint32_t ScanBuffers::add(const Heap& heap, std::span<const ScanHit> hits, bool cas) {
  if (TD_UNLIKELY(items_ == nullptr)) items_ = std::make_unique_for_overwrite<ScannedItem[]>(scan_items_max);
  for (std::uint32_t added = 0;; ++added) {
    added += add_short(hits.subspan(added), cas);
    if (TD_LIKELY(added == hits.size()) || !add_any(heap, hits[added], cas)) return added;
  }
}

// Up to the first item whose value is long, or that has no room.
std::uint32_t ScanBuffers::add_short(std::span<const ScanHit> hits, bool cas) noexcept {
  constexpr std::uint64_t long_or_huge = word::ValueBytes::mask | word::Huge::mask;
  constexpr std::uint64_t longest = word::ValueBytes::put(0, rewritten_value_bytes_max);
  // In registers, as each item's place is behind the one before.
  char* to = bytes_.get() + size_;
  std::size_t room = std::min(capacity_, bytes_max) - std::min({size_, capacity_, bytes_max});
  ScannedItem* copy = items_.get() + count_;
  const ScanHit* hit = hits.data();
  for (const ScanHit* const end = hit + hits.size(); hit != end; ++hit, ++copy) {
    // Lengths are constant while the item is live. Its flags, if it has any, are copied with its key.
    const std::uint64_t fixed = hit->version.fixed;
    const std::size_t key_bytes = word::KeyBytes::get(fixed), flag_bytes = word::HasFlags::get(fixed) * 4;
    const std::size_t value_bytes = word::ValueBytes::get(fixed), bytes = flag_bytes + key_bytes + value_bytes;
    if (TD_UNLIKELY((fixed & long_or_huge) > longest || bytes > room)) break;
    racing_copy_pieces(to, hit->item->bytes() + sizeof(Item), bytes);
    const char* const key = to + flag_bytes;
    copy->key = {key, key_bytes};
    copy->value = {key + key_bytes, value_bytes};
    copy->flags = 0;
    if (TD_UNLIKELY(flag_bytes != 0)) std::memcpy(&copy->flags, to, flag_bytes);
    copy->cas = hit->version.cas();
    to += bytes;
    room -= bytes;
  }
  if (TD_UNLIKELY(!cas)) {
    for (ScannedItem* of = items_.get() + count_; of != copy; ++of) of->cas = 0;
  }
  size_ = static_cast<std::size_t>(to - bytes_.get());
  count_ = static_cast<std::size_t>(copy - items_.get());
  return static_cast<std::uint32_t>(hit - hits.data());
}

// Makes room for it. A long value gets its place, and is pointed at until it is copied. False: the copies have as many
// bytes as they may.
bool ScanBuffers::add_any(const Heap& heap, const ScanHit& hit, bool cas) {
  const std::uint64_t fixed = hit.version.fixed;
  const std::size_t key_bytes = word::KeyBytes::get(fixed), flag_bytes = word::HasFlags::get(fixed) * 4;
  const std::size_t value_bytes = heap.value_bytes(hit.item), bytes = flag_bytes + key_bytes + value_bytes;
  if (count_ != 0 && size_ + bytes > bytes_max) return false;
  grow(size_ + bytes);
  if (value_bytes <= rewritten_value_bytes_max) return add_short({&hit, 1}, cas) == 1;
  char* const to = bytes_.get() + size_;
  racing_copy_pieces(to, hit.item->bytes() + sizeof(Item), flag_bytes + key_bytes);
  ScannedItem& copy = items_[count_++];
  copy = {.key = {to + flag_bytes, key_bytes}, .value = {hit.item->value(), value_bytes}, .flags = 0, .cas = 0};
  if (flag_bytes != 0) std::memcpy(&copy.flags, to, flag_bytes);
  if (cas) copy.cas = hit.version.cas();
  size_ += bytes;
  ++long_values_;
  return true;
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
  return scan_one(context, buffers, start_of(range, limit),
                  [&](std::span<const ScannedItem> items) { visit(visitor, items); });
}

void scan_batch_copied(Context& context, ScanBuffers& buffers, std::span<RangeScan> scans,
                       void (*visit)(void* visitor, std::size_t index, std::span<const ScannedItem> items),
                       void* visitor) {
  require_order(context);
  for (const RangeScan& scan : scans) require_items(scan.limit);
  constexpr std::size_t together = ScansAhead::scans_max;
  for (std::size_t first = 0; first < scans.size(); first += together)
    scan_some(context, buffers, scans.subspan(first, std::min(together, scans.size() - first)),
              [&](std::size_t i, std::span<const ScannedItem> items) { visit(visitor, first + i, items); });
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
  KeyRange left = range;
  for (std::string last;;) {
    constexpr std::size_t page = 256;
    Scanned scanned = scan_erased(left, page, remove_all, &removal);
    if (scanned.done) return removal.removed;
    last = std::move(scanned.last);
    left.go_on_behind(last);
  }
}

}  // namespace tandem
