// Who is told what the tasks do beside what a Result says: clients that watch the server. Mostly nobody, and then a
// Context's observer is null.
//
// Thread safety: called by the context's thread, inside an epoch; the items are readable until the call returns.
#pragma once
#include <cstdint>

#include "heap/heap.hpp"

namespace tandem {

struct Query;

// What a query found under its key.
enum class Lookup : std::uint8_t { not_found, found, flushed, expired };

class Observer {
 public:
  virtual ~Observer() = default;
  // A query that writes has looked for its key's item, perhaps not for the last time; item: what it found, if `found`.
  virtual void looked_up(const Query& query, Lookup lookup, const Item* item) noexcept = 0;
  // A live item that was not over was given up for room. `item` is unlinked.
  virtual void evicted(Location l, const Item* item, std::uint64_t state) noexcept = 0;
  // A page went from one class to another (huge_class: the budget).
  virtual void page_moved(SizeClass from, SizeClass to) noexcept = 0;
};

}  // namespace tandem
