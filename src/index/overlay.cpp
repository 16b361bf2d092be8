#include "index/overlay.hpp"

#include <algorithm>
#include <array>
#include <new>

namespace tandem {
namespace {

constexpr std::uint32_t refill_records = 256;
// Records of a lane that are looked at before its lock is given back.
constexpr std::uint32_t settle_records = 64;
// A record may be taken from under a reader and be linked elsewhere: it does not follow such a chain for ever.
constexpr std::uint32_t steps_max = 1 << 16;

}  // namespace

Overlay::Overlay(std::uint32_t records, std::uint32_t threads_max, MemoryBudget& budget)
    : budget_(budget), record_count_(records), margin_(8 + 2 * ((threads_max + lane_count - 1) / lane_count)) {
  const std::uint64_t bytes = std::uint64_t{records} * sizeof(Record);
  if (!budget_.take(bytes)) throw std::bad_alloc();
  try {
    records_ = std::make_unique<Record[]>(records);
    chains_ = std::make_unique<std::atomic<RecordId>[]>(Stripes::count);
    lanes_ = std::make_unique<Lane[]>(lane_count);
    cut_.resize(lane_count);
  } catch (...) {
    budget_.give_back(bytes);
    throw;
  }
  for (std::uint32_t i = 0; i < Stripes::count; ++i) chains_[i].store(none, std::memory_order_relaxed);
  for (RecordId r = 0; r < records; ++r) records_[r].next_in_lane = r + 1 < records ? r + 1 : none;
  free_ = records != 0 ? 0 : none;
  free_count_ = records;
}

Overlay::~Overlay() { budget_.give_back(std::uint64_t{record_count_} * sizeof(Record)); }

Overlay::Lane& Overlay::my_lane() const noexcept {
  static std::atomic<std::uint32_t> threads{0};
  thread_local const std::uint32_t mine = threads.fetch_add(1, std::memory_order_relaxed) % lane_count;
  return lanes_[mine];
}

// --- free records

void Overlay::refill(Lane& lane, std::uint32_t count) noexcept {
  free_lock_.lock();
  for (; count != 0 && free_ != none; --count, --free_count_) {
    const RecordId r = free_;
    free_ = at(r).next_in_lane;
    at(r).next_in_lane = lane.free;
    lane.free = r;
    ++lane.free_count;
  }
  free_lock_.unlock();
}

bool Overlay::has_room() noexcept {
  Lane& lane = my_lane();
  lane.lock.lock();
  if (TD_UNLIKELY(lane.free_count < margin_)) refill(lane, refill_records);
  const bool room = lane.free_count >= margin_;
  lane.lock.unlock();
  return room;
}

Overlay::RecordId Overlay::pop(Lane& lane) noexcept {
  if (TD_UNLIKELY(lane.free == none)) refill(lane, refill_records);
  TD_ASSERT(lane.free != none);  // has_room() left one for each thread that may be here
  const RecordId r = lane.free;
  lane.free = at(r).next_in_lane;
  --lane.free_count;
  return r;
}

void Overlay::push_free(Lane& lane, RecordId r) noexcept {
  at(r).next_in_lane = lane.free;
  lane.free = r;
  if (++lane.free_count < 2 * refill_records) return;
  free_lock_.lock();
  for (std::uint32_t i = 0; i < refill_records; ++i) {
    const RecordId given = lane.free;
    lane.free = at(given).next_in_lane;
    at(given).next_in_lane = free_;
    free_ = given;
  }
  free_count_ += refill_records;
  lane.free_count -= refill_records;
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
        if (Item::state_of(item->state_word.load(std::memory_order_relaxed)) == ItemState::live) {
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

// The record's item is the key's no more. A resident one is in no queue, and goes at once.
void Overlay::detach(RecordId r) noexcept {
  unlink(r);
  Record& record = at(r);
  if ((record.flags.load(std::memory_order_relaxed) & resident) == 0) {
    record.flags.fetch_or(detached, std::memory_order_relaxed);
    return;
  }
  resident_.fetch_sub(1, std::memory_order_relaxed);
  Lane& lane = my_lane();
  lane.lock.lock();
  push_free(lane, r);
  lane.lock.unlock();
}

void Overlay::append(Lane& lane, RecordId r) noexcept {
  at(r).next_in_lane = none;
  if (lane.tail != none) at(lane.tail).next_in_lane = r;
  lane.tail = r;
  if (lane.head == none) lane.head = r;
  if (lane.unretired == none) lane.unretired = r;
  if (lane.untaken == none) lane.untaken = r;
  lane.appended.store(lane.appended.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void Overlay::put(Fingerprint f, Location from, Location to, RecordId old, bool is_resident) noexcept {
  if (old != none) detach(old);
  Lane& lane = my_lane();
  lane.lock.lock();
  const RecordId r = pop(lane);
  Record& record = at(r);
  record.signature.store(f.signature, std::memory_order_relaxed);
  record.hash = f.hash;
  record.to.store(to, std::memory_order_relaxed);
  record.group.store(0, std::memory_order_relaxed);
  // A resident one in place of an item that the device may have is a removal, which has a record of its own.
  record.from = is_resident ? no_location : from;
  record.flags.store(is_resident ? resident : 0, std::memory_order_relaxed);
  std::atomic<RecordId>& first = chain(f.signature);
  record.next.store(first.load(std::memory_order_relaxed), std::memory_order_relaxed);
  first.store(r, std::memory_order_release);
  if (!is_resident) append(lane, r);
  lane.lock.unlock();
  if (!is_resident) return;
  resident_.fetch_add(1, std::memory_order_relaxed);
  if (from != no_location) erase(f, from, none);
}

void Overlay::erase(Fingerprint f, Location from, RecordId old) noexcept {
  if (old != none) detach(old);
  Lane& lane = my_lane();
  lane.lock.lock();
  const RecordId r = pop(lane);
  Record& record = at(r);
  record.signature.store(f.signature, std::memory_order_relaxed);
  record.hash = f.hash;
  record.from = from;
  record.to.store(no_location, std::memory_order_relaxed);
  record.group.store(0, std::memory_order_relaxed);
  record.flags.store(detached, std::memory_order_relaxed);
  append(lane, r);
  lane.lock.unlock();
}

// --- readers

Item* Overlay::find(Fingerprint f, std::string_view key, const Heap& heap, std::uint64_t& state) const noexcept {
  std::uint32_t steps = 0;
  for (RecordId r = chain(f.signature).load(std::memory_order_acquire); r != none && ++steps < steps_max;) {
    const Record& record = at(r);
    const RecordId next = record.next.load(std::memory_order_acquire);
    if (record.signature.load(std::memory_order_acquire) == f.signature) {
      // no_location: the record was used again.
      const Location l = record.to.load(std::memory_order_acquire);
      Item* const item = heap.at(l);
      const std::uint64_t seen = l != no_location ? item->state_acquire() : 0;
      if (Item::state_of(seen) == ItemState::live && item->has_key(key)) {
        state = seen;
        return item;
      }
    }
    r = next;
  }
  return nullptr;
}

// --- the scheduler

bool Overlay::has_pending() const noexcept {
  if (cut_lane_ != lane_count) return true;
  std::uint64_t appended = 0;
  for (std::uint32_t i = 0; i < lane_count; ++i) appended += lanes_[i].appended.load(std::memory_order_relaxed);
  return appended != taken_.load(std::memory_order_relaxed);
}

void Overlay::begin_group() noexcept {
  if (cut_lane_ != lane_count) return;
  for (std::uint32_t i = 0; i < lane_count; ++i) lanes_[i].lock.lock();
  for (std::uint32_t i = 0; i < lane_count; ++i) {
    cut_[i] = {lanes_[i].untaken, lanes_[i].tail};
    lanes_[i].untaken = none;
  }
  for (std::uint32_t i = 0; i < lane_count; ++i) lanes_[i].lock.unlock();
  cut_lane_ = 0;
  if (++group_ == 0) group_ = 1;
}

std::uint32_t Overlay::take(CellChange* changes, RecordId* taken, std::uint32_t count) noexcept {
  std::uint32_t n = 0;
  std::uint64_t looked_at = 0;
  for (; cut_lane_ != lane_count; ++cut_lane_) {
    Cut& cut = cut_[cut_lane_];
    while (cut.next != none && n != count) {
      const RecordId r = cut.next;
      Record& record = at(r);
      cut.next = r == cut.last ? none : record.next_in_lane;
      if (cut.next != none) prefetch_read(&at(cut.next));
      const bool adds = (record.flags.load(std::memory_order_relaxed) & detached) == 0;
      const Location to = adds ? record.to.load(std::memory_order_relaxed) : no_location;
      if (record.from != no_location || to != no_location) {
        changes[n] = {{record.signature.load(std::memory_order_relaxed), record.hash}, record.from, to};
        taken[n++] = r;
      }
      ++looked_at;
      // From now on the record may go once the group is complete.
      record.group.store(group_, std::memory_order_release);
    }
    if (cut.next != none) break;
  }
  taken_.store(taken_.load(std::memory_order_relaxed) + looked_at, std::memory_order_relaxed);
  return n;
}

void Overlay::failed(RecordId record) noexcept { at(record).flags.fetch_or(refused, std::memory_order_relaxed); }

std::uint32_t Overlay::complete() noexcept {
  complete_.store(group_, std::memory_order_release);
  groups_.fetch_add(1, std::memory_order_relaxed);
  return group_;
}

// --- what is over

bool Overlay::has_unretired() const noexcept {
  std::uint64_t appended = 0, retired = 0;
  for (std::uint32_t i = 0; i < lane_count; ++i) {
    retired += lanes_[i].retired.load(std::memory_order_relaxed);
    appended += lanes_[i].appended.load(std::memory_order_relaxed);
  }
  return appended != retired;
}

void Overlay::settle(Heap& heap, Heap::Cache& cache, Stripes& stripes, bool all) noexcept {
  if (!all) return settle(my_lane(), heap, cache, stripes);
  for (std::uint32_t i = 0; i < lane_count; ++i) settle(lanes_[i], heap, cache, stripes);
}

// Neither a stripe nor a cache is locked inside a lane: a writer that holds a stripe locks its lane.
void Overlay::settle(Lane& lane, Heap& heap, Heap::Cache& cache, Stripes& stripes) noexcept {
  for (;;) {
    std::array<Location, settle_records> displaced;
    std::array<RecordId, settle_records> over;
    std::uint32_t displaced_count = 0, over_count = 0;
    const std::uint32_t complete = complete_.load(std::memory_order_acquire);
    const std::uint32_t safe = safe_.load(std::memory_order_acquire);
    if (!lane.lock.try_lock()) return;  // its thread is at it
    std::uint64_t retired = 0;
    while (lane.unretired != none && displaced_count != settle_records &&
           is_up_to(at(lane.unretired).group.load(std::memory_order_acquire), complete)) {
      const Record& record = at(lane.unretired);
      if (record.from != no_location) displaced[displaced_count++] = record.from;
      lane.unretired = record.next_in_lane;
      ++retired;
    }
    while (lane.head != lane.unretired && over_count != settle_records &&
           is_up_to(at(lane.head).group.load(std::memory_order_acquire), safe)) {
      over[over_count++] = lane.head;
      lane.head = at(lane.head).next_in_lane;
    }
    if (lane.head == none) lane.tail = none;
    lane.lock.unlock();
    if (displaced_count != 0) {
      const Heap::Cache::Lock lock(cache);
      for (std::uint32_t i = 0; i < displaced_count; ++i) heap.retire(cache, displaced[i]);
    }
    // Not before: who waits for slots must find them either here or among the retired.
    lane.retired.fetch_add(retired, std::memory_order_relaxed);
    if (over_count == 0 && retired == 0) return;
    const std::uint32_t gone = static_cast<std::uint32_t>(
        std::remove_if(over.begin(), over.begin() + over_count, [&](RecordId r) { return !let_go(r, stripes); }) -
        over.begin());
    lane.lock.lock();
    for (std::uint32_t i = 0; i < gone; ++i) push_free(lane, over[i]);
    lane.lock.unlock();
  }
}

// False: it stays, as its key is not in the device's table.
bool Overlay::let_go(RecordId r, Stripes& stripes) noexcept {
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
    for (; lane.unretired != none; lane.unretired = at(lane.unretired).next_in_lane) {
      if (at(lane.unretired).from != no_location) heap.retire(cache, at(lane.unretired).from);
    }
    lane.head = lane.tail = lane.untaken = none;
    lane.retired.store(lane.appended.load(std::memory_order_relaxed), std::memory_order_relaxed);
    lane.lock.unlock();
  }
}

OverlayStats Overlay::stats() const noexcept {
  OverlayStats s;
  s.records = record_count_;
  for (std::uint32_t i = 0; i < lane_count; ++i) s.changes += lanes_[i].appended.load(std::memory_order_relaxed);
  s.taken = taken_.load(std::memory_order_relaxed);
  s.groups = groups_.load(std::memory_order_relaxed);
  s.resident = resident_.load(std::memory_order_relaxed);
  return s;
}

}  // namespace tandem
