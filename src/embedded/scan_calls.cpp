#include "embedded/scan_calls.hpp"

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

using Layout = ScannedItems;
static_assert(Layout::header_bytes == sizeof(Item) && Layout::huge_bytes == sizeof(std::size_t) &&
              Layout::key_bytes == word::KeyBytes::mask && Layout::value_bytes_at == word::ValueBytes::lo &&
              Layout::value_bytes_limit == word::ValueBytes::limit && Layout::has_flags == word::HasFlags::mask &&
              Layout::is_huge == word::Huge::mask && Layout::cas_low_at == word::CasLow::lo &&
              Layout::cas_low_bits == word::CasLow::width && Layout::cas_high_at == word::CasHigh::lo &&
              Layout::cas_high_limit == word::CasHigh::limit);

// A snapshot's items: the scan's copies as they are, up to the first one that is long or has expired.
class Snapshot final : public ScanSink {
 public:
  explicit Snapshot(ScanBuffers& buffers) noexcept : buffers_(buffers) { restart(); }
  void restart() override {
    count_ = 0;
    is_buffered_ = false;
    buffers_.clear();
  }
  std::uint32_t items(const Heap& heap, const ScanCopies& copies, std::uint32_t first, std::uint32_t count) override {
    if (TD_LIKELY(!copies.has_long() && !is_buffered_ && first == count_)) {
      count_ += count;
      return count;
    }
    if (!is_buffered_) buffers_.add(heap, copies, 0, count_);
    is_buffered_ = true;
    return buffers_.add(heap, copies, first, count);
  }
  void complete() override { buffers_.copy_long_values(); }

  ScannedItems of(const ScanCopies& copies, bool cas) const noexcept {
    return {.places = is_buffered_ ? buffers_.places() : copies.places(),
            .count = is_buffered_ ? buffers_.count() : count_,
            .cas = cas ? cas_limit : 0};
  }

 private:
  ScanBuffers& buffers_;
  std::uint32_t count_ = 0;  // of copies, unless they are in the buffers
  bool is_buffered_ = false;
};

// A session's memory for one scan: the visitor may scan, too, and finds none.
struct Taken {
  Taken(Context& of, ScanBuffers& from) noexcept : context(of), own(from), buffers(std::exchange(from, {})) {}
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;
  ~Taken() {
    if (copies != nullptr) context.scan_copies = std::move(copies);
    if (buffers.capacity() <= 2 * ScanBuffers::bytes_max) own = std::move(buffers);
  }

  Context& context;
  ScanBuffers& own;
  ScanBuffers buffers;
  std::unique_ptr<ScanCopies> copies;
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

template <class Visit>
Scanned scan_one(Context& context, ScanBuffers& buffers, const ScanStart& start, Visit visit) {
  context.let_go();
  Taken taken(context, buffers);
  Snapshot snapshot(taken.buffers);
  const ScanEnd end = task::scan(context, start.range, start.limit, snapshot);
  if (end.failed) throw std::bad_alloc();
  taken.copies = std::move(context.scan_copies);
  visit(snapshot.of(*taken.copies, context.shared.policy.cas));
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
    Scanned end = scan_one(context, buffers, starts[i], [&](const ScannedItems& found) { visit(i, found); });
    Scanned& told = scans[i].scanned;
    told.count = end.count;
    told.done = end.done;
    if (!end.done) told.last = std::move(end.last);
  }
}

}  // namespace

void ScanBuffers::clear() noexcept {
  item_bytes_ = 0;
  size_ = 0;
  count_ = 0;
  long_value_count_ = 0;
}

std::uint32_t ScanBuffers::add(const Heap& heap, const ScanCopies& copies, std::uint32_t first, std::uint32_t count) {
  if (places_ == nullptr) places_ = std::make_unique_for_overwrite<ScannedItems::Place[]>(scan_items_max);
  for (std::uint32_t i = first; i != first + count; ++i) {
    const ItemVersion seen = copies.version(i);
    if (ScanCopies::is_long(seen.fixed)) {
      if (!add_long(heap, *copies.item(i), seen)) return i - first;
    } else {
      const std::size_t bytes = ScanCopies::body_bytes(seen.fixed);
      if (!has_room(bytes)) return i - first;
      item_bytes_ += bytes;
      places_[count_++] = copies.places()[i];
    }
  }
  return count;
}

// False: the items have as many bytes as they may.
bool ScanBuffers::add_long(const Heap& heap, const Item& item, const ItemVersion& seen) {
  const bool is_huge = (seen.fixed & word::Huge::mask) != 0;
  const std::size_t head_bytes = word::HasFlags::get(seen.fixed) * 4 + word::KeyBytes::get(seen.fixed);
  const std::size_t value_bytes = heap.value_bytes(&item), bytes = head_bytes + value_bytes;
  if (!has_room(bytes)) return false;
  reserve(bytes);
  char* to = bytes_.get() + size_;
  places_[count_++] = {to, item.bytes()};
  std::memcpy(to, &seen, sizeof seen);
  to += sizeof seen;
  if (is_huge) {
    std::memcpy(to, &value_bytes, Layout::huge_bytes);
    to += Layout::huge_bytes;
  }
  const bool is_last = value_bytes > rewritten_value_bytes_max;  // it never changes
  racing_copy(to, item.bytes() + sizeof(Item), is_last ? head_bytes : bytes);
  if (is_last) long_values_[long_value_count_++] = {item.value(), to + head_bytes, value_bytes};
  item_bytes_ += bytes;
  size_ = static_cast<std::size_t>(to + bytes - bytes_.get());
  return true;
}

// Room for one copy more. Only the first item of a scan may be larger than all the rest together.
void ScanBuffers::reserve(std::size_t bytes) {
  constexpr std::size_t heads = scan_items_max * (sizeof(Item) + Layout::huge_bytes);
  if (TD_LIKELY(capacity_ != 0 && size_ + sizeof(Item) + Layout::huge_bytes + bytes <= capacity_)) return;
  const std::size_t capacity = heads + std::max(bytes, bytes_max);
  TD_ASSERT(size_ == 0);
  if (long_values_ == nullptr) long_values_ = std::make_unique_for_overwrite<LongValue[]>(scan_items_max);
  bytes_ = std::make_unique_for_overwrite<char[]>(capacity);
  capacity_ = capacity;
}

void ScanBuffers::copy_long_values() noexcept {
  for (const LongValue& value : std::span(long_values_.get(), long_value_count_))
    std::copy_n(value.from, value.bytes, value.to);
}

Scanned scan_copied(Context& context, ScanBuffers& buffers, const KeyRange& range, std::size_t limit,
                    void (*visit)(void* visitor, const ScannedItems& items), void* visitor) {
  require_order(context);
  require_items(limit);
  return scan_one(context, buffers, start_of(range, limit), [&](const ScannedItems& items) { visit(visitor, items); });
}

void scan_batch_copied(Context& context, ScanBuffers& buffers, std::span<RangeScan> scans,
                       void (*visit)(void* visitor, std::size_t index, const ScannedItems& items), void* visitor) {
  require_order(context);
  for (const RangeScan& scan : scans) require_items(scan.limit);
  constexpr std::size_t together = ScansAhead::scans_max;
  for (std::size_t first = 0; first < scans.size(); first += together)
    scan_some(context, buffers, scans.subspan(first, std::min(together, scans.size() - first)),
              [&](std::size_t i, const ScannedItems& items) { visit(visitor, first + i, items); });
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
  const ErasedItemVisitor remove_all = [](void* of, const ScannedItems& items) {
    auto& [session, requests, removed] = *static_cast<Removal*>(of);
    requests.clear();
    items.each([&](const ScannedItem& item) { requests.push_back({.action = Action::remove, .key = item.key}); });
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
