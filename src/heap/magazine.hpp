// Magazines: arrays of slot locations that change owners as a whole (J. Bonwick and J. Adams, Magazines and Vmem,
// USENIX 2001, 3.1), here with one epoch stamp for each that is full of retired slots.
//
// Their number per cache is bounded. Past the bound (or without memory) retired slots are linked through the upper half
// of their own state words, which is unused once they are dead. So retiring never fails and uses bounded memory.
//
// Thread safety: none (the cache's lock).
#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <limits>

#include "base/platform.hpp"
#include "heap/page.hpp"

namespace tandem {

struct alignas(cache_line_bytes) Magazine {
  static constexpr std::uint32_t slots_max = 57;

  Magazine* next = nullptr;
  std::uint64_t stamp = 0;
  std::uint64_t bytes = 0;  // of item memory, in a sealed magazine
  // In a `giving` magazine: slots left, [0, left). In a `taking` one: places left; they are filled from the end.
  // Sealed: the slots are [0, left) again.
  std::uint32_t left = 0;
  Location slots[slots_max];
};
static_assert(sizeof(Magazine) == 256);

// A queue of sealed magazines, oldest first.
struct MagazineQueue {
  Magazine* head = nullptr;
  Magazine* tail = nullptr;

  TD_INLINE void push(Magazine* m) noexcept {
    m->next = nullptr;
    (tail != nullptr ? tail->next : head) = m;
    tail = m;
  }
  // REQUIRES: it is not empty.
  TD_INLINE Magazine* pop() noexcept {
    Magazine* const m = head;
    head = m->next;
    if (head == nullptr) tail = nullptr;
    return m;
  }
};

// The unused magazines of one cache, and the number of all its magazines.
class MagazineSupply {
 public:
  static constexpr std::uint32_t magazines_max = 2048;  // 512 KiB a worker
  static constexpr std::uint32_t spares_max = 64;

  MagazineSupply() = default;
  MagazineSupply(const MagazineSupply&) = delete;
  MagazineSupply& operator=(const MagazineSupply&) = delete;
  ~MagazineSupply();

  // An empty magazine, contents undefined; nullptr: the bound is reached, or there is no memory.
  TD_INLINE Magazine* take() noexcept {
    Magazine* const m = spare_;
    if (TD_UNLIKELY(m == nullptr)) return make();
    spare_ = m->next;
    --spares_;
    return m;
  }
  TD_INLINE void put(Magazine* m) noexcept {
    if (TD_UNLIKELY(spares_ == spares_max)) return destroy(m);
    m->next = spare_;
    spare_ = m;
    ++spares_;
  }
  // Takes over the count of a magazine that another supply made, whatever the bound.
  void adopt(MagazineSupply& from) noexcept {
    --from.count_;
    ++count_;
  }
  std::uint32_t count() const noexcept { return count_; }  // all there are, in use or not

 private:
  TD_NOINLINE Magazine* make() noexcept;
  TD_NOINLINE void destroy(Magazine* m) noexcept;

  Magazine* spare_ = nullptr;
  std::uint32_t spares_ = 0;
  std::uint32_t count_ = 0;
};

// Retired slots for which there was no magazine, linked through their state words.
class RetiredChain {
 public:
  static constexpr std::uint64_t no_stamp = std::numeric_limits<std::uint64_t>::max();
  struct Sealed {
    Location head = no_location;
    std::uint64_t stamp = no_stamp, bytes = 0;
  };

  // REQUIRES: the slot is unlinked and marked dead; `bytes` is its size.
  void push(Location l, Item* item, std::uint64_t bytes) noexcept;
  bool has_open() const noexcept { return open_.head != no_location; }
  std::uint64_t open_bytes() const noexcept { return open_.bytes; }
  // One sealed chain at a time: the open one waits until that is freed.
  bool can_seal() const noexcept { return has_open() && sealed_.head == no_location; }
  // Returns the bytes. REQUIRES: can_seal(), and the stamp was taken after the last push.
  std::uint64_t seal(std::uint64_t stamp) noexcept;
  std::uint64_t sealed_stamp() const noexcept { return sealed_.stamp; }  // no_stamp: there is none
  // The sealed chain if its stamp is below `safe`; else an empty one.
  Sealed pop(std::uint64_t safe) noexcept;
  static Location next(const Item* item) noexcept {
    return static_cast<Location>(word::ExpiryS::get(item->state_word.load(std::memory_order_relaxed)));
  }

 private:
  Sealed open_, sealed_;
};

// A set of size classes.
class ClassSet {
 public:
  TD_INLINE void add(SizeClass c) noexcept { words_[c / 64] |= std::uint64_t{1} << c % 64; }
  TD_INLINE void remove(SizeClass c) noexcept { words_[c / 64] &= ~(std::uint64_t{1} << c % 64); }
  // f(SizeClass) for each, in rising order; f may remove the one that it is called for.
  template <class F>
  void for_each(F f) const {
    for (std::uint32_t w = 0; w < words_.size(); ++w) {
      for (std::uint64_t bits = words_[w]; bits != 0; bits &= bits - 1) {
        f(static_cast<SizeClass>(w * 64 + static_cast<std::uint32_t>(std::countr_zero(bits))));
      }
    }
  }
  bool is_empty() const noexcept { return (words_[0] | words_[1] | words_[2] | words_[3]) == 0; }

 private:
  std::array<std::uint64_t, 4> words_{};
};

}  // namespace tandem
