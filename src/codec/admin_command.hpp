// Interface between control.cpp and admin.cpp.
#pragma once
#include "codec/protocol.hpp"
#include "codec/tokens.hpp"

namespace tandem::codec {

// slabs, lru, lru_crawler, watch, cache_memlimit, shutdown: writes the reply, or returns what to stream.
StreamRequest administer(const Words& words, const ProtocolOptions& options, Administration& server, Output& out);
StreamRequest stats_cachedump(const Words& words, const ProtocolOptions& options, Output& out);
// `stats sizes_enable` and `sizes_disable`: writes the result to `sink`, without an end.
void enable_sizes(bool on, const ProtocolOptions& options, Administration& server, StatSink& sink);
void stats_detail(const Words& words, Administration& server, Output& out);

}  // namespace tandem::codec
