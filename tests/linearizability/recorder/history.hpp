// What the recorder writes: operations of concurrent clients, with when each was asked for and answered, and what the
// answer was. tests/linearizability/checker reads it. A history is a file: a line of JSON, a line for each operation
// (write_event() says which fields), and a line of JSON.
#pragma once
#include <time.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::record {

enum class Kind : std::uint8_t {
  get,
  set,
  add,
  replace,
  cas,
  remove,
  increment,
  decrement,
  append,
  prepend,
  touch,
  flush,  // of all keys; alone in its burst
  scan,   // of a range of a group's keys
  exchange,
  take,
};
inline constexpr std::array<std::string_view, 15> kind_names = {"get",    "set",   "add",  "replace",  "cas",
                                                                "delete", "incr",  "decr", "append",   "prepend",
                                                                "touch",  "flush", "scan", "exchange", "take"};

enum class Outcome : std::uint8_t {
  unknown,  // the connection ended before the answer: it was done, or will be, or never will be
  hit,
  miss,
  stored,
  not_stored,
  exists,
  removed,
  number,
  not_a_number,
  touched,
  flushed,
  no_memory,
  no_memory_gone,  // the same, and the key has no item any more
  scanned,         // all of the range
  cut,             // the range up to a key
};
inline constexpr std::array<std::string_view, 15> outcome_names = {
    "unknown",      "hit",     "miss",    "stored",    "not_stored",     "exists",  "removed", "number",
    "not_a_number", "touched", "flushed", "no_memory", "no_memory_gone", "scanned", "cut"};

// What searched for an operation's key, as far as a client can tell.
enum class Path : std::uint8_t { unknown, host, device };

// In an operation's burst: what was answered first was about another key, so it was asked for again, behind the rest of
// its burst and in no order with them but that of time.
inline constexpr std::uint64_t asked_again = std::uint64_t{1} << 63;

// What a scan asks for.
struct ScanAsked {
  std::string begin, end;  // inclusive, exclusive
  bool whole = false;      // all that begin with the group's name
  bool reverse = false;
  std::uint32_t limit = 0;
};

// One operation: what the client asks for, and what it is told.
struct Operation {
  Kind kind = Kind::get;
  std::string key;             // of a scan what all keys of its group begin with
  ScanAsked scan;              // its keys lie in one group
  std::string value;           // to store: as the model has it (values.hpp), a number or "a<id>"; scan: its range
  std::string bytes;           // to store: the same as a client sends it
  std::uint64_t delta = 0;     // increment, decrement
  std::uint64_t expected = 0;  // cas: the id from an earlier answer; exchange, take: the old item's, of this answer
  std::uint32_t ttl_s = 0;     // 0: never expires
  std::uint32_t flags = 0;     // to store

  std::uint64_t process = 0;  // operations of one process take effect in the order in which it asked for them
  std::uint64_t burst = 0;    // those with one number were asked for together
  std::int64_t called_ns = 0, returned_ns = 0;  // CLOCK_MONOTONIC
  Outcome outcome = Outcome::unknown;
  std::string read;       // get: the value, as the model has it; exchange, take: the old one; increment, decrement: the
                          // number; scan: ScanRead
  std::uint64_t cas = 0;  // of the answer; 0: it has none
  // get, exchange, take: what the answer shows of the item that was there beside its value.
  static constexpr std::int64_t not_shown = -2, never_expires = -1;
  std::int64_t read_flags = not_shown;
  std::int64_t left_s = not_shown;  // seconds to live
  Path path = Path::unknown;
};

inline std::int64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

inline void write_event(std::FILE* file, const Operation& o) {
  const std::string_view kind = kind_names[static_cast<std::size_t>(o.kind)];
  const std::string_view outcome = outcome_names[static_cast<std::size_t>(o.outcome)];
  std::fprintf(file, "%llu %llu %.*s %s %lld %lld %.*s %s %llu %llu %u %s %llu %u %lld %lld\n",
               static_cast<unsigned long long>(o.process), static_cast<unsigned long long>(o.burst),
               static_cast<int>(kind.size()), kind.data(), o.key.empty() ? "*" : o.key.c_str(),
               static_cast<long long>(o.called_ns), static_cast<long long>(o.returned_ns),
               static_cast<int>(outcome.size()), outcome.data(), o.value.empty() ? "-" : o.value.c_str(),
               static_cast<unsigned long long>(o.delta), static_cast<unsigned long long>(o.expected), o.ttl_s,
               o.read.empty() ? "-" : o.read.c_str(), static_cast<unsigned long long>(o.cas), o.flags,
               static_cast<long long>(o.read_flags), static_cast<long long>(o.left_s));
}

}  // namespace tandem::record
