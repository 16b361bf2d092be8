// Rings of log records, one per writing thread and shard. They are single-producer queues, so no two writers store to
// one cache line, and no two drains wait for each other. Rings outlive their thread; the next thread that needs rings
// takes them over, with their records.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "base/platform.hpp"
#include "index/change_log.hpp"
#include "index/cuckoo/table.hpp"

namespace tandem {

// |63  table's serial number, modulo 2^24  40|39  cell index  0|
struct LogRecord {
  std::uint64_t bits;

  static constexpr unsigned table_shift = 40;
  static constexpr std::uint64_t index_mask = (std::uint64_t{1} << table_shift) - 1;
  static constexpr LogRecord of(const Change& c) { return {std::uint64_t{c.table} << table_shift | c.cell_index}; }
  constexpr std::uint32_t table() const { return static_cast<std::uint32_t>(bits >> table_shift); }
  constexpr std::uint64_t cell_index() const { return bits & index_mask; }
};
static_assert(Table::buckets_max * bucket_cells - 1 <= LogRecord::index_mask);
static_assert(LogRecord::of({7, 99}).table() == 7 && LogRecord::of({7, 99}).cell_index() == 99);

// Memory that a device reads, for the images of some writers.
struct ImageMemory {
  Granule* granules = nullptr;    // nullptr: none
  Location* locations = nullptr;  // as many
  std::uint32_t rings = 0;        // writers that it is for
};

// Images of items that sets rewrite in place, each contiguous: what at the end of the memory is too short for one is
// skipped. The device reads them where they are. Positions count granules since the beginning and never wrap:
// head <= releasing <= taken <= published.end.
struct ImageRing {
  // Written by the ring's writer.
  alignas(cache_line_bytes) PublishedImages published;
  std::uint64_t head_seen = 0;    // the writer's last copy of head
  Granule* granules = nullptr;    // of ImageMemory, as are the next; nullptr: the writer announces cells only
  Location* locations = nullptr;  // of the item that begins at this granule; no_location: none does
  std::uint64_t first = 0;        // index of the ring's first granule in that memory
  std::uint64_t mask = 0;
  // Written by drains.
  alignas(cache_line_bytes) std::atomic<std::uint64_t> head{0};  // everything before it may be written again
  std::uint64_t releasing = 0;                                   // what head becomes next
  std::uint64_t taken = 0;                                       // by drains: for the device, or forgotten
  std::uint64_t counted = 0;                                     // images, by drains

  std::uint64_t capacity() const noexcept { return mask + 1; }
};

// Positions count records since the beginning and never wrap: head <= reserved, committed <= reserved.
struct WriterRing {
  // Written by the ring's writer.
  alignas(cache_line_bytes) std::atomic<std::uint64_t> reserved{0};
  std::atomic<std::uint64_t> committed{0};  // everything reserved before it has been changed
  std::uint64_t head_seen = 0;              // the writer's last copy of head
  std::uint64_t mask = 0;                   // constant, as is `records`
  std::unique_ptr<std::uint64_t[]> records;
  std::array<LogRecord, 2> marks{};  // of the change under way: what it marks when it is done
  std::uint32_t mark_count = 0;
  // Written by drains.
  alignas(cache_line_bytes) std::atomic<std::uint64_t> head{0};  // everything before it is removed
  std::uint64_t delivered = 0;                                   // everything before it was delivered at least once
  ImageRing images;
  // Written when threads start and end; used in a thread's first ring only.
  alignas(cache_line_bytes) std::atomic<bool> taken{true};
  WriterRing* next = nullptr;  // of another thread, same shard; constant

  std::uint64_t capacity() const noexcept { return mask + 1; }
};

// The rings of one log. Thread safety: all calls from any thread.
class WriterRings : public std::enable_shared_from_this<WriterRings> {
 public:
  // records: of each ring, a power of two. Memory for images is lent later.
  explicit WriterRings(std::uint64_t records, std::uint32_t shards = 1) noexcept : records_(records), shards_(shards) {}
  ~WriterRings();
  WriterRings(const WriterRings&) = delete;
  WriterRings& operator=(const WriterRings&) = delete;

  // The calling thread's rings, an array with one per shard. nullptr: no memory, or the thread is ending. A thread's
  // first call may allocate. No call waits for another thread.
  TD_INLINE WriterRing* mine() noexcept {
    if (TD_LIKELY(last_used.rings == id_)) return last_used.ring;
    return find_mine();
  }
  // Every ring of a shard: follow `next`.
  WriterRing* first(std::uint32_t shard = 0) const noexcept {
    WriterRing* const rings = first_.load(std::memory_order_acquire);
    return rings != nullptr ? rings + shard : nullptr;
  }

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

  const std::uint64_t id_ = next_id();  // unique over all objects, destroyed ones included
  const std::uint64_t records_;
  const std::uint32_t shards_;
  std::atomic<WriterRing*> first_{nullptr};  // an array, as is every `next`
};

}  // namespace tandem
