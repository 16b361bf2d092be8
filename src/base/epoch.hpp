// Epoch-based reclamation by batch: memory that a reader may still see is not reused before the batches in flight when
// it was freed have ended (K. Fraser, Practical lock-freedom, 2004, 5.2.3; here stamps are numbers, so one scan serves
// any number of freed chunks).
//
// Protocol. A participant announces the global epoch before it reads shared structures (`enter`) and withdraws when its
// batch has copied all it needs (`exit`: after WR). A writer first unlinks memory, then calls `retire_stamp()`; the
// memory can be reused once `is_safe(stamp)`.
//
// Memory orders. Let W be the unlink, S its stamp, F1 the fence in safe_stamp(), F2 the one in enter().
//   - A reader that announced e > S read the global epoch (acquire) after the stamp's increment (release): W happens
//     before all it reads.
//   - A reader that announced e <= S and that the scan saw holds the memory back.
//   - A reader with an announcement that the scan missed: the scan's load precedes the announcement, so F1 precedes F2
//   in the
//     order of fences. W happens before F1 and the reader's loads come after F2, so they see W. (A sequentially
//     consistent store without the fence would not do: later loads may overtake it on AArch64.)
//   - exit() and the next enter() are release stores, the scan's loads acquire: all reads of a batch happen before the
//     memory's reuse.
//
// Thread safety: everything may be called from any thread, except that one Participant belongs to one thread at a time.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>

#include "base/platform.hpp"

namespace tandem {

// All places for participants are taken.
class EpochDomainFull : public std::runtime_error {
 public:
  EpochDomainFull() : std::runtime_error("more threads use the store than it was opened for") {}
};

class EpochDomain {
 public:
  static constexpr std::uint64_t offline = 0;

  // participants_max: maximum number of Participants alive together. Throws std::bad_alloc.
  explicit EpochDomain(std::uint32_t participants_max);
  EpochDomain(const EpochDomain&) = delete;
  EpochDomain& operator=(const EpochDomain&) = delete;

  class Participant {
   public:
    // Throws EpochDomainFull when all places are in use.
    explicit Participant(EpochDomain& domain);
    ~Participant();
    Participant(const Participant&) = delete;
    Participant& operator=(const Participant&) = delete;

    // REQUIRES: !active().
    TD_INLINE void enter() noexcept {
      TD_DEBUG_ASSERT(!active());
      slot_->store(domain_->global_.load(std::memory_order_acquire), std::memory_order_release);
      fence_seq_cst();
    }
    TD_INLINE void exit() noexcept { slot_->store(offline, std::memory_order_release); }
    bool active() const noexcept { return slot_->load(std::memory_order_relaxed) != offline; }

   private:
    EpochDomain* domain_;
    std::atomic<std::uint64_t>* slot_;
  };

  // REQUIRES: the memory is unlinked. The stamp grows with every call.
  std::uint64_t retire_stamp() noexcept { return global_.fetch_add(1, std::memory_order_seq_cst); }

  // The global epoch, which every stamp advances.
  std::uint64_t now() const noexcept { return global_.load(std::memory_order_acquire); }

  // Memory with a stamp below the returned one is no longer visible to any reader. Reads one line per participant that
  // ever existed: call it per chunk, not per item.
  std::uint64_t safe_stamp() const noexcept;
  bool is_safe(std::uint64_t stamp) const noexcept { return stamp < safe_stamp(); }

  // Waits (yielding, then sleeping) until every batch that is in flight now has ended. REQUIRES: the caller is in no
  // batch.
  void synchronize() noexcept;

 private:
  struct alignas(cache_line_bytes) Slot {
    std::atomic<std::uint64_t> epoch{offline};
    std::atomic<bool> taken{false};
  };
  alignas(cache_line_bytes) std::atomic<std::uint64_t> global_{1};
  alignas(cache_line_bytes) std::unique_ptr<Slot[]> slots_;
  std::uint32_t slot_count_;
  std::atomic<std::uint32_t> slots_high_{0};  // slots from here on were never used
};

}  // namespace tandem
