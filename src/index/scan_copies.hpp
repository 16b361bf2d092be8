// Copies of a range's items, made while an ordered index is scanned (Index::scan()): their reader needs neither the
// items nor the index.
//
// A copy has the item's header first: both words, loaded when they said that it is live, but not necessarily of one
// version. Behind it lie the item's other bytes, if all are copy_bytes_max bytes at most: of a longer item there is the
// header alone, and a reader of the rest copies it. Words are loaded before the bytes behind them, so a copy with words
// that the item still has (are_still()) is of one version: the reader's side of item_rewrite.hpp.
//
// Thread safety: one thread, in the epoch of the scan; the copies stay valid after it.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "base/racing_copy.hpp"
#include "heap/heap.hpp"
#include "heap/item.hpp"
#include "heap/item_rewrite.hpp"

namespace tandem {

class ScanCopies {
 public:
  static constexpr std::uint32_t copy_bytes_max = 128;
  static constexpr std::size_t piece_bytes = 16;  // what is copied may end so far behind a copy
  using Place = std::array<const char*, 2>;       // of a copy, and of its item

  // Throws std::bad_alloc.
  explicit ScanCopies(std::uint32_t capacity)
      : bytes_(std::make_unique_for_overwrite<char[]>(std::size_t{capacity} * copy_bytes_max + piece_bytes)),
        places_(std::make_unique_for_overwrite<Place[]>(capacity)),
        capacity_(capacity) {}

  std::uint32_t capacity() const noexcept { return capacity_; }
  std::uint32_t count() const noexcept { return count_; }
  void clear() noexcept {
    cut(0);
    states_ = 0;
    has_long_ = false;
  }
  // Forgets the copies from `count` on.
  void cut(std::uint32_t count) noexcept { count_ = count; }

  const Place* places() const noexcept { return places_.get(); }
  const Item* item(std::uint32_t i) const noexcept { return item_at(places_[i]); }
  // A copy is an item, too.
  const Item& whole(std::uint32_t i) const noexcept {
    const Item* const copy = reinterpret_cast<const Item*>(places_[i][0]);
    return is_long(copy->fixed()) ? *item(i) : *copy;
  }
  ItemVersion version(std::uint32_t i) const noexcept { return version_of(places_[i]); }
  // Hints, of all copies since clear(): false is certain.
  bool may_expire() const noexcept { return (states_ & word::ExpiryS::mask) != 0; }
  bool has_long() const noexcept { return has_long_; }
  static bool is_long(std::uint64_t fixed) noexcept {
    return (fixed & word::Huge::mask) != 0 || sizeof(Item) + body_bytes(fixed) > copy_bytes_max;
  }
  // Of flags, key and value. REQUIRES: the item is not huge.
  static std::size_t body_bytes(std::uint64_t fixed) noexcept {
    return word::HasFlags::get(fixed) * 4 + word::KeyBytes::get(fixed) + word::ValueBytes::get(fixed);
  }

  // What an item's fixed word says of its copy. Items behind each other mostly have keys and values of the same
  // lengths.
  struct Shape {
    std::uint64_t like = 0;  // matches no item, as each has a key
    std::size_t body_bytes = 0, stride = 0;

    Shape() = default;
    explicit Shape(std::uint64_t fixed) noexcept
        : like(fixed),
          body_bytes(ScanCopies::is_long(fixed) ? 0 : ScanCopies::body_bytes(fixed)),
          stride((sizeof(Item) + body_bytes + piece_bytes - 1) / piece_bytes * piece_bytes) {}
    bool is_long() const noexcept { return body_bytes == 0; }  // a key has a byte
    TD_INLINE bool is_of(std::uint64_t fixed) const noexcept {
      constexpr std::uint64_t compared =
          word::KeyBytes::mask | word::ValueBytes::mask | word::HasFlags::mask | word::Huge::mask;
      return ((fixed ^ like) & compared) == 0;
    }
  };

  // Whether the items of the first copies have their words still: the version, and the expiry, which touching changes
  // within a version. What says so when nothing has changed has no branches; marks of accesses change all the time.
  bool are_still(std::uint32_t count) const noexcept {
    constexpr std::uint64_t compared = word::State::mask | word::ExpiryS::mask;
    fence_acquire();
    std::uint64_t state = 0, fixed = 0;
    for (const Place *place = places_.get(), *const end = place + count; place != end; ++place) {
      const ItemVersion seen = version_of(*place);
      const Item* const item = item_at(*place);
      state |= item->state_acquire() ^ seen.state;
      fixed |= item->fixed() ^ seen.fixed;
    }
    return ((state & compared) | fixed) == 0;
  }

  // Adds copies, with all that it needs for each of them in registers.
  class Adder {
   public:
    TD_INLINE Adder(ScanCopies& copies, Heap::Items items) noexcept
        : copies_(copies), items_(items), next_{copies.end(), copies.places_.get() + copies.count_} {}
    Adder(const Adder&) = delete;
    Adder& operator=(const Adder&) = delete;
    TD_INLINE ~Adder() {
      copies_.count_ = count();
      copies_.states_ |= states_;
    }

    TD_INLINE std::uint32_t count() const noexcept {
      return static_cast<std::uint32_t>(next_.place - copies_.places_.get());
    }
    // Adds the item's copy if it is live. REQUIRES: count() < capacity().
    TD_INLINE void add(Location l) noexcept {
      ItemVersion seen;
      if (TD_UNLIKELY(!look_at(l, seen))) return;
      shape_ = Shape(seen.fixed);
      copies_.has_long_ |= shape_.is_long();
      next_.put(items_.at(l), seen, shape_.body_bytes, shape_.stride);
      states_ |= seen.state;
    }
    // The same for all locations [begin, end), `step` apart, with places for all. The items `ahead` places further on
    // are fetched, unless that is 0: their locations may be read. An item that is not live is seldom, and noticed
    // behind the last one.
    template <std::ptrdiff_t step, std::ptrdiff_t ahead, class At>
    void add_all(const At begin, const At end) noexcept {
      if (begin == end) return;
      const Next before = next_;
      if (TD_LIKELY((add_live<step, ahead>(begin, end)))) return;
      next_ = before;
      for (At at = begin; at != end; at = at + step) add(*at);
    }
    TD_INLINE bool is_live(Location l) const noexcept {
      ItemVersion seen;
      return look_at(l, seen);
    }

   private:
    // Where the next copy goes.
    struct Next {
      char* to;
      Place* place;
      TD_INLINE void put(const Item* item, const ItemVersion& seen, std::size_t bytes, std::size_t stride) noexcept {
        std::memcpy(to, &seen, sizeof seen);
        racing_copy_pieces(to + sizeof seen, item->bytes() + sizeof(Item), bytes);
        *place++ = {to, item->bytes()};
        to += stride;
      }
    };

    // False: an item was not live, and all of it is void. Out of line, so that all that the loop needs is in registers.
    template <std::ptrdiff_t step, std::ptrdiff_t ahead, class At>
    TD_NOINLINE bool add_live(At at, const At end) noexcept {
      const Heap::Items items = items_;
      Next next = next_;
      Shape shape = shape_;
      std::uint64_t all = ~std::uint64_t{0}, any = 0;
      for (; at != end; at = at + step) {
        if constexpr (ahead != 0) prefetch_read(items.at(at.at(ahead)));
        const Location l = *at;
        if (TD_UNLIKELY(l == no_location)) continue;
        const Item* const item = items.at(l);
        const ItemVersion seen = ItemVersion::of(item);
        if (TD_UNLIKELY(!shape.is_of(seen.fixed))) {
          shape = Shape(seen.fixed);
          copies_.has_long_ |= shape.is_long();
        }
        next.put(item, seen, shape.body_bytes, shape.stride);
        all &= seen.state;
        any |= seen.state;
      }
      next_ = next;
      shape_ = shape;
      states_ |= any;
      static_assert(static_cast<int>(ItemState::live) == 2 && word::State::mask == 3);
      return (all & 2) != 0 && (any & 1) == 0;
    }
    // Words of two versions are found by a second look at the item.
    TD_INLINE bool look_at(Location l, ItemVersion& seen) const noexcept {
      if (TD_UNLIKELY(l == no_location)) return false;
      const Item* const item = items_.at(l);
      seen = ItemVersion::of(item);
      if (TD_LIKELY(seen.is_live())) return true;
      seen = settled_version(item);
      return seen.is_live();
    }
    ScanCopies& copies_;
    const Heap::Items items_;
    Next next_;
    Shape shape_;
    std::uint64_t states_ = 0;
  };

 private:
  TD_INLINE static ItemVersion version_of(const Place& place) noexcept {
    ItemVersion seen;
    std::memcpy(&seen, place[0], sizeof seen);
    return seen;
  }
  TD_INLINE static const Item* item_at(const Place& place) noexcept { return reinterpret_cast<const Item*>(place[1]); }
  // Behind the last copy.
  char* end() noexcept {
    if (count_ == 0) return bytes_.get();
    const Place& last = places_[count_ - 1];
    return bytes_.get() + (last[0] - bytes_.get()) + Shape(version_of(last).fixed).stride;
  }

  std::unique_ptr<char[]> bytes_;
  std::unique_ptr<Place[]> places_;
  std::uint64_t states_ = 0;  // all of their bits
  std::uint32_t count_ = 0, capacity_;
  bool has_long_ = false;
};

}  // namespace tandem
