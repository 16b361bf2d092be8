// Shared by the reply writers.
#pragma once
#include <cstring>

#include "codec/protocol.hpp"
#include "codec/scan.hpp"
#include "heap/item_rewrite.hpp"

namespace tandem::codec {

// Context of a reply beside the query and its result, and the reply's destination.
struct ReplyContext {
  Heap& heap;  // pins large values
  const Clock& clock;
  const ProtocolOptions& options;
  Output& out;
};

// For texts of a length that the compiler knows.
TD_INLINE char* write_text(char* p, std::string_view text) noexcept {
  std::memcpy(p, text.data(), text.size());
  return p + text.size();
}
TD_INLINE char* write_line_end(char* p) noexcept { return write_text(p, "\r\n"); }

// Copies a value of any length. A set may rewrite a short one during the copy: the caller validates (copy_validated).
TD_INLINE char* copy_value(char* to, const char* from, std::size_t bytes) noexcept {
  if (TD_LIKELY(bytes <= rewritten_value_bytes_max)) return racing_copy(to, from, bytes);
  std::memcpy(to, from, bytes);
  return to + bytes;
}

// Writes a reply to a hit: write(version, begin) returns its end. It is called again if the item was rewritten during
// the call.
template <class Write>
TD_INLINE char* write_validated(char* begin, const Result& r, Write write) noexcept {
  char* end = begin;
  copy_validated(r.item, r.state, [&](const ItemVersion& seen) noexcept { end = write(begin, seen); });
  return end;
}

// Writes the reply to a query of any protocol, except a control query. REQUIRES: the item, if the result has one, is
// readable.
void write_reply(const Query& q, const Result& r, const ReplyContext& context);

// Pins the item, and appends its value. Throws std::bad_alloc, and nothing is pinned.
void append_pinned_value(const ReplyContext& context, const Item& item, std::uint64_t value_bytes);

void write_meta_get(const Query& q, const Result& r, const ReplyContext& context);
void write_meta_set(const Query& q, const Result& r, const ReplyContext& context);
void write_meta_delete(const Query& q, const Result& r, const ReplyContext& context);
void write_meta_displaced(const Query& q, const Result& r, const ReplyContext& context);
void write_meta_arithmetic(const Query& q, const Result& r, const ReplyContext& context);
void write_meta_debug(const Query& q, const Result& r, const ReplyContext& context);

// REQUIRES: is_binary(q).
void write_binary(const Query& q, const Result& r, const ReplyContext& context);
void execute_binary_control(const Query& query, const ProtocolOptions& options, ServerControl& server, Output& out);

}  // namespace tandem::codec
