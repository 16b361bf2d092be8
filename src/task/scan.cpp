#include "task/scan.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/yield.hpp"

namespace tandem::task {
namespace {

void keep_last(ScanEnd& end, const Item* item) noexcept {
  const std::string_view key = item->key();
  end.last_bytes = static_cast<std::uint8_t>(key.size());
  std::memcpy(end.last, key.data(), key.size());
}

// Whether the item has what `hit` says: its version, and its expiry, which touching changes within a version.
bool has_still(const ScanHit& hit) noexcept {
  return is_still(hit.item, hit.version) &&
         ((hit.item->state_acquire() ^ hit.version.state) & word::ExpiryS::mask) == 0;
}

// One attempt. False: something has changed meanwhile.
bool try_scan(Context& context, const ScanRange& range, std::span<ScanHit> hits, ScanSink& sink, ScanEnd& end) {
  const Shared& shared = context.shared;
  const std::uint64_t flush_cas = shared.flush_cas.load(std::memory_order_acquire);
  const std::uint32_t now_s = shared.clock.now_s();
  ScanStamp stamp;
  const ScanResult found = shared.index.scan(range, hits, stamp);
  end.count = 0;
  end.done = found.done;
  end.failed = found.count == 0 && !found.done;
  std::uint32_t looked = 0;
  for (; looked < found.count; ++looked) {
    const ScanHit& hit = hits[looked];
    if (TD_UNLIKELY(is_over(hit.version, now_s, flush_cas))) continue;
    if (TD_UNLIKELY(!sink.item(*hit.item, hit.version, shared.heap.value_bytes(hit.item)))) {
      end.done = false;
      break;
    }
    ++end.count;
  }
#if defined(TANDEM_CANARY)
  if (!canary_bites("scan_items_once"))
#endif
    for (std::uint32_t i = 0; i < looked; ++i) {
      if (TD_UNLIKELY(!has_still(hits[i]))) return false;
    }
#if defined(TANDEM_CANARY)
  if (!canary_bites("scan_leaves_once"))
#endif
    if (TD_UNLIKELY(!stamp.is_unchanged())) return false;
#if defined(TANDEM_CANARY)
  if (!canary_bites("scan_mark_once"))
#endif
    if (TD_UNLIKELY(shared.flush_cas.load(std::memory_order_acquire) != flush_cas || shared.clock.now_s() != now_s))
      return false;
  if (!end.done && looked != 0) keep_last(end, hits[looked - 1].item);
  sink.complete();
  return true;
}

}  // namespace

ScanEnd scan(Context& context, const ScanRange& range, std::uint32_t limit, ScanSink& sink) {
  constexpr std::uint32_t whole_attempts = 3, empty_attempts_max = 256;
  std::array<ScanHit, scan_items_max> hits;
  ScanEnd end;
  std::uint32_t items = std::min(limit, scan_items_max), empty_attempts = 0;
  for (std::uint32_t attempt = 1;; ++attempt) {
    context.enter();
    bool is_snapshot = false;
    try {
      is_snapshot = try_scan(context, range, {hits.data(), items}, sink, end);
    } catch (...) {
      context.epoch.exit();
      throw;
    }
    context.epoch.exit();
    if (TD_UNLIKELY(end.failed) && is_snapshot && ++empty_attempts < empty_attempts_max) {
      // Leaves without items are merged, and what that frees is there in a later epoch.
      context.shared.maintenance.notify();
      yield_processor();
      --attempt;
      continue;
    }
    if (TD_LIKELY(is_snapshot)) return end;
    sink.restart();
    if (attempt < whole_attempts) continue;
    items = std::max(items / 2, 1u);
    if (items == 1) yield_processor();
  }
}

}  // namespace tandem::task
