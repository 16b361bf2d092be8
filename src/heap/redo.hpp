// Redo record for a process that is killed while it rewrites an item in place (docs/restart.md): the new words and
// value, in the memory file. One record a worker.
//
//   writer      the item's lock; the record, then its location, which makes it valid; the item; location 0
//   recovery    a locked item that a record names is written again from the record with the largest CAS id. Without a
//               record, or with an older version's, it is intact and only unlocked
//
// A kill preserves the thread's stores up to some point in program order, so compiler ordering is enough: every step
// but the first ends with a release store. A record of an older version may still exist while another worker rewrites
// the same item; its id tells.
//
// Thread safety: a record has one writer.
#pragma once
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "heap/item_rewrite.hpp"

namespace tandem {

struct alignas(cache_line_bytes) RedoRecord {
  std::atomic<std::uint64_t> location;  // 0: nothing to redo
  std::uint64_t state, fixed;           // the item's new words; `state` says live
  std::uint64_t reserved;
  char value[rewritten_value_bytes_max];

  TD_INLINE void write(Location at, const ItemVersion& now, std::string_view bytes) noexcept {
    state = now.state;
    fixed = now.fixed;
    std::memcpy(value, bytes.data(), bytes.size());
    location.store(at, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // keeps the item's change, which follows, behind it
  }
  TD_INLINE void clear() noexcept { location.store(0, std::memory_order_release); }
};
static_assert(sizeof(RedoRecord) == 1088);

}  // namespace tandem
