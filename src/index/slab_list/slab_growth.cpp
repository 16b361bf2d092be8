// Growth without a second table: bucket after bucket is divided in two, under the stripe that both halves have (linear
// hashing). A key word has the whole hash, so no item is read.
//
// Readers without the stripe may know the number of buckets of any earlier moment, or miss a key that moves between two
// slabs while they look. Both end as a miss, which find() confirms by the stripe: it takes the number after the
// stripe's word. So the number changes before the stripe is released, and the release has a new version.
#include <algorithm>
#include <bit>

#include "index/slab_list/slab_access.hpp"
#include "index/slab_list/slab_index.hpp"

namespace tandem {

namespace {
// Keys of a bucket where the table is as full as load_grow says, at 0.9: with 21.6, 2 % of the buckets need a second
// slab while all are divided equally often.
constexpr double bucket_keys = 24;
constexpr std::uint64_t step_slabs_min = 128;
}  // namespace

std::uint64_t SlabListIndex::step_slabs() const noexcept {
  return std::max<std::uint64_t>(bucket_count() / 8, step_slabs_min);
}

bool SlabListIndex::wants_growth() const noexcept {
  return slab_missing_.load(std::memory_order_relaxed) ||
         static_cast<double>(item_count()) > options_.load_grow * bucket_keys * bucket_count();
}

std::uint64_t SlabListIndex::growth_bytes() const noexcept {
  if (slab_missing_.load(std::memory_order_relaxed)) return pool_.extend_bytes();
  return bucket_count() < first_.slabs() ? 0 : SlabMemory::bytes_for(step_slabs());
}

bool SlabListIndex::grow(EpochDomain::Participant& self) {
  TD_ASSERT(!self.active());
  memory_refused_ = false;
  if (slab_missing_.load(std::memory_order_relaxed)) {
    if (!pool_.extend(memory_refused_)) return false;
    slab_missing_.store(false, std::memory_order_relaxed);
    return true;
  }
  // What an earlier call could not end comes first.
  if (bucket_count() >= first_.slabs() && !first_.extend(step_slabs(), memory_refused_)) return false;
  while (bucket_count() < first_.slabs()) {
    if (!divide_next() && !pool_.extend(memory_refused_)) return false;
  }
  return true;
}

// Links so many slabs to the first one of a new bucket that the entries have room. False: there are too few.
bool SlabListIndex::extend_empty(Slab* first, std::size_t entries) noexcept {
  for (std::size_t room = slab_entries; room < entries; room += slab_entries) {
    const SlabPool::Number number = pool_.take();
    if (number == SlabPool::none) {
      while (first->next != 0) {
        const std::uint64_t taken = first->next;
        slab_store(first->next, slab_load(pool_.at(taken)->next));
        pool_.give_back(static_cast<SlabPool::Number>(taken));
      }
      return false;
    }
    slab_store(pool_.at(number)->next, slab_load(first->next));
    slab_store<std::uint64_t>(first->next, number);
  }
  return true;
}

// Calls f(slab, entry, its key) for the keys of the chain that will be in another bucket.
template <class F>
void SlabListIndex::for_each_moving(Slab* first, SlabBuckets after, F f) const noexcept {
  const auto bucket = static_cast<std::uint32_t>(first - first_.start());
  for (Slab* slab = first; slab != nullptr; slab = next_of(slab)) {
    for (std::uint32_t i = 0; i < slab_entries; ++i) {
      const std::uint64_t key = slab_load(slab->key[i]);
      if (is_slab_key(key) && after.of(fingerprint_of_slab_key(key)) != bucket) f(slab, i, key);
    }
  }
}

// False: a slab is missing, and nothing has changed.
bool SlabListIndex::divide_next() noexcept {
  const SlabBuckets now(bucket_count()), after(now.count + 1);
  const std::uint32_t divided = now.next_divided();
  Slab* const from = first_.start() + divided;
  Slab* const to = first_.start() + now.count;  // zeroed, and no bucket yet
  StripeLock lock(stripes_[divided & stripe_mask_]);
  std::size_t moving = 0;
  for_each_moving(from, after, [&moving](Slab*, std::uint32_t, std::uint64_t) { ++moving; });
  if (!extend_empty(to, moving)) {
    lock.unlock_unchanged();
    return false;
  }
  for_each_moving(from, after, [this, to](Slab* slab, std::uint32_t i, std::uint64_t key) {
    add(to, {key, slab_load(slab->location[i])});
  });
  count_.store(after.count, std::memory_order_release);
  for_each_moving(from, after,
                  [](Slab* slab, std::uint32_t i, std::uint64_t) { slab_store(slab->key[i], std::uint64_t{0}); });
  compact(from);
  lock.unlock_changed(0);
  return true;
}

}  // namespace tandem
