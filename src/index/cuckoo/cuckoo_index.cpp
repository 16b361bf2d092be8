#include "index/cuckoo/cuckoo_index.hpp"

#include <algorithm>
#include <bit>
#include <new>

#include "base/hash.hpp"
#include "index/cuckoo/lanes_scalar.hpp"
#include "index/index_kind.hpp"

namespace tandem {

static_assert(std::is_same_v<Location, std::uint32_t>, "a cell holds a location");
static_assert(IndexKind<CuckooIndex> && DeviceChanges<CuckooIndex>);
static_assert(std::is_final_v<CuckooIndex>);

CuckooIndex::CuckooIndex(const IndexOptions& options, MemoryBudget& budget, EpochDomain& epochs, Heap& heap)
    : options_(options),
      ops_(cuckoo_ops_named(options.lanes)),
      budget_(budget),
      epochs_(epochs),
      heap_(heap),
      counters_(std::make_unique<Counter[]>(counter_count)) {
  constexpr std::uint64_t page_buckets = 4096 / sizeof(Bucket);
  const std::uint64_t buckets = std::bit_ceil((options.cells_initial + bucket_cells - 1) / bucket_cells);
  table_ = Table::make(std::clamp(buckets, page_buckets, Table::buckets_max), 1, options.huge_pages, budget,
                       options.shard_bits);
  if (!table_) throw std::bad_alloc();
  table_bytes_.store(table_->bytes(), std::memory_order_relaxed);
  if (options_.fingerprint == nullptr)
    options_.fingerprint = [](std::string_view key, std::uint64_t seed) { return fingerprint_of(key, seed); };
  publish({table_.get(), nullptr, table_.get()});
  if (options.ordered)
    order_ = std::make_unique<OrderTree>(TreeOptions{.shape = options.tree, .huge_pages = options.huge_pages}, budget,
                                         epochs, heap);
}

CuckooIndex::~CuckooIndex() = default;

void CuckooIndex::search(const Fingerprint* f, std::uint32_t count, Location* location) const noexcept {
  const Table& table = *phase().read;
  (table.reads_both() ? ops_.search_both : ops_.search_two_pass)(table.view(), f, count, location,
                                                                 heap_.at(no_location));
}

std::uint32_t CuckooIndex::search_first(const Fingerprint* f, std::uint32_t count, Location* location) const noexcept {
  const Table& table = *phase().read;
  const void* const items = heap_.at(no_location);
  if (!table.reads_both()) return ops_.search_first(table.view(), f, count, location, items);
  ops_.search_both(table.view(), f, count, location, items);
  return 0;
}

// A growth may have changed the table since the first step. Some keys are then not found here, as after any miss.
void CuckooIndex::search_second(const Fingerprint* f, std::uint32_t left, Location* location) const noexcept {
  if (left != 0) ops_.search_second(phase().read->view(), f, left, location, heap_.at(no_location));
}

// Write protocol 5. A hit is valid whatever happens meanwhile: the item was live and had this key when its state was
// read. A miss is valid if nothing changed under the stripe between the two reads of its word: then every cell was read
// while the table did not change.
Item* CuckooIndex::find(Fingerprint f, std::string_view key, ItemVersion& seen, Location candidate) const noexcept {
  if (const Elsewhere* const table = elsewhere(); TD_UNLIKELY(table != nullptr))
    return find_elsewhere(*table, f, key, seen, candidate);
  const Stripe& stripe = stripes_.of(f.signature);
  const Phase& p = phase();
  SpinWait waiting;
  for (;;) {
    const StripeWord before{stripe.load(std::memory_order_acquire)};
    for (const Table* table : {p.read, p.other}) {
      if (table == nullptr) break;
      const IndexView view = table->view();
      for (const std::uint32_t b : {view.first(f), view.second(f)}) {
        const Bucket* const bucket = view.buckets + b;
        for (std::uint32_t m = ops_.probe(bucket, f.signature).same; m != 0; m &= m - 1) {
          const Cell c{ScalarLanes::at(&bucket->cell[std::countr_zero(m)]).load(std::memory_order_acquire)};
          if (c.signature() != f.signature) continue;
          Item* item = heap_.at(c.location());
          if (is_live_item_of(item, key, seen)) return item;
        }
      }
    }
    // The loads of probe() come before this one; a cell seen changed makes the change of the stripe's word visible
    // here.
    if (!before.locked() && stripe.load(std::memory_order_relaxed) == before.bits) return nullptr;
    waiting.once();
  }
}

// A hit is valid, as in find(): a key has at most one live item. A miss is valid if nothing changed under the stripe
// while the records were read.
Item* CuckooIndex::find_elsewhere(const Elsewhere& table, Fingerprint f, std::string_view key, ItemVersion& seen,
                                  Location candidate) const noexcept {
  if (candidate != no_location && is_live_item_of(heap_.at(candidate), key, seen)) return heap_.at(candidate);
  const Stripe& stripe = stripes_.of(f.signature);
  for (SpinWait waiting;; waiting.once()) {
    const StripeWord before{stripe.load(std::memory_order_acquire)};
    if (Item* const item = table.find(f, key, seen)) return item;
    std::atomic_thread_fence(std::memory_order_acquire);
    if (!before.locked() && stripe.load(std::memory_order_relaxed) == before.bits) return nullptr;
  }
}

void CuckooIndex::prefetch_stripe(Fingerprint f) const noexcept { prefetch_write(&stripes_.of(f.signature)); }

std::uint32_t CuckooIndex::candidates(Fingerprint f, std::string_view key, Location out[16]) const noexcept {
  if (elsewhere() != nullptr) return 0;
  if (order_ != nullptr && order_->wants_room(f, key)) return order_->candidates(f, key, out);
  const IndexView view = phase().target->view();
  std::uint32_t n = 0;
  for (const std::uint32_t b : {view.first(f), view.second(f)}) {
    for (const std::uint64_t& cell : view.buckets[b].cell) {
      const Cell c{ScalarLanes::at(&cell).load(std::memory_order_acquire)};
      if (!c.empty()) out[n++] = c.location();
    }
  }
  return n;
}

bool CuckooIndex::wants_growth() const noexcept {
  return wants_larger_table() || (order_ != nullptr && order_->wants_growth());
}

bool CuckooIndex::wants_larger_table() const noexcept {
  if (elsewhere() != nullptr) return false;
  return room_failed_.load(std::memory_order_relaxed) ||
         static_cast<double>(item_count()) > options_.load_grow * static_cast<double>(cell_count());
}

std::uint64_t CuckooIndex::item_count() const noexcept {
  std::int64_t sum = 0;
  for (std::uint32_t i = 0; i < counter_count; ++i) sum += counters_[i].items.load(std::memory_order_relaxed);
  return sum < 0 ? 0 : static_cast<std::uint64_t>(sum);
}

std::uint64_t CuckooIndex::table_bytes() const noexcept {
  return table_bytes_.load(std::memory_order_relaxed) + (order_ != nullptr ? order_->bytes() : 0);
}

ScanResult CuckooIndex::scan(const ScanRange& range, std::uint32_t most, ScanCopies& copies,
                             ScanStamp& stamp) noexcept {
  TD_ASSERT(order_ != nullptr);
  return order_->scan(range, most, copies, stamp);
}

void CuckooIndex::prefetch_scans(std::span<const ScanStart> starts, ScansAhead& ahead) const noexcept {
  TD_ASSERT(order_ != nullptr);
  order_->prefetch_scans(starts, ahead);
}

// Each thread counts on a line of its own, as long as there are no more than counter_count threads. Returns that line's
// new value.
std::int64_t CuckooIndex::count(std::int64_t items) noexcept {
  static std::atomic<std::uint32_t> threads{0};
  thread_local const std::uint32_t mine = threads.fetch_add(1, std::memory_order_relaxed) % counter_count;
  return counters_[mine].items.fetch_add(items, std::memory_order_relaxed) + items;
}

// Claims the empty cell nearest the preferred one, in the first bucket before the second (Mega-KV 4.2). nullptr: there
// is none. REQUIRES: the caller holds the key's stripe.
std::uint64_t* CuckooIndex::add_cell(const Table& table, Fingerprint f, Cell now, ChangeLog* log) noexcept {
  const IndexView view = table.view();
  const std::uint32_t preferred = preferred_cell(f.signature);
  for (const std::uint32_t b : {view.first(f), view.second(f)}) {
    Bucket* const bucket = view.buckets + b;
    while (const std::uint32_t empty = ops_.probe(bucket, f.signature).empty) {
      const std::uint32_t turned = (empty | empty << bucket_cells) >> preferred;
      const std::uint32_t slot = (preferred + static_cast<std::uint32_t>(std::countr_zero(turned))) % bucket_cells;
      std::uint64_t* const cell = &bucket->cell[slot];
      const Logged logged(log, {Change{table.serial(), table.index_of(cell)}});
      std::uint64_t seen = 0;
      if (ScalarLanes::at(cell).compare_exchange_strong(seen, now.bits, std::memory_order_release,
                                                        std::memory_order_relaxed)) {
        return cell;
      }
    }
  }
  return nullptr;
}

void CuckooIndex::publish(Phase next) noexcept {
  Phase& place = phases_[++phase_number_ % phases_.size()];
  place = next;
  hint_buckets_.store(next.read->view().buckets, std::memory_order_relaxed);
  hint_mask_.store(next.read->view().mask, std::memory_order_relaxed);
  cells_.store(next.target->cells(), std::memory_order_relaxed);
  // Sequentially consistent, as are the loads: a participant that synchronize() found offline, and that enters
  // afterwards, sees this phase.
  phase_.store(&place, std::memory_order_seq_cst);
}

}  // namespace tandem
