// Growth without a stall: a second table is filled while readers and writers continue.
//
// Phases (CuckooIndex::Phase as read / other / target), each published and then waited for (every batch that knew the
// previous one has ended):
//   1  A / - / A   no growth.
//   2  A / B / A   readers that miss in A search B; writers change what B holds, and add nothing to it. B is empty.
//   3  A / B / B   new keys must go into B, and into A while it has free cells. No writer displaces in A any more. Once
//                  phase 2 has drained, every cell of A is copied under its key's stripe, unless B has it.
//   4  B / - / B   B has all keys. Once phase 3 has drained, A is freed.
// What each wait is for:
//   2 before 3: a writer of phase 1 removes a key from A alone. If a writer of phase 3 had put that key into B, B would
//     keep for ever a cell of a dead item, and of whatever reuses its slot.
//   3 before the copy: a writer of phase 2 adds to A alone, and displaces in A; behind the copy, either is lost.
//   4 before the end: readers of phase 3 still search A. Writers of phase 4 do not change A, so it may hold cells of
//     dead items. Readers that find one search B, and their epoch keeps the slots from being reused.
// New keys need no room in A during the copy, so A may fill up and no insertion waits for the copy, unless writers
// outrun it: the keys not yet copied have a claim on B's cells. A writer that must wait for that copies meanwhile.
// tests/model/growth.py checks all of this, and that omitting a wait gives a wrong answer.
#include <algorithm>

#include "index/cuckoo/cuckoo_index.hpp"
#include "index/cuckoo/lanes_scalar.hpp"

namespace tandem {

namespace {
constexpr std::uint64_t chunk_buckets = 64;
std::uint64_t chunks_of(const Table& table) { return (table.buckets() + chunk_buckets - 1) / chunk_buckets; }
}  // namespace

// The order first, and one of the two at a time: each is allowed, or refused, by its own need of memory.
bool CuckooIndex::grow(EpochDomain::Participant& self) {
  if (order_ != nullptr && order_->wants_growth()) return order_->grow(&memory_refused_);
  return order_ == nullptr || wants_larger_table() ? grow_table(self) : true;
}

std::uint64_t CuckooIndex::growth_bytes() const noexcept {
  if (order_ != nullptr && order_->wants_growth()) return order_->growth_bytes();
  return order_ == nullptr || wants_larger_table() ? table_bytes_.load(std::memory_order_relaxed) : 0;
}

bool CuckooIndex::grow_table(EpochDomain::Participant& self) {
  TD_ASSERT(!self.active());
  memory_refused_ = false;
  if (!next_) {
    if (table_->buckets() >= Table::buckets_max) return false;
    next_ = Table::make(table_->buckets() * 2, table_->serial() + 1, options_.huge_pages, budget_, options_.shard_bits,
                        false, &memory_refused_);
    if (!next_) return false;
    table_bytes_.fetch_add(next_->bytes(), std::memory_order_relaxed);
    publish({table_.get(), next_.get(), table_.get()});
    epochs_.synchronize();
    target_full_.store(false, std::memory_order_relaxed);
    publish({table_.get(), next_.get(), next_.get()});
    epochs_.synchronize();
  }
  if (!copy_all(self)) {
    room_failed_.store(true, std::memory_order_relaxed);  // so that growth stays wanted
    return false;
  }
  publish({next_.get(), nullptr, next_.get()});
  epochs_.synchronize();
  table_bytes_.fetch_sub(table_->bytes(), std::memory_order_relaxed);
  table_ = std::move(next_);
  room_failed_.store(false, std::memory_order_relaxed);
  return true;
}

// False: some cells found no room.
bool CuckooIndex::copy_all(EpochDomain::Participant& self) noexcept {
  const std::uint64_t chunks = chunks_of(*table_);
  constexpr int passes_max = 3;  // paths may be lost to other writers; a cell that found no room three times has none
  for (int pass = 0; pass < passes_max; ++pass) {
    copying_.missed.store(false, std::memory_order_relaxed);
    copying_.chunks_done.store(0, std::memory_order_relaxed);
    copying_.next_chunk.store(0, std::memory_order_release);
    bool more = true;
    while (more) {
      self.enter();  // one epoch per chunk, so that reclamation waits no longer than for a batch
      more = copy_some();
      self.exit();
    }
    SpinWait waiting;  // for the chunks that other threads have claimed
    while (copying_.chunks_done.load(std::memory_order_acquire) != chunks) waiting.once();
    if (!copying_.missed.load(std::memory_order_relaxed)) break;
  }
  copying_.next_chunk.store(Copying::closed, std::memory_order_relaxed);
  return !copying_.missed.load(std::memory_order_relaxed);
}

// Copies one chunk, if one is left. REQUIRES: the caller is in an epoch.
bool CuckooIndex::copy_some() noexcept {
  const Phase& p = phase();
  if (p.read == p.target) return false;
  const std::uint64_t chunk = copying_.next_chunk.fetch_add(1, std::memory_order_acquire);
  if (chunk >= chunks_of(*p.read)) return false;
  const std::uint64_t begin = chunk * chunk_buckets, end = std::min(begin + chunk_buckets, p.read->buckets());
  if (!copy_buckets(*p.read, *p.target, begin, end)) copying_.missed.store(true, std::memory_order_relaxed);
  copying_.chunks_done.fetch_add(1, std::memory_order_release);
  return true;
}

bool CuckooIndex::copy_buckets(const Table& from, const Table& to, std::uint64_t begin, std::uint64_t end) noexcept {
  constexpr std::uint64_t ahead_buckets = 3;  // items are prefetched this many buckets before their keys are hashed
  const IndexView view = from.view();
  const auto read = [&](std::uint64_t b, std::uint32_t i) {
    return Cell{ScalarLanes::at(&view.buckets[b].cell[i]).load(std::memory_order_acquire)};
  };
  bool all = true;
  for (std::uint64_t b = begin; b < end + ahead_buckets; ++b) {
    if (b < end) {
      for (std::uint32_t i = 0; i < bucket_cells; ++i) {
        const Cell c = read(b, i);
        if (!c.empty()) prefetch_read(heap_.at(c.location()));
      }
    }
    if (b < begin + ahead_buckets) continue;
    const std::uint64_t now = b - ahead_buckets;
    Cell seen[bucket_cells];
    Fingerprint f[bucket_cells];
    for (std::uint32_t i = 0; i < bucket_cells; ++i) {
      seen[i] = read(now, i);
      if (seen[i].empty()) continue;
      const Item* const item = heap_.at(seen[i].location());  // readable even if unlinked: this is an epoch
      f[i] = options_.fingerprint(item->key(), options_.hash_seed);
      prefetch_write(to.view().buckets + to.view().first(f[i]));
      prefetch_stripe(f[i]);
    }
    for (std::uint32_t i = 0; i < bucket_cells; ++i) {
      if (!seen[i].empty() && !copy_cell(to, f[i], &view.buckets[now].cell[i], seen[i])) all = false;
    }
  }
  return all;
}

bool CuckooIndex::holds(IndexView view, Fingerprint f, Cell wanted) const noexcept {
  for (const std::uint32_t b : {view.first(f), view.second(f)}) {
    for (const std::uint64_t& cell : view.buckets[b].cell) {
      if (ScalarLanes::at(&cell).load(std::memory_order_relaxed) == wanted.bits) return true;
    }
  }
  return false;
}

// Copies the content of `cell` of the old table, unless the new one has it. f: of the key of `seen`, which the cell
// held when it was last read.
bool CuckooIndex::copy_cell(const Table& to, Fingerprint f, const std::uint64_t* cell, Cell seen) noexcept {
  const IndexView view = to.view();
  do {
    StripeLock lock(stripes_.of(seen.signature()));
    const Cell now{ScalarLanes::at(cell).load(std::memory_order_relaxed)};
    if (now.signature() != seen.signature()) {  // removed; a key added here since is in the new table
      lock.unlock_unchanged();
      return true;
    }
    if (now != seen) f = options_.fingerprint(heap_.at(now.location())->key(), options_.hash_seed);
    if (holds(view, f, now)) {
      lock.unlock_unchanged();
      return true;
    }
    // Copies are not logged: a replica uploads the new table when it is complete.
    if (add_cell(to, f, now, nullptr) != nullptr) {
      lock.unlock_changed(launch());
      return true;
    }
    lock.unlock_unchanged();
  } while (make_room_in(to, f));
  return false;
}

}  // namespace tandem
