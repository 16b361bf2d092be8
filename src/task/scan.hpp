// Range reads: a part of an ordered index's keys with their items, as they were at one moment.
#pragma once
#include <cstdint>
#include <span>

#include "index/scan.hpp"
#include "task/context.hpp"

namespace tandem::task {

// Gives `sink` the range's first good items, at most `limit` of them and scan_items_max. They and the gaps between them
// are one moment's: no key of the part of the range up to the end was added, removed or changed while they were copied,
// nor was a flush made, and all are judged by one clock reading. Else it starts over; after some attempts it asks for
// fewer items, one at least, so that it ends beside any writers. What is read does not count as accessed: a scan must
// not displace what clients ask for by key.
//
// Expired and flushed items are left out. At most scan_items_max items are looked at, these among them: a result may
// have fewer items than the limit, even none, and not be done.
//
// Thread safety: the context's thread. REQUIRES: the index is ordered; the context is in no epoch; limit != 0.
// Throws std::bad_alloc if the context has no copies and cannot have any.
ScanEnd scan(Context& context, const ScanRange& range, std::uint32_t limit, ScanSink& sink);

// Index::prefetch_scans(). As scan().
void prefetch_scans(Context& context, std::span<const ScanStart> starts, ScansAhead& ahead) noexcept;

}  // namespace tandem::task
