// One ring of log records for each thread that writes: a single-producer queue, so that no two writers store to one
// cache line. A ring outlives its thread and goes to the next thread that needs one, records and all.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>

#include "base/platform.hpp"
#include "index/change_log.hpp"
#include "index/table.hpp"

namespace tandem {

// |63  kind  60|59  table  40|39  cell index  0|, or a location in the low word of an item's.
struct LogRecord {
  std::uint64_t bits;

  static constexpr unsigned kind_shift = 60, table_shift = 40;
  static constexpr std::uint64_t index_mask = (std::uint64_t{1} << table_shift) - 1;
  static constexpr std::uint32_t table_mask = (1u << (kind_shift - table_shift)) - 1;
  static constexpr LogRecord of(const Change& c) {
    const bool cell = c.kind == Change::Kind::cell;
    return {static_cast<std::uint64_t>(c.kind) << kind_shift |
            static_cast<std::uint64_t>(c.table & table_mask) << table_shift | (cell ? c.cell_index : c.location)};
  }
  constexpr Change::Kind kind() const { return static_cast<Change::Kind>(bits >> kind_shift); }
  // Of cells: their table's serial number, modulo 2^20, and their place in it.
  constexpr std::uint32_t table() const { return static_cast<std::uint32_t>(bits >> table_shift) & table_mask; }
  constexpr std::uint64_t cell_index() const { return bits & index_mask; }
  constexpr Location location() const { return static_cast<Location>(bits); }
};
static_assert(Table::buckets_max * bucket_cells - 1 <= LogRecord::index_mask);
static_assert(LogRecord::of(Change::of_cell(7, 99)).table() == 7 &&
              LogRecord::of(Change::of_cell(7, 99)).cell_index() == 99 &&
              LogRecord::of(Change::of_item(5)).kind() == Change::Kind::item &&
              LogRecord::of(Change::of_item(5)).location() == 5);

// Positions count records since the beginning and never wrap: head <= reserved, committed <= reserved.
struct WriterRing {
  // Written by the ring's writer.
  alignas(cache_line_bytes) std::atomic<std::uint64_t> reserved{0};
  std::atomic<std::uint64_t> committed{0};  // all that is reserved up to here has been changed
  std::uint64_t head_seen = 0;              // head as the writer last looked
  std::uint64_t mask = 0;                   // constant, as is `records`
  std::unique_ptr<std::uint64_t[]> records;
  // Written by whoever drains.
  alignas(cache_line_bytes) std::atomic<std::uint64_t> head{0};  // before it everything is forgotten
  std::uint64_t delivered = 0;                                   // what lies before it was delivered at least once
  // Written when threads come and go.
  alignas(cache_line_bytes) std::atomic<bool> taken{true};
  WriterRing* next = nullptr;  // constant

  std::uint64_t capacity() const noexcept { return mask + 1; }
};

// The rings of one log. Thread safety: all calls from any thread.
class WriterRings : public std::enable_shared_from_this<WriterRings> {
 public:
  // records: of each ring, a power of two.
  explicit WriterRings(std::uint64_t records) noexcept : records_(records) {}
  ~WriterRings();
  WriterRings(const WriterRings&) = delete;
  WriterRings& operator=(const WriterRings&) = delete;

  // The calling thread's ring; nullptr: there is no memory for one, or the thread is about to end. The first call of a
  // thread may allocate; no call waits for another thread.
  TD_INLINE WriterRing* mine() noexcept {
    if (TD_LIKELY(last_used.rings == id_)) return last_used.ring;
    return find_mine();
  }
  // Every ring there is: follow `next`.
  WriterRing* first() const noexcept { return first_.load(std::memory_order_acquire); }

 private:
  struct LastUsed {
    std::uint64_t rings;  // id_, 0 is none
    WriterRing* ring;
  };
  class OfThread;
  static std::uint64_t next_id() noexcept;
  TD_NOINLINE WriterRing* find_mine() noexcept;
  WriterRing* take();

  inline static constinit thread_local LastUsed last_used{};

  const std::uint64_t id_ = next_id();  // never that of another object, dead ones included
  const std::uint64_t records_;
  std::atomic<WriterRing*> first_{nullptr};
};

}  // namespace tandem
