// The embedded store as a subject: its calls in place of a wire format.
#include <algorithm>
#include <cstring>

#include "bench/engine/subject_checks.hpp"

namespace tandem::bench {

EmbeddedSubject::EmbeddedSubject(Store& store, const workload::KeySpace& keys, const CellTapes& tapes)
    : keys_(keys), tapes_(tapes), check_(tapes.getk ? KeyCheck::caller : KeyCheck::store) {
  for (const auto& of_thread : tapes.of_thread) {
    const Tape& tape = *of_thread.front();
    Thread& thread = threads_.emplace_back(store.session());
    const WireFormat& format = tape.format();
    thread.reads_only = std::ranges::none_of(tape.ops(), [](WireOp op) { return op.is_set(); });
    std::size_t value_bytes = 0;
    for (std::size_t i = 0; i < tape.size(); ++i) {
      const Tape::Slice batch = tape.batch(i);
      std::string_view rest = batch.requests;
      std::size_t batch_value_bytes = 0;
      for (const WireOp op : batch.ops) {
        const std::string_view request = rest.substr(0, format.request_bytes(op));
        rest.remove_prefix(request.size());
        const std::string_view key = format.key_in(op, request);
        if (thread.reads_only) {
          thread.keys.push_back(key);
        } else {
          thread.requests.push_back({.action = op.is_set() ? Action::set : Action::get,
                                     .key = key,
                                     .value = format.value_in(op, request),
                                     .key_check = check_});
        }
        batch_value_bytes += keys.value_bytes(op.key()) + (tapes.getk ? keys.key_bytes(op.key()) : 0);
      }
      value_bytes = std::max(value_bytes, batch_value_bytes);
    }
    thread.out.resize(value_bytes);
  }
}

template <class Visitor>
void EmbeddedSubject::run(Thread& thread, std::size_t first, std::size_t count, Visitor& visit) {
  if (thread.reads_only) {
    thread.session.get_batch(std::span(thread.keys).subspan(first, count), visit, check_);
  } else {
    thread.session.execute(std::span(thread.requests).subspan(first, count), visit);
  }
}

Measured EmbeddedSubject::take(const TurnLength& length) {
  std::vector<std::uint64_t> first_ops;
  for (Thread& thread : threads_) {
    thread.left = ops_of(length);
    thread.done = thread.hits = thread.stored = 0;
    if (length.ops != 0) thread.next = 0;
    first_ops.push_back(thread.next);
  }
  Measured m;
  m.turn = take_turn(tapes_.threads(), seconds_of(length), [&](unsigned t) {
    Thread& thread = threads_[t];
    const std::size_t ops = tapes_.of_thread[t].front()->ops().size();
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>({tapes_.batch_queries, ops - thread.next, thread.left}));
    std::uint64_t hits = 0, stored = 0;
    char* out = thread.out.data();
    const char* const out_end = out + thread.out.size();
    const bool with_keys = tapes_.getk;
    const auto copy_out = [&](std::size_t, const Reply& reply) {
      if (reply.code == Code::hit) {
        // The key precedes the value.
        const std::size_t key_bytes = with_keys ? reply.key_bytes : 0;
        std::size_t bytes = key_bytes + reply.value.size();
        if (TD_UNLIKELY(with_keys && static_cast<std::size_t>(out_end - out) < bytes)) {  // of another key, and larger
          out = thread.out.data();
          bytes = std::min(bytes, thread.out.size());
        }
        std::memcpy(out, reply.value.data() - key_bytes, bytes);
        out += bytes;
        ++hits;
      } else if (reply.code == Code::stored) {
        ++stored;
      }
    };
    run(thread, thread.next, count, copy_out);
    thread.hits += hits;
    thread.stored += stored;
    thread.done += count;
    thread.left -= count;
    thread.next = thread.next + count == ops ? 0 : thread.next + count;
    return std::uint64_t{count};
  });
  std::uint64_t stored = 0;
  for (std::size_t t = 0; t < threads_.size(); ++t) {
    const Tape::Sums sums = tapes_.of_thread[t].front()->sums(first_ops[t], threads_[t].done);
    m.gets += sums.gets;
    m.sets += sums.sets;
    m.hits += threads_[t].hits;
    stored += threads_[t].stored;
  }
  expect_hits(m, tapes_);
  expect_count(m.sets, stored, "SETs stored", m.errors.wrong_replies, m.errors);
  return m;
}

ReplyErrors EmbeddedSubject::verify() {
  std::vector<ReplyErrors> errors(threads_.size());
  on_each_thread(tapes_.threads(), [&](unsigned t) {
    Thread& thread = threads_[t];
    ReplyErrors& mine = errors[t];
    const std::span<const WireOp> ops = tapes_.of_thread[t].front()->ops();
    for (std::size_t first = 0; first < ops.size(); first += tapes_.batch_queries) {
      const auto check = [&](std::size_t i, const Reply& reply) {
        const WireOp op = ops[first + i];
        if (reply.code != (op.is_set() ? Code::stored : Code::hit)) {
          if (mine.count() == 0) mine.first = fmt::format("key {}: an unexpected outcome", op.key());
          ++(op.is_set() ? mine.wrong_replies : mine.unexpected_misses);
        } else if (!op.is_set() && tapes_.getk && !keys_.is_key(op.key(), reply.key())) {
          ++mine.other_keys;
        } else if (!op.is_set() && !keys_.is_value(op.key(), reply.value)) {
          if (mine.count() == 0) mine.first = fmt::format("key {}: a wrong value", op.key());
          ++mine.wrong_values;
        }
      };
      run(thread, first, std::min<std::size_t>(tapes_.batch_queries, ops.size() - first), check);
    }
  });
  return all_of(errors, tapes_, ops_of(tapes_));
}

}  // namespace tandem::bench
