#include "placement/on_device/overlay.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <new>
#include <utility>

namespace tandem {
namespace {

constexpr std::uint32_t refill_records = 256;
// Pending changes of one lane, at most.
constexpr std::uint32_t queue_max = 1 << 16;
constexpr std::uint32_t stripe_bits = std::bit_width(Stripes::count) - 1, chain_bits_max = 21;
// The scheduler looks about every two milliseconds; a batch of writes may take that long.
constexpr std::uint8_t idle_looks_min = 10;
// A record may be freed under a reader and linked into another chain; this bounds the reader's walk.
constexpr std::uint32_t steps_max = 1 << 16;

}  // namespace

Overlay::Overlay(std::uint32_t records, std::uint32_t threads_max, MemoryBudget& budget)
    : budget_(budget),
      record_count_(records),
      margin_(8 + 2 * ((threads_max + lane_count - 1) / lane_count)),
      queue_mask_(std::min(queue_max, std::bit_ceil(std::max(records, 2 * margin_))) - 1),
      chain_bits_(std::clamp(static_cast<std::uint32_t>(std::bit_width(records)) + 1, stripe_bits, chain_bits_max)) {
  const std::uint64_t bytes = std::uint64_t{records} * sizeof(Record);
  if (!budget_.take(bytes)) throw std::bad_alloc();
  try {
    records_ = std::make_unique<Record[]>(records);
    chains_ = std::make_unique<std::atomic<RecordId>[]>(std::size_t{1} << chain_bits_);
    lanes_ = std::make_unique<Lane[]>(lane_count);
  } catch (...) {
    budget_.give_back(bytes);
    throw;
  }
  for (std::size_t i = 0; i < std::size_t{1} << chain_bits_; ++i) chains_[i].store(none, std::memory_order_relaxed);
  for (RecordId r = 0; r < records; ++r) records_[r].next_free = r + 1 < records ? r + 1 : none;
  free_ = records != 0 ? 0 : none;
}

Overlay::~Overlay() { budget_.give_back(bytes()); }

std::uint32_t Overlay::next_number() noexcept {
  static std::atomic<std::uint32_t> threads{0};
  return threads.fetch_add(1, std::memory_order_relaxed) % lane_count;
}

// --- free records

void Overlay::refill(Lane& lane, std::uint32_t count) noexcept {
  free_lock_.lock();
  for (; count != 0 && free_ != none; --count) {
    const RecordId r = free_;
    free_ = at(r).next_free;
    at(r).next_free = lane.free;
    lane.free = r;
    add(lane.free_count, 1);
  }
  free_lock_.unlock();
}

bool Overlay::make_room() noexcept {
  Lane& lane = my_lane();
  lane.lock.lock();
  if (lane.changes == nullptr) {
    lane.changes.reset(new (std::nothrow) Change[queue_mask_ + 1]);
    lane.records.reset(lane.changes != nullptr ? new (std::nothrow) RecordId[queue_mask_ + 1] : nullptr);
    if (lane.records == nullptr) lane.changes.reset();
  }
  if (lane.changes != nullptr && lane.free_count.load(std::memory_order_relaxed) < margin_)
    refill(lane, refill_records);
  const bool room = lane.changes != nullptr && has_room(lane);
  lane.lock.unlock();
  return room;
}

Overlay::RecordId Overlay::pop(Lane& lane) noexcept {
  if (TD_UNLIKELY(lane.free == none)) refill(lane, refill_records);
  TD_ASSERT(lane.free != none);  // has_room() left one for each thread that may be here
  const RecordId r = lane.free;
  lane.free = at(r).next_free;
  lane.free_count.store(lane.free_count.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  return r;
}

void Overlay::push_free(Lane& lane, RecordId r) noexcept {
  at(r).next_free = lane.free;
  lane.free = r;
  add(lane.free_count, 1);
  if (lane.free_count.load(std::memory_order_relaxed) < 2 * refill_records) return;
  free_lock_.lock();
  for (std::uint32_t i = 0; i < refill_records; ++i) {
    const RecordId given = lane.free;
    lane.free = at(given).next_free;
    at(given).next_free = free_;
    free_ = given;
  }
  lane.free_count.store(lane.free_count.load(std::memory_order_relaxed) - refill_records, std::memory_order_relaxed);
  free_lock_.unlock();
}

// --- under the stripe

Overlay::Found Overlay::find_locked(Fingerprint f, std::string_view key, const Heap& heap) const noexcept {
  Found found;
  for (RecordId r = chain(f.signature).load(std::memory_order_relaxed); r != none;) {
    const Record& record = at(r);
    if (record.signature.load(std::memory_order_relaxed) == f.signature) {
      const Location l = record.to.load(std::memory_order_relaxed);
      const Item* const item = heap.at(l);
      if (item->has_key(key)) {
        if (Item::state_of(settled_state(item)) == ItemState::live) {
          found.record = r;
          found.location = l;
        }
      } else {
        found.clash = true;
      }
    }
    r = record.next.load(std::memory_order_relaxed);
  }
  return found;
}

Overlay::RecordId Overlay::find_locked(Fingerprint f, Location l) const noexcept {
  RecordId r = chain(f.signature).load(std::memory_order_relaxed);
  while (r != none && at(r).to.load(std::memory_order_relaxed) != l) r = at(r).next.load(std::memory_order_relaxed);
  return r;
}

void Overlay::unlink(RecordId r) noexcept {
  std::atomic<RecordId>* link = &chain(at(r).signature.load(std::memory_order_relaxed));
  for (RecordId l; (l = link->load(std::memory_order_relaxed)) != r; link = &at(l).next) TD_ASSERT(l != none);
  link->store(at(r).next.load(std::memory_order_relaxed), std::memory_order_release);
}

// The record's item is no longer the key's, and the device need not learn of it. A resident record is in no queue, so
// it is freed at once.
void Overlay::detach(RecordId r) noexcept {
  unlink(r);
  Record& record = at(r);
  if ((record.flags.load(std::memory_order_relaxed) & resident) == 0) {
    record.flags.fetch_or(detached, std::memory_order_relaxed);
    lanes_[record.lane].changes[record.place].to.store(no_location, std::memory_order_relaxed);
    return;
  }
  resident_.fetch_sub(1, std::memory_order_relaxed);
  Lane& lane = my_lane();
  lane.lock.lock();
  push_free(lane, r);
  lane.lock.unlock();
}

void Overlay::append(Lane& lane, RecordId r, Fingerprint f, Location from, Location to) noexcept {
  const std::uint64_t tail = lane.tail.load(std::memory_order_relaxed);
  const auto place = static_cast<std::uint32_t>(tail & queue_mask_);
  Change& change = lane.changes[place];
  change.f = f;
  change.from = from;
  change.to.store(to, std::memory_order_relaxed);
  lane.records[place] = r;
  at(r).place = place;
  lane.tail.store(tail + 1, std::memory_order_relaxed);
}

Overlay::RecordId Overlay::put(Fingerprint f, Location from, Location to, RecordId old, bool is_resident) noexcept {
  if (old != none) detach(old);
  const std::uint32_t mine = my_number();
  Lane& lane = lanes_[mine];
  lane.lock.lock();
  const RecordId r = pop(lane);
  Record& record = at(r);
  record.signature.store(f.signature, std::memory_order_relaxed);
  record.to.store(to, std::memory_order_relaxed);
  record.lane = static_cast<std::uint8_t>(mine);
  record.flags.store(is_resident ? resident : 0, std::memory_order_relaxed);
  std::atomic<RecordId>& first = chain(f.signature);
  record.next.store(first.load(std::memory_order_relaxed), std::memory_order_relaxed);
  first.store(r, std::memory_order_release);
  if (!is_resident) append(lane, r, f, from, to);
  lane.lock.unlock();
  if (!is_resident) return r;
  resident_.fetch_add(1, std::memory_order_relaxed);
  if (from != no_location) erase(f, from, none);  // the device may have the previous cell
  return r;
}

void Overlay::erase(Fingerprint f, Location from, RecordId old) noexcept {
  if (old != none) detach(old);
  const std::uint32_t mine = my_number();
  Lane& lane = lanes_[mine];
  lane.lock.lock();
  const RecordId r = pop(lane);
  Record& record = at(r);
  record.signature.store(f.signature, std::memory_order_relaxed);
  record.to.store(no_location, std::memory_order_relaxed);
  record.lane = static_cast<std::uint8_t>(mine);
  record.flags.store(detached, std::memory_order_relaxed);
  append(lane, r, f, from, no_location);
  lane.lock.unlock();
}

// --- readers

Item* Overlay::find(Fingerprint f, std::string_view key, const Heap& heap, ItemVersion& seen) const noexcept {
  std::uint32_t steps = 0;
  for (RecordId r = chain(f.signature).load(std::memory_order_acquire); r != none && ++steps < steps_max;) {
    const Record& record = at(r);
    const RecordId next = record.next.load(std::memory_order_acquire);
    if (record.signature.load(std::memory_order_acquire) == f.signature) {
      // no_location: the record was reused.
      const Location l = record.to.load(std::memory_order_acquire);
      Item* const item = heap.at(l);
      if (l != no_location && is_live_item_of(item, key, seen)) return item;
    }
    r = next;
  }
  return nullptr;
}

// --- the scheduler

bool Overlay::has_pending() const noexcept {
  if (cut_lane_ != lane_count) return true;
  std::uint64_t queued = 0;
  for (std::uint32_t i = 0; i < lane_count; ++i) queued += lanes_[i].tail.load(std::memory_order_relaxed);
  return queued != taken_.load(std::memory_order_relaxed);
}

void Overlay::begin_group() noexcept {
  if (cut_lane_ != lane_count) return;
  for (std::uint32_t i = 0; i < lane_count; ++i) lanes_[i].lock.lock();
  for (std::uint32_t i = 0; i < lane_count; ++i)
    cut_[i] = {cut_[i].end, lanes_[i].tail.load(std::memory_order_relaxed)};
  for (std::uint32_t i = 0; i < lane_count; ++i) lanes_[i].lock.unlock();
  cut_lane_ = 0;
}

std::uint32_t Overlay::take(CellChange* changes, Taken* taken, std::uint32_t count) noexcept {
  std::uint32_t n = 0;
  std::uint64_t looked_at = 0;
  for (; cut_lane_ != lane_count; ++cut_lane_) {
    Cut& cut = cut_[cut_lane_];
    if (cut.next == cut.end) continue;  // its queue may be under construction
    const Change* const queue = lanes_[cut_lane_].changes.get();
    const std::uint64_t first = cut.next;
    for (; cut.next != cut.end && n != count; ++cut.next) {
      const Change& change = queue[cut.next & queue_mask_];
      const Location to = change.to.load(std::memory_order_relaxed);
      if (change.from == no_location && to == no_location) continue;
      changes[n] = {change.f, change.from, to};
      taken[n++] = {cut_lane_, cut.next};
    }
    looked_at += cut.next - first;
    if (cut.next != cut.end) break;
  }
  taken_.store(taken_.load(std::memory_order_relaxed) + looked_at, std::memory_order_relaxed);
  return n;
}

void Overlay::failed(Taken taken) noexcept {
  const RecordId r = lanes_[taken.lane].records[taken.place & queue_mask_];
  at(r).flags.fetch_or(refused, std::memory_order_relaxed);
}

void Overlay::complete() {
  Ends& ends = complete_.emplace_back();
  for (std::uint32_t i = 0; i < lane_count; ++i) {
    ends[i] = cut_[i].end;
    lanes_[i].complete.store(ends[i], std::memory_order_release);
  }
  groups_.fetch_add(1, std::memory_order_relaxed);
}

void Overlay::oldest_is_safe() noexcept {
  for (std::uint32_t i = 0; i < lane_count; ++i) lanes_[i].safe.store(complete_.front()[i], std::memory_order_release);
  complete_.pop_front();
}

// --- retiring and freeing

bool Overlay::has_unretired() const noexcept {
  std::uint64_t queued = 0, retired = 0;
  for (std::uint32_t i = 0; i < lane_count; ++i) {
    retired += lanes_[i].retired.load(std::memory_order_relaxed);
    queued += lanes_[i].tail.load(std::memory_order_relaxed);
  }
  return queued != retired;
}

void Overlay::reclaim(Heap& heap, Heap::Cache& cache, Stripes& stripes, Reclaim whose) noexcept {
  if (whose == Reclaim::mine) {
    Lane& lane = my_lane();
    lane.lock.lock();
    lane.is_reclaimed = true;
    lane.idle_looks = 0;
    lane.lock.unlock();
    return reclaim(lane, heap, cache, stripes);
  }
  if (whose == Reclaim::all) wakeup_->notify();
  for (std::uint32_t i = 0; i < lane_count; ++i) {
    Lane& lane = lanes_[i];
    lane.lock.lock();
    bool by_its_thread = false;
    if (whose == Reclaim::all) {
      by_its_thread = std::exchange(lane.is_reclaimed, false);
    } else if (lane.idle_looks < idle_looks_min) {
      ++lane.idle_looks;
      by_its_thread = true;
    }
    lane.lock.unlock();
    if (!by_its_thread) reclaim(lane, heap, cache, stripes);
  }
}

// Stripes and caches are never locked inside a lane: a writer that holds a stripe locks its lane. A record's place in
// the queue is reused only after the record is freed, because until then a writer may detach it.
void Overlay::reclaim(Lane& lane, Heap& heap, Heap::Cache& cache, Stripes& stripes) noexcept {
  for (;;) {
    std::array<Location, settle_records> displaced;
    std::array<RecordId, settle_records> over;
    std::uint32_t displaced_count = 0, over_count = 0;
    const std::uint64_t complete = lane.complete.load(std::memory_order_acquire);
    const std::uint64_t safe = lane.safe.load(std::memory_order_acquire);
    lane.lock.lock();
    if (lane.is_being_reclaimed) return lane.lock.unlock();
    std::uint64_t retired = 0;
    for (; lane.unretired < complete && displaced_count != settle_records; ++lane.unretired, ++retired) {
      const Location from = lane.changes[lane.unretired & queue_mask_].from;
      if (from != no_location) displaced[displaced_count++] = from;
    }
    const std::uint64_t end = std::min(safe, lane.unretired);
    const std::uint64_t head = lane.head.load(std::memory_order_relaxed);
    for (std::uint64_t place = head; place < end && over_count != settle_records; ++place) {
      over[over_count] = lane.records[place & queue_mask_];
      prefetch_write(&at(over[over_count++]));
    }
    lane.is_being_reclaimed = true;
    lane.lock.unlock();
    if (displaced_count != 0) {
      const Heap::Cache::Lock lock(cache);
      for (std::uint32_t i = 0; i < displaced_count; ++i) heap.retire(cache, displaced[i]);
    }
    // Not earlier: a thread that waits for slots must find them either here or among the retired.
    lane.retired.fetch_add(retired, std::memory_order_relaxed);
    for (std::uint32_t i = 0; i < over_count; ++i) {
      const std::uint32_t signature = at(over[i]).signature.load(std::memory_order_relaxed);
      prefetch_write(&stripes.of(signature));
      prefetch_write(&chain(signature));
    }
    const auto gone = static_cast<std::uint32_t>(
        std::remove_if(over.begin(), over.begin() + over_count, [&](RecordId r) { return !release(r, stripes); }) -
        over.begin());
    lane.lock.lock();
    lane.head.store(head + over_count, std::memory_order_relaxed);
    for (std::uint32_t i = 0; i < gone; ++i) push_free(lane, over[i]);
    lane.is_being_reclaimed = false;
    lane.lock.unlock();
    if (over_count == 0 && retired == 0) return;
  }
}

// False: the record stays, because its key is not in the device's table.
bool Overlay::release(RecordId r, Stripes& stripes) noexcept {
  Record& record = at(r);
  if (record.to.load(std::memory_order_relaxed) == no_location) return true;
  StripeLock lock(stripes.of(record.signature.load(std::memory_order_relaxed)));
  const std::uint8_t flags = record.flags.load(std::memory_order_relaxed);
  if ((flags & detached) != 0) {
    lock.unlock_unchanged();
    return true;
  }
  if ((flags & refused) != 0) {
    record.flags.fetch_or(resident, std::memory_order_relaxed);
    resident_.fetch_add(1, std::memory_order_relaxed);
    lock.unlock_unchanged();
    return false;
  }
  unlink(r);
  lock.unlock_changed(0);
  return true;
}

void Overlay::retire_all(Heap& heap, Heap::Cache& cache) noexcept {
  const Heap::Cache::Lock cache_lock(cache);
  for (std::uint32_t i = 0; i < lane_count; ++i) {
    Lane& lane = lanes_[i];
    lane.lock.lock();
    for (; lane.unretired < lane.tail.load(std::memory_order_relaxed); ++lane.unretired) {
      const Location from = lane.changes[lane.unretired & queue_mask_].from;
      if (from != no_location) heap.retire(cache, from);
    }
    lane.head.store(lane.unretired, std::memory_order_relaxed);
    lane.retired.store(lane.unretired, std::memory_order_relaxed);
    lane.lock.unlock();
  }
}

OverlayStats Overlay::stats() const noexcept {
  OverlayStats s;
  s.records = record_count_;
  for (std::uint32_t i = 0; i < lane_count; ++i) s.changes += lanes_[i].tail.load(std::memory_order_relaxed);
  s.taken = taken_.load(std::memory_order_relaxed);
  s.groups = groups_.load(std::memory_order_relaxed);
  s.resident = resident_.load(std::memory_order_relaxed);
  return s;
}

}  // namespace tandem
