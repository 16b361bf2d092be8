// One operation of a client, as plain data. Keys and values point into the batch's input or to other host memory: a
// line too long for the input, the parser's copies, or the arrays of the embedded store's caller. They must not change
// until the query's response is written.
#pragma once
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "heap/item.hpp"
#include "query/opcode.hpp"

namespace tandem {

// 80 bytes: 16 of key and value pointers, 16 + 16 + 16 of operands, 16 for the response writer.
struct Query {
  const char* key;
  const char* value;  // store: the bytes; arithmetic + vivify: the initial number as decimal text
  std::uint32_t value_bytes;
  std::uint8_t key_bytes;
  Opcode opcode;
  std::uint16_t options;       // option::*
  std::uint32_t client_flags;  // store
  std::uint32_t
      expiry_s;  // store, touch: second of the store's clock; 0 never; Clock::already_expired for a negative exptime
  std::uint64_t cas;    // with option compare_cas
  std::uint64_t delta;  // arithmetic
  std::uint32_t vivify_expiry_s;
  std::uint32_t recache_ttl_s;
  // For the response writer; the pipeline does not use them.
  const char* wire;          // where the request line starts
  std::uint32_t wire_bytes;  // of the request line without its line end
  StoreMode mode;
  std::uint8_t reply;           // the writer's kind of reply
  std::uint8_t continues_line;  // 1: one of several queries of a line, but not the first
  std::uint8_t session;         // binary protocol: the connection's rights before this request
  std::uint32_t wire_flags_at;  // meta: where in `wire` the flags start

  std::string_view key_view() const noexcept { return {key, key_bytes}; }
  bool has(std::uint16_t o) const noexcept { return (options & o) != 0; }
  const Operation& operation() const noexcept { return operations[static_cast<std::size_t>(opcode)]; }
  // The slot that MM prepares for it.
  SlotNeed slot_need() const noexcept {
    const Operation& o = operation();
    if (o.slot_options != 0 && !has(o.slot_options)) return SlotNeed::none;
    return concatenates() ? SlotNeed::change : o.slot_need;
  }
  // A get that changes only access marks: it may be executed again.
  bool is_plain_read() const noexcept {
    return opcode == Opcode::get && !has(option::touch | option::vivify | option::recache);
  }
  // Neither changes the store nor counts as a write: a plain read, or a debug query.
  bool only_reads() const noexcept { return is_plain_read() || opcode == Opcode::debug; }
  // A store that adds to the present value.
  bool concatenates() const noexcept {
    return opcode == Opcode::store && (mode == StoreMode::append || mode == StoreMode::prepend);
  }
  // Whether a store that is too large or has no memory also removes the key's item. memcached's rule: a set does, so
  // that clients do not continue to read the old value, and so does a meta set in every mode; a cas does not, since its
  // client may have lost.
  bool removes_if_refused() const noexcept {
    if (has(option::returns_old)) return false;  // nobody would get the old value
    if (has(option::meta)) return true;
    return mode == StoreMode::set && (!has(option::compare_cas) || has(option::refusal_removes));
  }
};
static_assert(sizeof(Query) == 80 && std::is_trivially_copyable_v<Query>);

enum class Status : std::uint8_t {
  none,           // not executed (opcode nothing, control)
  hit,            // get, debug: `item`. touch: touched
  miss,           // get, debug, touch, remove, arithmetic: no such item
  stored,         // store
  not_stored,     // store: add found one, replace/append/prepend found none
  exists,         // the CAS id differs
  not_found,      // store with compare_cas: no such item
  removed,        // remove (and remove+invalidate)
  number,         // arithmetic: `number`
  not_a_number,   // arithmetic on something else: "cannot increment or decrement non-numeric value"
  too_large,      // the item would exceed item_bytes_max (Query::removes_if_refused)
  out_of_memory,  // no slot could be freed, or eviction is off (Query::removes_if_refused)
};

// Outcome bits beside the status.
namespace outcome {
inline constexpr std::uint8_t won = 1 << 0;       // meta W: this client has the recache token
inline constexpr std::uint8_t stale = 1 << 1;     // meta X
inline constexpr std::uint8_t win_sent = 1 << 2;  // meta Z
inline constexpr std::uint8_t created = 1 << 3;   // vivified by this query
// append, prepend with Status::not_stored: the item is there, and would exceed item_bytes_max. memcached's reply is the
// same for both.
inline constexpr std::uint8_t too_large = 1 << 4;
// store, remove with option::returns_old, if the key had an item: the result's `item`, `state`, `value_bytes` and
// `value_offset` are that item's, stale and win_sent too. It is dead, so no set rewrites it before the epoch ends.
inline constexpr std::uint8_t displaced = 1 << 5;
// The bits stale and win_sent of an item's state word.
constexpr std::uint8_t of_state(std::uint64_t state) noexcept {
  static_assert(word::Stale::lo == 4 && word::Win::lo == 5 && stale == 1 << 1 && win_sent == 1 << 2);
  return static_cast<std::uint8_t>((state >> 3) & (stale | win_sent));
}
}  // namespace outcome

// Results of IN, KC and RD for WR. `item` is readable until the batch's epoch ends.
struct Result {
  union {
    const Item* item;   // the item read or written; nullptr when there is none
    std::uint64_t cas;  // arithmetic (Status::number): the new CAS id, which the item may have lost since
  };
  std::uint64_t state;  // its state word BEFORE this query touched it (hit-before, last access, expiry, stale, win); if
                        // this query created or replaced the item: the word it was published with
  std::uint64_t number;       // arithmetic: the new value. store, remove+invalidate: the new CAS id
  std::uint32_t value_bytes;  // of item
  Status status;
  std::uint8_t outcome;        // outcome::*
  std::uint16_t value_offset;  // get, displaced: of the value's first byte in the item
};
static_assert(sizeof(Result) == 32);

}  // namespace tandem
