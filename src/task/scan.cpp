#include "task/scan.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/yield.hpp"
#include "task/arrange.hpp"

namespace tandem::task {
namespace {

void keep_last(ScanEnd& end, const Item* item) noexcept {
  const std::string_view key = item->key();
  end.last_bytes = static_cast<std::uint8_t>(key.size());
  std::memcpy(end.last, key.data(), key.size());
}

// Whether none has expired or was flushed, as in most scans.
bool are_good(const ScanCopies& copies, std::uint32_t begin, std::uint32_t end, std::uint32_t now_s,
              std::uint64_t flush_cas) noexcept {
  if (TD_LIKELY(!copies.may_expire() && flush_cas == 0)) return true;
  std::uint32_t over = 0;
  for (std::uint32_t i = begin; i < end; ++i) over |= is_over(copies.version(i), now_s, flush_cas) ? 1u : 0u;
  return over == 0;
}

// One attempt. Expired items take places of the copies, not of the limit: what they leave missing is read behind them,
// in a part with a stamp of its own.
class Attempt {
 public:
  static constexpr std::uint32_t parts_max = 4;

  Attempt(Context& context, ScanCopies& copies, ScanSink& sink, ScanEnd& end) noexcept
      : context_(context),
        shared_(context.shared),
        copies_(copies),
        sink_(sink),
        end_(end),
        flush_cas_(shared_.flush_cas.load(std::memory_order_acquire)),
        now_s_(shared_.clock.now_s()) {}

  // False: something has changed meanwhile.
  bool run(const ScanRange& range, std::uint32_t limit, std::uint32_t parts) {
    end_.count = 0;
    copies_.clear();
    ScanRange rest = range;
    while (read_part(rest, limit) && parts_ != parts) go_on(rest);
    end_.failed = looked_ == 0 && !end_.done;
    if (!is_of_one_moment()) return false;
    if (!end_.done && looked_ != 0) keep_last(end_, copies_.item(looked_ - 1));
    if (shared_.scattered != nullptr && TD_UNLIKELY(--context_.scans_until_look == 0)) look_at_places(range.reverse);
    sink_.complete();
    return true;
  }

 private:
  // False: the range or the limit has been reached, or the attempt ends before them.
  bool read_part(const ScanRange& rest, std::uint32_t limit) {
    // Where some items have expired, more have: the next part looks further.
    const std::uint32_t missing = limit - end_.count, ahead = parts_ == 0 ? missing : 16u << 2 * parts_;
    const std::uint32_t begin = looked_, wanted = std::min(std::max(missing, ahead), scan_items_max - begin);
    const ScanResult found = shared_.index.scan(rest, wanted, copies_, stamps_[parts_++]);
    end_.done = found.done;
    const std::uint32_t end = begin + found.count;
    const bool all_good = are_good(copies_, begin, end, now_s_, flush_cas_);
    while (looked_ != end) {
      const std::uint32_t most = std::min(end - looked_, limit - end_.count);
      const std::uint32_t good = TD_LIKELY(all_good) ? most : count_good(looked_, looked_ + most);
      const std::uint32_t taken = good == 0 ? 0 : sink_.items(shared_.heap, copies_, looked_, good);
      looked_ += taken;
      end_.count += taken;
      if (TD_UNLIKELY(taken != good || (end_.count == limit && looked_ != end))) {
        end_.done = false;
        return false;
      }
      if (looked_ != end) ++looked_;  // past one that is over
    }
    return found.count == wanted && !found.done && end_.count < limit && looked_ < scan_items_max;
  }

  std::uint32_t count_good(std::uint32_t begin, std::uint32_t end) const noexcept {
    std::uint32_t i = begin;
    while (i != end && !is_over(copies_.version(i), now_s_, flush_cas_)) ++i;
    return i - begin;
  }

  void go_on(ScanRange& rest) const noexcept {
    const std::string_view last = copies_.item(looked_ - 1)->key();
    (rest.reverse ? rest.end : rest.begin) = last;
    rest.after_begin |= !rest.reverse;
    rest.fetched = 0;
  }

  // Scans between two looks are a random number, so that no pattern of requests hides from them.
  TD_NOINLINE void look_at_places(bool reverse) noexcept {
    context_.scans_until_look =
        1 + static_cast<std::uint32_t>(cycles_now() % (2 * shared_.scattered->scans_per_look - 1));
    note_if_scattered(context_, copies_, looked_, reverse);
  }

  bool is_of_one_moment() const noexcept {
#if defined(TANDEM_CANARY)
    if (!canary_bites("scan_items_once"))
#endif
      if (TD_UNLIKELY(!copies_.are_still(looked_))) return false;
#if defined(TANDEM_CANARY)
    if (!canary_bites("scan_leaves_once"))
#endif
      for (std::uint32_t i = 0; i < parts_; ++i) {
        if (TD_UNLIKELY(!stamps_[i].is_unchanged())) return false;
      }
#if defined(TANDEM_CANARY)
    if (canary_bites("scan_mark_once")) return true;
#endif
    return TD_LIKELY(shared_.flush_cas.load(std::memory_order_acquire) == flush_cas_ &&
                     shared_.clock.now_s() == now_s_);
  }

  Context& context_;
  const Shared& shared_;
  ScanCopies& copies_;
  ScanSink& sink_;
  ScanEnd& end_;
  const std::uint64_t flush_cas_;
  const std::uint32_t now_s_;
  std::uint32_t parts_ = 0, looked_ = 0;  // parts that were begun, copies that were looked at
  std::array<ScanStamp, parts_max> stamps_;
};

}  // namespace

ScanEnd scan(Context& context, const ScanRange& range, std::uint32_t limit, ScanSink& sink) {
  ScanCopies& copies = context.for_scan();
  constexpr std::uint32_t whole_attempts = 3, empty_attempts_max = 256, waits_max = 8;
  ScanEnd end;
  std::uint32_t items = std::min(limit, scan_items_max), parts = Attempt::parts_max;
  std::uint32_t empty_attempts = 0, waits = 0;
  for (std::uint32_t attempt = 1;; ++attempt) {
    context.enter();
    bool is_snapshot = false;
    try {
      is_snapshot = Attempt(context, copies, sink, end).run(range, items, parts);
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
    if (waits < waits_max && context.shared.moves.wait_for_end()) {
      ++waits;
      --attempt;
      continue;
    }
    if (attempt < whole_attempts) continue;
    items = std::max(items / 2, 1u);
    parts = 1;
    if (items == 1) yield_processor();
  }
}

void prefetch_scans(Context& context, std::span<const ScanStart> starts, ScansAhead& ahead) noexcept {
  context.enter();
  context.shared.index.prefetch_scans(starts, ahead);
  context.epoch.exit();
}

}  // namespace tandem::task
