#include "bench/engine/tape.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/platform.hpp"
#include "bench/workload/random.hpp"
#include "bench/workload/stream.hpp"

namespace tandem::bench {

Tape::Tape(const workload::Spec& spec, const workload::KeySpace& keys, WireProtocol protocol, std::uint32_t index,
           std::uint32_t count, std::uint32_t batch_queries, const Limits& limits)
    : format_(protocol, keys, limits.getk) {
  workload::Stream stream(spec, index, count);
  std::uint64_t bytes = 0;
  workload::Random misses(workload::mix64(spec.seed) + index);
  const auto miss_limit = static_cast<std::uint64_t>(limits.miss_share * 0x1p53);
  const auto add = [&](std::uint64_t key, bool is_set) {
    const bool is_miss = !is_set && miss_limit != 0 && misses.next() >> 11 < miss_limit;
    ops_.push_back(is_miss ? WireOp::miss(spec.keys + key) : WireOp(key, is_set));
    bytes += format_.request_bytes(ops_.back());
  };
  while (ops_.size() < limits.ops && bytes < limits.bytes) {
    const workload::Op op = stream.next();
    switch (op.kind) {
      case workload::OpKind::get:
        add(op.key, false);
        break;
      case workload::OpKind::set:
      case workload::OpKind::insert:
        add(op.key, true);
        break;
      case workload::OpKind::read_modify_write:
        add(op.key, false);
        if (ops_.size() < limits.ops) add(op.key, true);
        break;
      case workload::OpKind::scan:
      case workload::OpKind::remove:
      case workload::OpKind::touch:
        throw std::invalid_argument("the workload " + (spec.name.empty() ? std::string("given") : spec.name) + " has " +
                                    std::string(to_string(op.kind)) +
                                    " operations; the in-process mode runs gets, sets and inserts");
    }
  }
  write(batch_queries, limits.connection_queries);
}

Tape::Tape(const workload::KeySpace& keys, WireProtocol protocol, std::uint64_t first, std::uint64_t end,
           std::uint32_t batch_queries)
    : format_(protocol, keys) {
  ops_.reserve(end - first);
  for (std::uint64_t key = first; key < end; ++key) ops_.emplace_back(key, true);
  write(batch_queries, 0);
}

void Tape::write(std::uint32_t batch_queries, std::uint32_t connection_queries) {
  if (format_.in_datagrams()) connection_queries = 1;
  if (connection_queries == 0) connection_queries = batch_queries;
  std::uint64_t bytes = 0;
  for (const WireOp op : ops_) bytes += format_.request_bytes(op);
  data_ = std::make_unique_for_overwrite<char[]>(bytes);
  batches_.reserve(ops_.size() / batch_queries + 1);
  char* at = data_.get();
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    const std::size_t of_batch = i % batch_queries;
    if (of_batch == 0)
      batches_.push_back({static_cast<std::uint64_t>(at - data_.get()), i, reply_bytes_, ends_.size()});
    at = format_.write_request(ops_[i], at);
    if ((of_batch + 1) % connection_queries == 0 || of_batch + 1 == batch_queries || i + 1 == ops_.size())
      ends_.push_back(static_cast<std::uint32_t>(static_cast<std::uint64_t>(at - data_.get()) - batches_.back().bytes));
    reply_bytes_ += format_.reply_bytes(ops_[i]);
  }
  bytes_ = static_cast<std::uint64_t>(at - data_.get());
  for (const WireOp op : ops_) count(op, whole_);
  whole_.request_bytes = bytes_;
  whole_.reply_bytes = reply_bytes_;
  for (std::size_t i = 0; i < batches_.size(); ++i) {
    std::uint64_t room = 0;
    std::uint32_t from = 0;
    for (const std::uint32_t end : batch(i).ends)
      room += (end - std::exchange(from, end) + cache_line_bytes - 1) / cache_line_bytes * cache_line_bytes;
    batch_bytes_max_ = std::max(batch_bytes_max_, room);
  }
}

void Tape::count(WireOp op, Sums& sums) noexcept {
  (op.is_set() ? sums.sets : sums.gets) += 1;
  if (op.is_miss()) ++sums.misses;
}

void Tape::add(std::uint64_t first, std::uint64_t end, Sums& sums) const noexcept {
  for (std::uint64_t i = first; i < end; ++i) {
    count(ops_[i], sums);
    sums.request_bytes += format_.request_bytes(ops_[i]);
    sums.reply_bytes += format_.reply_bytes(ops_[i]);
  }
}

Tape::Sums Tape::sums(std::uint64_t first, std::uint64_t count) const noexcept {
  const std::uint64_t times = count / ops_.size(), rest = count % ops_.size(), from = first % ops_.size();
  Sums sums{times * whole_.gets, times * whole_.sets, times * whole_.request_bytes, times * whole_.reply_bytes,
            times * whole_.misses};
  add(from, std::min<std::uint64_t>(ops_.size(), from + rest), sums);
  if (from + rest > ops_.size()) add(0, from + rest - ops_.size(), sums);
  return sums;
}

Tape::Slice Tape::prefix(std::size_t i, std::size_t ops) const noexcept {
  Slice slice = batch(i);
  if (ops >= slice.ops.size()) return slice;
  slice.ops = slice.ops.first(ops);
  std::uint64_t bytes = 0;
  slice.reply_bytes = 0;
  for (const WireOp op : slice.ops) {
    bytes += format_.request_bytes(op);
    slice.reply_bytes += format_.reply_bytes(op);
  }
  slice.requests = slice.requests.substr(0, bytes);
  const auto end = std::ranges::lower_bound(slice.ends, bytes);
  slice.ends = slice.ends.first(static_cast<std::size_t>(end - slice.ends.begin()) + 1);  // the last may end later
  return slice;
}

}  // namespace tandem::bench
