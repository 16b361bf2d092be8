// Receives the tasks' events that no Result contains, for clients that watch the server. Without such clients a
// Context's observer is null.
//
// Thread safety: called by the context's thread, inside an epoch; the items are readable until the call returns.
#pragma once
#include <cstdint>

#include "heap/heap.hpp"

namespace tandem {

struct Query;

// Result of a query's look-up.
enum class Lookup : std::uint8_t { not_found, found, flushed, expired };

class Observer {
 public:
  virtual ~Observer() = default;
  // A query that writes has looked up its key, and may do so again. item: the item, if `found`.
  virtual void looked_up(const Query& query, Lookup lookup, const Item* item) noexcept = 0;
  // A good item was evicted. `item` is unlinked.
  virtual void evicted(Location l, const Item* item, std::uint64_t state) noexcept = 0;
  // A page moved from one class to another (huge_class: the budget).
  virtual void page_moved(SizeClass from, SizeClass to) noexcept = 0;
};

}  // namespace tandem
