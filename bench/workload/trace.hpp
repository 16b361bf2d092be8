// Recorded requests from CSV files, to be replayed.
//
// Two formats, distinguished by the first line:
//   own        a header that names the columns, in any order: op,key[,value_bytes][,ttl_s][,time_us]
//   Twitter's  no header, seven columns: time in seconds, key, key size, value size, client, operation, time to live
//              (Yang et al., "A large scale analysis of hundreds of in-memory cache clusters at Twitter", OSDI 2020).
//              Requests of the same second are spread evenly over it, in their order
// Quotes are RFC 4180's; lines end in LF or CRLF. Operations in any case are memcached's:
//   get, gets                                     get
//   set, add, replace, cas, append, prepend       set: the value of the size that the line gives
//   incr, decr                                    read_modify_write
//   delete, remove                                remove
//   touch, gat, gats                              touch
// Those that are replayed as something else (all but get, gets, set, delete, remove, touch) are counted: replaced().
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <iosfwd>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "bench/workload/spec.hpp"

namespace tandem::workload {

// "FILE:LINE: what is wrong".
class TraceError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct TraceRecord {
  std::uint64_t time_us;  // since the first record; 0 without one
  std::uint32_t key;      // Trace::key(key)
  std::uint32_t value_bytes;
  std::uint32_t ttl_s;  // at most 30 days, memcached's limit of a relative time; 0: never expires
  OpKind kind;
};
static_assert(sizeof(TraceRecord) == 24);

// Memory: 24 bytes a record, 16 bytes plus its own for each distinct key; about 60 more for each key while reading.
// Thread safety: immutable once read.
class Trace {
 public:
  static constexpr std::uint64_t records_max_default = 20'000'000;  // 480 MB

  // Reads at most `records_max` records (2^32 - 1 if that is more); is_cut() tells whether there were more. Throws
  // TraceError, std::system_error.
  static Trace read(const std::string& path, std::uint64_t records_max = records_max_default);
  static Trace parse(std::istream& in, const std::string& name, std::uint64_t records_max = records_max_default);

  std::span<const TraceRecord> records() const noexcept { return records_; }
  bool is_cut() const noexcept { return is_cut_; }
  bool has_times() const noexcept { return has_times_; }
  // The number of records of each operation that are replayed as another: "cas" -> 12.
  const std::map<std::string, std::uint64_t>& replaced() const noexcept { return replaced_; }

  // Like KeySpace, except that a value may have any length: it is right if it is a prefix of its key's bytes.
  std::uint32_t key_count() const noexcept { return static_cast<std::uint32_t>(keys_.size()); }
  std::string_view key(std::uint32_t key) const noexcept { return keys_[key]; }
  static char* write_value(std::uint32_t key, std::uint32_t bytes, char* out) noexcept;
  static bool is_value(std::uint32_t key, std::string_view value) noexcept;

  // When a record is due after the replay's start, at `speed` times the recorded speed.
  static std::uint64_t due_ns(const TraceRecord& record, double speed) noexcept {
    return static_cast<std::uint64_t>(static_cast<double>(record.time_us) * 1000 / speed);
  }

 private:
  friend class TraceReader;
  Trace() = default;

  std::vector<TraceRecord> records_;
  std::vector<std::string_view> keys_;  // in key_bytes_
  std::deque<std::unique_ptr<char[]>> key_bytes_;
  std::map<std::string, std::uint64_t> replaced_;
  bool is_cut_ = false, has_times_ = false;
};

// A trace's records distributed to streams by key: the records of one key all go to one stream, in their order.
// Memory: 4 bytes a record. Thread safety: immutable.
class TracePartition {
 public:
  // `trace` must outlive this.
  TracePartition(const Trace& trace, std::uint32_t stream_count);
  // Indices into Trace::records(), ascending.
  std::span<const std::uint32_t> stream(std::uint32_t index) const noexcept {
    return std::span(order_).subspan(begin_[index], begin_[index + 1] - begin_[index]);
  }

 private:
  std::vector<std::uint32_t> order_;
  std::vector<std::size_t> begin_;
};

}  // namespace tandem::workload
