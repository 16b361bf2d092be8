// Epoch-based reclamation bound to batches: memory that a reader may still see is not reused before the batches in flight when it was freed
// have ended.
//
// Protocol. A participant announces the global epoch before it reads shared structures (`enter`) and withdraws when its batch has copied all it
// needs (`exit`: after WR, never at SD). A writer first unlinks memory, then calls `retire_stamp()`; the memory is free to reuse once
// `is_safe(stamp)`.
//
// Memory orders. enter() is a sequentially consistent exchange, so that the announcement is visible before any later read of the index; the
// stamp is taken by a sequentially consistent increment after the unlink. Either the scan sees the announcement (and waits), or the reader's
// later loads see the unlink. exit() is a release store: all reads of the batch happen before the slot is reused by whoever saw it.
//
// Thread safety: everything may be called from any thread, except that one Participant belongs to one thread at a time.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>

#include "base/platform.hpp"

namespace tandem {

class EpochDomain {
 public:
  static constexpr std::uint64_t offline = 0;

  // participants_max: bound on Participants alive together.
  explicit EpochDomain(std::uint32_t participants_max);
  EpochDomain(const EpochDomain&) = delete;
  EpochDomain& operator=(const EpochDomain&) = delete;

  class Participant {
   public:
    // Throws std::runtime_error when all places are taken.
    explicit Participant(EpochDomain& domain);
    ~Participant();
    Participant(const Participant&) = delete;
    Participant& operator=(const Participant&) = delete;

    TD_INLINE void enter() noexcept {
      slot_->store(domain_->global_.load(std::memory_order_acquire), std::memory_order_seq_cst);
    }
    TD_INLINE void exit() noexcept { slot_->store(offline, std::memory_order_release); }
    bool active() const noexcept { return slot_->load(std::memory_order_relaxed) != offline; }

   private:
    EpochDomain* domain_;
    std::atomic<std::uint64_t>* slot_;
  };

  // REQUIRES: the memory is unlinked. The stamp grows with every call.
  std::uint64_t retire_stamp() noexcept { return global_.fetch_add(1, std::memory_order_seq_cst); }

  // All memory with a stamp below the returned one is out of every reader's sight. Scans all participants: call it per chunk, not per item.
  std::uint64_t safe_stamp() const noexcept;
  bool is_safe(std::uint64_t stamp) const noexcept { return stamp < safe_stamp(); }

  // Waits (yielding, then sleeping) until every batch that is in flight now has ended. REQUIRES: the caller is in no batch of its own.
  void synchronize() noexcept;

 private:
  struct alignas(cache_line_bytes) Slot {
    std::atomic<std::uint64_t> epoch{offline};
    std::atomic<bool> taken{false};
  };
  alignas(cache_line_bytes) std::atomic<std::uint64_t> global_{1};
  std::unique_ptr<Slot[]> slots_;
  std::uint32_t slot_count_;
};

}  // namespace tandem
