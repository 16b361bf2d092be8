// One thread's requests of the in-process mode, in wire format in memory, cut into batches. They are drawn before the
// clock starts and replayed.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "bench/engine/format.hpp"
#include "bench/workload/keys.hpp"
#include "bench/workload/spec.hpp"

namespace tandem::bench {

// Thread safety: immutable once made.
class Tape {
 public:
  struct Limits {
    // Enough requests to touch far more memory than the caches hold; for large values fewer suffice.
    std::uint64_t ops = std::uint64_t{1} << 21;
    std::uint64_t bytes = std::uint64_t{256} << 20;
    double miss_share = 0;                 // of the GETs: their keys were never stored
    std::uint32_t connection_queries = 0;  // neighbouring requests of a batch that are one client's; 0: all of them
    bool getk = false;                     // GETs ask for the key, too
  };

  // Of stream `index` of `count`. Throws std::invalid_argument for operations that this mode does not support.
  Tape(const workload::Spec& spec, const workload::KeySpace& keys, WireProtocol protocol, std::uint32_t index,
       std::uint32_t count, std::uint32_t batch_queries, const Limits& limits);
  // SETs of the keys [first, end) in order.
  Tape(const workload::KeySpace& keys, WireProtocol protocol, std::uint64_t first, std::uint64_t end,
       std::uint32_t batch_queries);

  struct Slice {
    std::string_view requests;
    std::span<const WireOp> ops;
    std::uint64_t reply_bytes;  // of all its replies
    // Where the requests of each connection (or the datagrams) end, from the first request's beginning.
    std::span<const std::uint32_t> ends;
  };
  std::size_t size() const noexcept { return batches_.size(); }
  Slice batch(std::size_t i) const noexcept {
    const Entry& e = batches_[i];
    const Entry next =
        i + 1 < batches_.size() ? batches_[i + 1] : Entry{bytes_, ops_.size(), reply_bytes_, ends_.size()};
    return {{data_.get() + e.bytes, next.bytes - e.bytes},
            std::span(ops_).subspan(e.op, next.op - e.op),
            next.reply_bytes - e.reply_bytes,
            std::span(ends_).subspan(e.end, next.end - e.end)};
  }
  // Of a batch's first request.
  std::size_t first_op(std::size_t i) const noexcept { return batches_[i].op; }
  // The first `ops` requests of a batch.
  Slice prefix(std::size_t i, std::size_t ops) const noexcept;

  // Totals of `count` requests from the first one on, with the tape replayed as often as necessary.
  struct Sums {
    std::uint64_t gets = 0, sets = 0, request_bytes = 0, reply_bytes = 0;
    std::uint64_t misses = 0;  // of the GETs
  };
  Sums sums(std::uint64_t first, std::uint64_t count) const noexcept;

  std::span<const WireOp> ops() const noexcept { return ops_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  // Of an input arena, in which each connection's requests begin at a cache line.
  std::uint64_t batch_bytes_max() const noexcept { return batch_bytes_max_; }
  const WireFormat& format() const noexcept { return format_; }

 private:
  // Where a batch begins.
  struct Entry {
    std::uint64_t bytes, op, reply_bytes, end;
  };
  void write(std::uint32_t batch_queries, std::uint32_t connection_queries);
  void add(std::uint64_t first, std::uint64_t end, Sums& sums) const noexcept;
  static void count(WireOp op, Sums& sums) noexcept;

  WireFormat format_;
  std::vector<WireOp> ops_;
  std::unique_ptr<char[]> data_;
  std::vector<Entry> batches_;
  std::vector<std::uint32_t> ends_;
  std::uint64_t bytes_ = 0, reply_bytes_ = 0, batch_bytes_max_ = 0;
  Sums whole_;
};

}  // namespace tandem::bench
