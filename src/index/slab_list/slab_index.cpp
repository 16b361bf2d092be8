#include "index/slab_list/slab_index.hpp"

#include <algorithm>
#include <bit>
#include <new>
#include <stdexcept>

#include "base/hash.hpp"
#include "base/racing_copy.hpp"
#include "base/spin_wait.hpp"
#include "index/index_kind.hpp"
#include "index/slab_list/slab_access.hpp"

namespace tandem {

static_assert(IndexKind<SlabListIndex> && !DeviceSearches<SlabListIndex> && !CanBeOrdered<SlabListIndex>);

namespace {

// As many buckets as an index has items, if each has an item alone: a location has 32 bits.
constexpr std::uint64_t slab_buckets_max = (std::uint64_t{1} << 32) / slab_entries;

std::uint32_t buckets_for(std::uint64_t cells) {
  const std::uint64_t buckets = std::bit_ceil(std::max<std::uint64_t>(cells / (slab_entries + 1), 2));
  if (buckets > slab_buckets_max) throw std::bad_alloc();
  return static_cast<std::uint32_t>(buckets);
}

}  // namespace

SlabListIndex::SlabListIndex(const IndexOptions& options, MemoryBudget& budget, EpochDomain& epochs, Heap& heap)
    : options_(options),
      ops_(slab_ops_named(options.lanes)),
      heap_(heap),
      first_(slab_buckets_max, options.huge_pages, budget),
      pool_(options.huge_pages, budget, epochs),
      stripe_mask_(std::min(buckets_for(options.cells_initial), Stripes::count) - 1),
      stripes_(std::make_unique<Stripe[]>(stripe_mask_ + 1)),
      count_(buckets_for(options.cells_initial)),
      counters_(std::make_unique<Counter[]>(counter_count)) {
  if (options.log != nullptr || options.shard_bits != 0)
    throw std::invalid_argument("devices cannot follow a slab list");
  if (options.ordered) throw std::invalid_argument("a slab list keeps no order");
  bool unmapped = false;
  if (!first_.extend(bucket_count(), unmapped)) throw std::bad_alloc();
}

std::uint32_t SlabListIndex::search_first(const Fingerprint* f, std::uint32_t n, Location* location) const noexcept {
  return ops_.search_lines(view(), f, n, location, heap_.at(no_location));
}

void SlabListIndex::search_second(const Fingerprint* f, std::uint32_t left, Location* location) const noexcept {
  if (left != 0) ops_.search_chains(view(), f, left, location, heap_.at(no_location));
}

Slab* SlabListIndex::next_of(const Slab* slab) const noexcept {
  const std::uint64_t next = slab_load(slab->next);
  return next != 0 ? pool_.at(next) : nullptr;
}

// A hit is valid whatever happens meanwhile: the item was live and had this key when its state was read. A miss is
// valid if nothing changed under the stripe between the two reads of its word: then the bucket was the key's, and its
// whole chain was read while it was unchanged.
Item* SlabListIndex::find(Fingerprint f, std::string_view key, ItemVersion& seen, Location) const noexcept {
  const Stripe& stripe = stripe_of(f);
  for (SpinWait waiting;; waiting.once()) {
    const StripeWord before{stripe.load(std::memory_order_acquire)};
    for (const Slab* slab = view().of(f); slab != nullptr; slab = next_of(slab)) {
      for (std::uint32_t m = ops_.entries_with(slab, slab_key(f)); m != 0; m &= m - 1) {
        Item* const item = heap_.at(slab_load(slab->location[std::countr_zero(m)]));
        if (is_live_item_of(item, key, seen)) return item;
      }
    }
    fence_acquire();
    if (!before.locked() && stripe.load(std::memory_order_acquire) == before.bits) return nullptr;
  }
}

std::unique_ptr<KeyHold> SlabListIndex::hold(Fingerprint f) {
  return std::make_unique<GuardHold<SlabListIndex>>(*this, f);
}

// --- chains. REQUIRES of the next ones: the caller holds the bucket's stripe

// In the key's preferred line, or the one beside it, if that has a free entry. False: the slab is full.
bool SlabListIndex::add_to(Slab* slab, Entry entry) noexcept {
  const std::uint32_t free = ops_.entries_with(slab, 0);
  if (free == 0) return false;
  const std::uint32_t line = preferred_line(fingerprint_of_slab_key(entry.key));
  const std::uint32_t preferred = free & entries_of_line(line), beside = free & entries_of_line(line_beside(line));
  const int at = std::countr_zero(preferred != 0 ? preferred : beside != 0 ? beside : free);
  slab_store(slab->location[at], entry.location);
  slab_store(slab->key[at], entry.key);
  return true;
}

// In the first slab with a free entry, or in a new one at the end. False: there is none.
bool SlabListIndex::add(Slab* first, Entry entry) noexcept {
  Slab* last = first;
  for (Slab* slab = first; slab != nullptr; slab = next_of(slab)) {
    if (add_to(slab, entry)) return true;
    last = slab;
  }
  const SlabPool::Number number = pool_.take();
  if (number == SlabPool::none) return false;
  add_to(pool_.at(number), entry);
  slab_store<std::uint64_t>(last->next, number);
  return true;
}

// Readers that are in such a slab leave it by its own link.
void SlabListIndex::drop_empty(Slab* first) noexcept {
  for (Slab* before = first; before->next != 0;) {
    const std::uint64_t number = slab_load(before->next);
    Slab* const slab = pool_.at(number);
    if (ops_.entries_with(slab, 0) != all_entries) {
      before = slab;
      continue;
    }
    slab_store(before->next, slab_load(slab->next));
    pool_.retire(static_cast<SlabPool::Number>(number));
  }
}

// Moves keys towards the first slab, as far as it and the next ones have free entries.
void SlabListIndex::compact(Slab* first) noexcept {
  Slab* room = first;
  for (Slab* slab = next_of(first); slab != nullptr; slab = next_of(slab)) {
    for (std::uint32_t m = all_entries & ~ops_.entries_with(slab, 0); m != 0; m &= m - 1) {
      const int at = std::countr_zero(m);
      while (room != slab && !add_to(room, {slab_load(slab->key[at]), slab_load(slab->location[at])}))
        room = next_of(room);
      if (room == slab) break;
      slab_store(slab->key[at], std::uint64_t{0});
    }
  }
  drop_empty(first);
}

// --- room

bool SlabListIndex::make_room(Fingerprint f, std::string_view) noexcept {
  for (const Slab* slab = view().of(f); slab != nullptr; slab = next_of(slab)) {
    if (ops_.entries_with(slab, 0) != 0) return true;
  }
  bool unmapped = false;
  if (pool_.has_free() || pool_.extend(unmapped)) return true;
  slab_missing_.store(true, std::memory_order_relaxed);
  return false;
}

std::uint32_t SlabListIndex::candidates(Fingerprint f, std::string_view, Location out[candidates_max]) const noexcept {
  const Slab* const first = view().of(f);
  std::uint32_t used = 0, n = 0;
  const auto for_each = [&](auto&& visit) {
    for (const Slab* slab = first; slab != nullptr; slab = next_of(slab)) {
      for (std::uint32_t i = 0; i < slab_entries; ++i) {
        if (is_slab_key(slab_load(slab->key[i])) && !visit(slab_load(slab->location[i]))) return;
      }
    }
  };
  for_each([&used](Location) { return ++used != 0; });
  if (used == 0) return 0;
  // The chain may change in between; then there are fewer.
  const std::uint32_t start = f.hash % used;
  std::uint32_t at = 0;
  for_each([&](Location l) {
    if (at++ >= start) out[n++] = l;
    return n != candidates_max;
  });
  at = 0;
  if (n != candidates_max && start != 0) {
    for_each([&](Location l) {
      out[n++] = l;
      return n != candidates_max && ++at != start;
    });
  }
  return n;
}

std::uint32_t SlabListIndex::chain_length(Fingerprint f) const noexcept {
  std::uint32_t slabs = 0;
  for (const Slab* slab = view().of(f); slab != nullptr; slab = next_of(slab)) ++slabs;
  return slabs;
}

std::uint64_t SlabListIndex::item_count() const noexcept {
  std::int64_t sum = 0;
  for (std::uint32_t i = 0; i < counter_count; ++i) sum += counters_[i].items.load(std::memory_order_relaxed);
  return sum < 0 ? 0 : static_cast<std::uint64_t>(sum);
}

// Each thread counts on a line of its own, as long as there are no more than counter_count threads.
void SlabListIndex::count(std::int64_t items) noexcept {
  static std::atomic<std::uint32_t> threads{0};
  thread_local const std::uint32_t mine = threads.fetch_add(1, std::memory_order_relaxed) % counter_count;
  counters_[mine].items.fetch_add(items, std::memory_order_relaxed);
}

void SlabListIndex::for_each_location(void (*f)(void*, Location), void* context) const {
  const SlabView now = view();
  for (std::uint32_t bucket = 0; bucket < now.buckets.count; ++bucket) {
    for (const Slab* slab = now.first + bucket; slab != nullptr; slab = next_of(slab)) {
      for (std::uint32_t i = 0; i < slab_entries; ++i) {
        if (is_slab_key(slab_load(slab->key[i]))) f(context, slab_load(slab->location[i]));
      }
    }
  }
}

}  // namespace tandem
