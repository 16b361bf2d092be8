// A warp's searches and changes of slabs in a device's memory, written once over the warp W: CUDA's 32 threads, or a
// loop over 32 lanes on a simulated device.
//
// Source: KVCG 5.1 (L-Slab: each thread of a warp leads one query; for each, the warp compares a slab's 31 keys by one
// coalesced load and a ballot; a reader-writer lock for each bucket). Departures: a lock is held along the whole chain;
// a lock that is not free is left for later, so no warp waits while it holds one, and none depends on the order in
// which warps run; the lanes of a search take their locks at once, and read their locations at once
// (docs/decisions/0048-slab-kernels.md).
#pragma once
#include <concepts>
#include <cstdint>
#include <type_traits>

#include "base/fingerprint.hpp"
#include "base/host_device.hpp"
#include "heap/item.hpp"
#include "index/cuckoo/cell.hpp"
#include "index/slab_list/slab.hpp"

namespace tandem {

inline constexpr std::uint32_t warp_lanes = 32;

// Further slabs that no chain has. Those that were given back lie in stacks, one for each lane, so that warps seldom
// meet at one; the others were never used.
struct SlabFree {
  struct alignas(32) Stack {
    std::uint64_t top;  // |63 changes 32|31 number 0|; number 0: it is empty
  };
  Stack stack[warp_lanes];
  std::uint32_t fresh;  // numbers up to it were used
};

// A slab list in a device's memory. Before its first use all but `buckets` and `more_count` is zero.
struct SlabTable {
  Slab* first;           // by bucket
  Slab* more;            // number n is more[n - 1]
  std::uint32_t* lock;   // by bucket: |31 writer|30 a writer waits|29 readers 0|
  std::uint32_t* below;  // number n lies in its stack above below[n - 1]
  SlabFree* free;
  SlabBuckets buckets;
  std::uint32_t more_count;
};

// clang-format off
// The words of memory are a device's; fetch_or and the like return what was there. A PerLane has a value for each lane,
// and is indexed by the lane that each() and ballot() name.
template <class W>
concept SlabWarp = requires(const W w, std::uint32_t& word, std::uint64_t& wide, std::uint32_t lane,
                            typename W::template PerLane<std::uint64_t> v) {
  { v[lane] }         -> std::same_as<std::uint64_t&>;
  { w.from(v, lane) } -> std::same_as<std::uint64_t>;  // that lane's value, in all
  { w.lowest(lane) }  -> std::same_as<std::uint32_t>;  // index of the lowest bit that is set; there is one
  { w.count(lane) }   -> std::same_as<std::uint32_t>;  // of bits that are set
  w.each(static_cast<void (*)(std::uint32_t)>(nullptr));
  // Bit i: lane i's predicate.
  { w.ballot(static_cast<bool (*)(std::uint32_t)>(nullptr)) } -> std::same_as<std::uint32_t>;
  // That lane's result, in all.
  { w.by(lane, static_cast<std::uint32_t (*)()>(nullptr)) } -> std::same_as<std::uint32_t>;
  { W::load(word) }   -> std::same_as<std::uint32_t>;
  W::store(word, lane);
  { W::fetch_add(word, lane) } -> std::same_as<std::uint32_t>;
  { W::fetch_sub(word, lane) } -> std::same_as<std::uint32_t>;
  { W::fetch_or(word, lane) }  -> std::same_as<std::uint32_t>;
  { W::exchange_if(wide, std::uint64_t{}, std::uint64_t{}) } -> std::same_as<std::uint64_t>;
  W::prefetch(static_cast<const Slab*>(nullptr));  // its keys
  w.acquire();  // what any lane reads from here on comes behind the words that its lanes changed before
  w.release();  // what any lane accessed until here comes before the words that its lanes change after
  w.pause();    // nothing could be done
};
// clang-format on

// --- locks. Every call is one try

inline constexpr std::uint32_t slab_writer = 1u << 31, slab_writer_waits = 1u << 30;

// `again`: a try before has failed. Then the word is read first, since readers that come and go keep writers out.
template <class W>
TD_LANE bool slab_share(std::uint32_t& lock, bool again) {
  constexpr std::uint32_t closed = slab_writer | slab_writer_waits;
  if (again && (W::load(lock) & closed) != 0) return false;
  if ((W::fetch_add(lock, 1) & closed) == 0) return true;
  W::fetch_sub(lock, 1);
  return false;
}
template <class W>
TD_LANE void slab_unshare(std::uint32_t& lock) {
  W::fetch_sub(lock, 1);
}
// A writer that meets readers marks the lock, so that no more readers come. All that mark it try until they have it,
// and who takes it clears the mark.
template <class W>
TD_LANE bool slab_lock(std::uint32_t& lock) {
  const std::uint32_t seen = W::exchange_if(lock, 0u, slab_writer);
  if (seen == 0) return true;
  if (seen == slab_writer_waits) return W::exchange_if(lock, slab_writer_waits, slab_writer) == slab_writer_waits;
  if ((seen & (slab_writer | slab_writer_waits)) == 0) W::fetch_or(lock, slab_writer_waits);
  return false;
}
template <class W>
TD_LANE void slab_unlock(std::uint32_t& lock) {
  W::fetch_sub(lock, slab_writer);
}

// --- further slabs

// The number of a slab without keys, if there is one from stack `first` on, or 0. All lanes look at once.
template <SlabWarp W>
TD_LANE std::uint32_t slab_pop(const W& w, const SlabTable& t, std::uint32_t first) {
  for (;;) {
    typename W::template PerLane<std::uint64_t> top;
    w.each([&](std::uint32_t lane) { top[lane] = W::load(t.free->stack[lane].top); });
    const std::uint32_t some = w.ballot([&](std::uint32_t lane) { return static_cast<std::uint32_t>(top[lane]) != 0; });
    if (some == 0) break;
    const std::uint32_t behind = some & ~0u << first;
    const std::uint32_t chosen = w.lowest(behind != 0 ? behind : some);
    const std::uint32_t number = w.by(chosen, [&] {
      const std::uint64_t seen = top[chosen];
      const auto uppermost = static_cast<std::uint32_t>(seen);
      // Another warp may have taken it, and put it back above another one. Then the changes differ.
      const std::uint64_t below = ((seen >> 32) + 1) << 32 | W::load(t.below[uppermost - 1]);
      return W::exchange_if(t.free->stack[chosen].top, seen, below) == seen ? uppermost : 0;
    });
    if (number != 0) return number;
  }
  return w.by(0, [&] {
    std::uint32_t fresh = W::load(t.free->fresh);
    while (fresh < t.more_count) {
      const std::uint32_t seen = W::exchange_if(t.free->fresh, fresh, fresh + 1);
      if (seen == fresh) return fresh + 1;
      fresh = seen;
    }
    return 0u;
  });
}
// By one lane.
template <class W>
TD_LANE void slab_push(const SlabTable& t, std::uint32_t number) {
  std::uint64_t& word = t.free->stack[number % warp_lanes].top;
  for (std::uint64_t top = W::load(word);;) {
    W::store(t.below[number - 1], static_cast<std::uint32_t>(top));
    const std::uint64_t seen = W::exchange_if(word, top, ((top >> 32) + 1) << 32 | number);
    if (seen == top) return;
    top = seen;
  }
}

// --- searches

// Lane i's word of a slab: key i, or the next slab's number.
TD_LANE std::uint64_t slab_word(const Slab* slab, std::uint32_t lane) {
  return lane < slab_entries ? slab->key[lane] : slab->next;
}

// So many slabs are read before the first of them is compared, to overlap their latencies.
inline constexpr std::uint32_t slab_reads = 4;

// The locations of the keys of `lanes`, or 0, along their chains.
template <SlabWarp W>
TD_LANE void slab_find(const W& w, const SlabTable& t, std::uint32_t lanes,
                       const typename W::template PerLane<std::uint64_t>& key,
                       const typename W::template PerLane<std::uint32_t>& bucket,
                       typename W::template PerLane<Location>& location) {
  typename W::template PerLane<const Slab*> slab;
  typename W::template PerLane<std::uint32_t> entry;  // of the key in `slab`; slab_entries: not found
  w.each([&](std::uint32_t lane) {
    slab[lane] = t.first + bucket[lane];
    entry[lane] = slab_entries;
  });
  for (std::uint32_t left = lanes; left != 0;) {
    std::uint32_t further = 0;
    while (left != 0) {
      typename W::template PerLane<std::uint64_t> word[slab_reads];
      std::uint32_t leader[slab_reads];
      const std::uint32_t reads = w.count(left) < slab_reads ? w.count(left) : slab_reads;
      TD_UNROLLED
      for (std::uint32_t k = 0; k < slab_reads; ++k) {
        if (k >= reads) break;
        leader[k] = w.lowest(left);
        left &= left - 1;
        const Slab* const here = w.from(slab, leader[k]);
        w.each([&](std::uint32_t lane) { word[k][lane] = slab_word(here, lane); });
      }
      TD_UNROLLED
      for (std::uint32_t k = 0; k < slab_reads; ++k) {
        if (k >= reads) break;
        const std::uint64_t wanted = w.from(key, leader[k]);
        const std::uint32_t same = w.ballot([&](std::uint32_t lane) { return word[k][lane] == wanted; }) & all_entries;
        const std::uint64_t next = same != 0 ? 0 : w.from(word[k], slab_entries);
        w.each([&](std::uint32_t lane) {
          if (lane != leader[k]) return;
          if (same != 0) entry[lane] = w.lowest(same);
          if (next != 0) slab[lane] = t.more + (next - 1);
        });
        if (next != 0) further |= 1u << leader[k];
      }
    }
    left = further;
  }
  w.each([&](std::uint32_t lane) {
    if ((lanes >> lane & 1) != 0) location[lane] = entry[lane] < slab_entries ? slab[lane]->location[entry[lane]] : 0;
  });
}

// Searches the warp's queries, at most 32. Locks: each with its bucket's lock held along the chain; otherwise nothing
// changes the table meanwhile.
template <bool Locks, SlabWarp W>
TD_LANE void slab_search_warp(const W& w, const SlabTable& t, const Fingerprint* f, std::uint32_t count,
                              Location* location) {
  typename W::template PerLane<std::uint64_t> key;
  typename W::template PerLane<std::uint32_t> bucket;
  typename W::template PerLane<Location> found;
  w.each([&](std::uint32_t lane) {
    const Fingerprint mine = lane < count ? f[lane] : Fingerprint{};
    key[lane] = slab_key(mine);
    bucket[lane] = t.buckets.of(mine);
  });
  const std::uint32_t all = count < warp_lanes ? (1u << count) - 1 : ~0u;
  if constexpr (Locks) {
    bool again = false;
    for (std::uint32_t left = all; left != 0; again = true) {
      const std::uint32_t held = w.ballot(
          [&](std::uint32_t lane) { return (left >> lane & 1) != 0 && slab_share<W>(t.lock[bucket[lane]], again); });
      if (held != 0) {
        w.acquire();
        slab_find(w, t, held, key, bucket, found);
        w.release();
        w.each([&](std::uint32_t lane) {
          if ((held >> lane & 1) != 0) slab_unshare<W>(t.lock[bucket[lane]]);
        });
      } else {
        w.pause();
      }
      left &= ~held;
    }
  } else {
    slab_find(w, t, all, key, bucket, found);
  }
  w.each([&](std::uint32_t lane) {
    if (lane < count) location[lane] = found[lane];
  });
}

// --- changes

struct SlabChanged {
  std::uint32_t done;
  Location previous;
};

// REQUIRES: the lock of the chain from `first` on is held. to: 0 removes the key.
template <SlabWarp W>
TD_LANE SlabChanged slab_change_one(const W& w, const SlabTable& t, Slab* first, std::uint64_t key, Location to) {
  Slab *before = nullptr, *slab = first, *room = nullptr;
  std::uint32_t number = 0, room_entry = 0;  // the slab's; of the first free entry
  for (;;) {
    typename W::template PerLane<std::uint64_t> word;
    w.each([&](std::uint32_t lane) { word[lane] = slab_word(slab, lane); });
    const std::uint32_t same = w.ballot([&](std::uint32_t lane) { return word[lane] == key; }) & all_entries;
    const std::uint32_t free = w.ballot([&](std::uint32_t lane) { return word[lane] == 0; }) & all_entries;
    const std::uint64_t next = w.from(word, slab_entries);
    if (same != 0) {
      const std::uint32_t entry = w.lowest(same);
      const bool emptied = to == 0 && slab != first && (free | same) == all_entries;
      const Location previous = w.by(0, [&] { return slab->location[entry]; });
      w.by(0, [&] {  // behind the load: a GPU's store to a line that is on its way holds up those of all warps
        if (to != 0) slab->location[entry] = to;
        if (to == 0) slab->key[entry] = 0;
        if (emptied) before->next = next;
        return 0u;
      });
      if (emptied) {
        w.release();
        w.by(0, [&] {
          slab_push<W>(t, number);
          return 0u;
        });
      }
      return {1, previous};
    }
    if (room == nullptr && free != 0) {
      room = slab;
      room_entry = w.lowest(free);
    }
    if (next == 0) break;
    before = slab;
    number = static_cast<std::uint32_t>(next);
    slab = t.more + (next - 1);
  }
  if (to == 0) return {1, 0};
  std::uint32_t added = 0;
  if (room == nullptr) {
    added = slab_pop(w, t, static_cast<std::uint32_t>(first - t.first) % warp_lanes);
    if (added == 0) return {0, 0};
    w.acquire();
    room = t.more + (added - 1);
  }
  w.by(0, [&] {
    room->location[room_entry] = to;
    room->key[room_entry] = key;
    if (added == 0) return 0u;
    room->next = 0;
    slab->next = added;
    return 0u;
  });
  return {1, 0};
}

// The warp's changes, at most 32, one after the other. Locks: each under its bucket's lock; otherwise no two launches
// or changes of one have the same bucket.
template <bool Locks, SlabWarp W>
TD_LANE void slab_change_warp(const W& w, const SlabTable& t, const CellChange* changes, std::uint32_t count,
                              std::uint8_t* done, Location* previous) {
  typename W::template PerLane<std::uint64_t> key;
  typename W::template PerLane<std::uint32_t> bucket, to, is_done;
  typename W::template PerLane<Location> was;
  w.each([&](std::uint32_t lane) {
    const CellChange mine = lane < count ? changes[lane] : CellChange{};
    key[lane] = slab_key(mine.f);
    bucket[lane] = t.buckets.of(mine.f);
    to[lane] = mine.to;
  });
  w.each([&](std::uint32_t lane) { W::prefetch(t.first + bucket[lane]); });
  for (std::uint32_t left = count < warp_lanes ? (1u << count) - 1 : ~0u; left != 0;) {
    std::uint32_t later = 0;
    for (std::uint32_t now = left; now != 0; now &= now - 1) {
      const std::uint32_t leader = w.lowest(now);
      std::uint32_t& lock = t.lock[w.from(bucket, leader)];
      if constexpr (Locks) {
        if (w.by(leader, [&] { return slab_lock<W>(lock) ? 1u : 0u; }) == 0) {
          later |= 1u << leader;
          continue;
        }
        w.acquire();
      }
      const SlabChanged changed =
          slab_change_one(w, t, t.first + w.from(bucket, leader), w.from(key, leader), w.from(to, leader));
      if constexpr (Locks) w.release();
      w.each([&](std::uint32_t lane) {
        if (lane != leader) return;
        if constexpr (Locks) slab_unlock<W>(lock);
        is_done[lane] = changed.done;
        was[lane] = changed.previous;
      });
    }
    if (later == left) w.pause();
    left = later;
  }
  w.each([&](std::uint32_t lane) {
    if (lane >= count) return;
    done[lane] = static_cast<std::uint8_t>(is_done[lane]);
    previous[lane] = was[lane];
  });
}

}  // namespace tandem
