// Stripes serialise the writers of a key (write protocol 1): 64 Ki words, chosen by the key's signature.
//
// A key's cells carry its signature wherever they are, and growth preserves it. So every cell names its stripe by
// itself, both of a key's buckets and both tables of a growth map to one stripe, and keys that could be mistaken for
// each other share it. (The design page chooses by the unordered pair of buckets. The pair changes with the table's
// size; its fixed low bits add nothing to the signature's 32.)
//
// A stripe is also the sequence lock of the readers that miss: see CuckooIndex::find.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>

#include "base/platform.hpp"
#include "base/spin_wait.hpp"

namespace tandem {

//   |63     changed_at     32|31     version     1|0 locked|
// changed_at: number of the device launch that was current when a change under this stripe was last completed (write
// protocol 2 and 6). version: counts changes, modulo 2^31: a reader is misled only if exactly that many happen during
// one search.
struct StripeWord {
  std::uint64_t bits;

  static constexpr unsigned version_shift = 1, changed_at_shift = 32;
  static constexpr std::uint64_t locked_bit = 1;
  static constexpr std::uint64_t version_mask = 0xfffffffe;

  constexpr bool locked() const { return (bits & locked_bit) != 0; }
  constexpr std::uint32_t version() const { return static_cast<std::uint32_t>((bits & version_mask) >> version_shift); }
  constexpr std::uint32_t changed_at() const { return static_cast<std::uint32_t>(bits >> changed_at_shift); }
  // The word after a change that was completed during launch `launch`: unlocked, one version on.
  constexpr StripeWord changed(std::uint32_t launch) const {
    return {static_cast<std::uint64_t>(launch) << changed_at_shift | (((bits & version_mask) + 2) & version_mask)};
  }
};
static_assert((StripeWord::locked_bit | StripeWord::version_mask |
               std::uint64_t{0xffffffff} << StripeWord::changed_at_shift) == ~std::uint64_t{0});
static_assert((StripeWord::locked_bit & StripeWord::version_mask) == 0 &&
              StripeWord{0xffffffff}.changed(3).version() == 0);
static_assert(StripeWord{5}.changed(3).changed_at() == 3 && StripeWord{5}.changed(3).version() == 3);

using Stripe = std::atomic<std::uint64_t>;  // holds a StripeWord
static_assert(sizeof(Stripe) == 8 && Stripe::is_always_lock_free);

// Thread safety: all calls from any thread.
class Stripes {
 public:
  static constexpr std::uint32_t count = 1 << 16;
  static constexpr std::uint64_t bytes = count * sizeof(Stripe);

  static constexpr std::uint32_t mix(std::uint32_t signature) { return signature * 0x9E3779B1u; }
  static constexpr std::uint32_t index_of(std::uint32_t signature) { return mix(signature) >> 16; }
  TD_INLINE Stripe& of(std::uint32_t signature) noexcept { return words_[index_of(signature)]; }
  TD_INLINE const Stripe& of(std::uint32_t signature) const noexcept { return words_[index_of(signature)]; }

 private:
  struct alignas(cache_line_bytes) Line {
    Stripe word[cache_line_bytes / sizeof(Stripe)];
  };
  std::unique_ptr<Line[]> lines_ = std::make_unique<Line[]>(bytes / sizeof(Line));
  Stripe* words_ = lines_[0].word;
};

// Holds one stripe. Memory orders: the lock is an acquire (this holder sees all that earlier ones did), the unlock a
// release of word, version and launch stamp in one store. Cells are stored with release while it is held. So a thread
// that sees a changed cell and then reads the stripe finds it locked or its version advanced.
class StripeLock {
 public:
  TD_INLINE explicit StripeLock(Stripe& stripe) noexcept : stripe_(stripe) {
    std::uint64_t seen = stripe_.load(std::memory_order_relaxed);
    if (TD_UNLIKELY((seen & StripeWord::locked_bit) != 0 ||
                    !stripe_.compare_exchange_strong(seen, seen | StripeWord::locked_bit, std::memory_order_acquire,
                                                     std::memory_order_relaxed))) {
      seen = wait();
    }
    before_ = {seen};
  }
  StripeLock(const StripeLock&) = delete;
  StripeLock& operator=(const StripeLock&) = delete;

  // Exactly one of the two ends the hold.
  TD_INLINE void unlock_unchanged() noexcept { stripe_.store(before_.bits, std::memory_order_release); }
  TD_INLINE void unlock_changed(std::uint32_t launch) noexcept {
    stripe_.store(before_.changed(launch).bits, std::memory_order_release);
  }

 private:
  TD_NOINLINE std::uint64_t wait() noexcept;  // returns the word before it was locked

  Stripe& stripe_;
  StripeWord before_{};
};

}  // namespace tandem
