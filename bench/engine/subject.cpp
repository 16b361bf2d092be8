#include "bench/engine/subject.hpp"

#include <algorithm>
#include <atomic>
#include <limits>

#include "base/ticks.hpp"
#include "bench/engine/subject_checks.hpp"
#include "bench/engine/wire.hpp"
#include "index/hash_tree/hash_tree_index.hpp"

namespace tandem::bench {
namespace {

constexpr double buckets_per_alternation = 10;

}  // namespace

// --- the wire format

struct WireSubject::Thread {
  struct Lane {
    const Tape& tape;
    std::size_t next = 0;        // batch
    std::uint64_t done = 0;      // operations of this turn
    std::uint64_t first_op = 0;  // of this turn
    std::uint64_t batches = 0;
  };
  std::vector<Lane> lanes;
  std::unique_ptr<WireDriver> driver;
  std::uint64_t left = 0;
  Tape::Slice last{};                                    // batch of this turn ...
  const WireFormat* format = nullptr;                    // ... and its requests' format; nullptr: there was none
  std::uint64_t expected_bytes = 0, answered_bytes = 0;  // of this turn
  std::vector<std::uint64_t> timeline;
  std::optional<LatencyTimeline> latencies, hot_latencies;
  // Of an open loop: between two batches (0: a closed loop), from the first step to the first batch, and when the next
  // one is due; 0: there was no step yet.
  double period_ticks = 0, phase_ticks = 0, due_ticks = 0;

  struct Counts {
    std::uint64_t hits, stored;
    std::array<TaskCost, task_count> tasks;
    TasksRan ran;
    HistogramTotals latency, hot_latency;
  };
  // Of a turn.
  void add_latencies(const Counts& before, Counts& after, Measured& m) const {
    after.latency.subtract(before.latency);
    m.latency.add(after.latency);
    if (latencies) latencies->add_to(m.latency_timeline);
    if (!m.hot) return;
    after.hot_latency.subtract(before.hot_latency);
    m.hot->latency.add(after.hot_latency);
    if (hot_latencies) hot_latencies->add_to(m.hot->timeline);
  }
  Counts counts() const {
    const Context& c = driver->context();
    Counts counts{c.counters.get_hits.get(), c.counters.total_items.get(), {}, {}, {}, {}};
    counts.latency.add(driver->latency());
    counts.hot_latency.add(driver->hot_latency());
    counts.ran.add(c.tasks);
    for (std::size_t t = 0; t < task_count; ++t) counts.tasks[t] = {c.tasks.cycles[t].get(), c.tasks.queries[t].get()};
    return counts;
  }
};

WireSubject::WireSubject(Engine& engine, const EnginePlan& plan, const CellTapes& tapes, SinkKind sink)
    : engine_(engine), tapes_(tapes), answers_hot_(plan.answers_hot) {
  if (tapes.alternate_every_s > 0) {
    every_ticks_ =
        std::max<std::uint64_t>(1, static_cast<std::uint64_t>(tapes.alternate_every_s * 1e9 / ns_per_tick()));
    bucket_ticks_ = std::max<std::uint64_t>(
        1, static_cast<std::uint64_t>(static_cast<double>(every_ticks_) / buckets_per_alternation));
  }
  std::uint64_t bytes_max = 0;
  for (const auto& of_thread : tapes.of_thread) {
    for (const auto& tape : of_thread) bytes_max = std::max(bytes_max, tape->batch_bytes_max());
  }
  for (const auto& of_thread : tapes.of_thread) {
    auto thread = std::make_unique<Thread>();
    for (const auto& tape : of_thread) thread->lanes.push_back({.tape = *tape});
    thread->driver = std::make_unique<WireDriver>(engine, plan, thread->lanes.front().tape.format().protocol(),
                                                  tapes.batch_queries, bytes_max, sink);
    threads_.push_back(std::move(thread));
  }
  if (!plan.dispatches) return;
  const Engine::ContextPtr context = engine.make_context();
  context->enter();
  dispatch_ =
      std::make_unique<DispatchGroup>(engine.shared().index_as<HashTreeIndex>().tree(), tapes.threads(), bytes_max);
  context->epoch.exit();
  for (unsigned t = 0; t < threads_.size(); ++t) threads_[t]->driver->join(*dispatch_, t);
}

WireSubject::~WireSubject() = default;

void WireSubject::for_each_driver(const std::function<void(const WireDriver&)>& f) const {
  for (const auto& thread : threads_) f(*thread->driver);
}

std::size_t WireSubject::lane_for(Thread& thread, std::uint64_t start_ticks) const {
  if (TD_LIKELY(thread.lanes.size() == 1)) return 0;
  if (every_ticks_ != 0) return (cycles_now() - start_ticks) / every_ticks_ % thread.lanes.size();
  return thread.driver->asks_device(tapes_.batch_queries) ? 1 : 0;
}

// Submits batches until some are answered; returns the number of their operations.
std::uint64_t WireSubject::step(Thread& thread, std::uint64_t start_ticks) {
  const bool alternates = TD_UNLIKELY(every_ticks_ != 0);
  for (;;) {
    std::uint64_t received_ticks = cycles_now();
    if (TD_UNLIKELY(thread.period_ticks > 0)) {
      if (const std::uint64_t answered = answer_until_due(thread); answered != 0) return answered;
      received_ticks = static_cast<std::uint64_t>(thread.due_ticks);
      thread.due_ticks += thread.period_ticks;
    }
    Thread::Lane& lane = thread.lanes[lane_for(thread, start_ticks)];
    Tape::Slice batch = lane.tape.batch(lane.next);
    if (TD_UNLIKELY(batch.ops.size() > thread.left)) batch = lane.tape.prefix(lane.next, thread.left);
    const bool is_over = TD_UNLIKELY(batch.ops.empty());
    const WireDriver::Answered answered = is_over ? thread.driver->finish() : thread.driver->run(batch, received_ticks);
    thread.answered_bytes += answered.reply_bytes;
    if (is_over) return answered.queries;
    thread.expected_bytes += batch.reply_bytes;
    if (++lane.next == lane.tape.size()) lane.next = 0;
    thread.last = batch;
    thread.format = &lane.tape.format();
    ++lane.batches;
    lane.done += batch.ops.size();
    thread.left -= batch.ops.size();
    if (alternates) {
      const std::uint64_t bucket = (cycles_now() - start_ticks) / bucket_ticks_;
      if (bucket >= thread.timeline.size()) thread.timeline.resize(bucket + 1);
      thread.timeline[bucket] += answered.queries;
    }
    if (answered.queries != 0) return answered.queries;
  }
}

// Of an open loop, until the thread's next batch is due: answers what devices are done with, and returns the number of
// these operations at once; 0: the batch is due.
std::uint64_t WireSubject::answer_until_due(Thread& thread) {
  if (TD_UNLIKELY(thread.due_ticks == 0)) thread.due_ticks = static_cast<double>(cycles_now()) + thread.phase_ticks;
  while (static_cast<double>(cycles_now()) < thread.due_ticks) {
    const WireDriver::Answered answered = thread.driver->answer_done();
    thread.answered_bytes += answered.reply_bytes;
    if (answered.queries != 0) return answered.queries;
    cpu_relax();
  }
  return 0;
}

void WireSubject::begin_turn(Thread& thread, const TurnLength& length, std::uint64_t start_ticks, unsigned number) {
  const double ticks_per_s = 1e9 / ns_per_tick();
  thread.left = ops_of(length);
  thread.expected_bytes = thread.answered_bytes = 0;
  thread.format = nullptr;
  thread.timeline.clear();
  thread.period_ticks = thread.phase_ticks = thread.due_ticks = 0;
  if (length.ops_per_s > 0) {
    thread.period_ticks = ticks_per_s * tapes_.batch_queries * tapes_.threads() / length.ops_per_s;
    thread.phase_ticks = thread.period_ticks * number / tapes_.threads();
  }
  thread.latencies.reset();
  thread.hot_latencies.reset();
  thread.driver->set_timeline(nullptr, nullptr);
  if (length.timeline_every_s > 0) {
    const auto every = static_cast<std::uint64_t>(length.timeline_every_s * ticks_per_s);
    thread.latencies.emplace(start_ticks, std::max<std::uint64_t>(1, every));
    thread.hot_latencies = thread.latencies;
    thread.driver->set_timeline(&*thread.latencies, &*thread.hot_latencies);
  }
  for (Thread::Lane& lane : thread.lanes) {
    if (length.ops != 0) lane.next = 0;  // the same count means the same operations
    lane.first_op = lane.tape.first_op(lane.next);
    lane.done = lane.batches = 0;
  }
}

Measured WireSubject::take(const TurnLength& length) {
  std::vector<Thread::Counts> before;
  const std::uint64_t start_ticks = cycles_now();
  for (unsigned t = 0; t < threads_.size(); ++t) {
    before.push_back(threads_[t]->counts());
    begin_turn(*threads_[t], length, start_ticks, t);
  }
  Measured m;
  const Measured::OnDevice device_before = on_device();
  if (answers_hot_) m.hot.emplace();
  m.turn = take_turn(tapes_.threads(), seconds_of(length), [&](unsigned t) { return step(*threads_[t], start_ticks); });
  m.bucket_s = static_cast<double>(bucket_ticks_) * ns_per_tick() / 1e9;
  std::uint64_t stored = 0;
  for (std::size_t t = 0; t < threads_.size(); ++t) {
    Thread& thread = *threads_[t];
    // After the clock was stopped: not part of the turn.
    thread.answered_bytes += thread.driver->finish_untimed().reply_bytes;
    thread.driver->set_timeline(nullptr, nullptr);
    Thread::Counts after = thread.counts();
    thread.add_latencies(before[t], after, m);
    m.hits += after.hits - before[t].hits;
    stored += after.stored - before[t].stored;
    for (std::size_t k = 0; k < task_count; ++k) {
      m.tasks[k].cycles += after.tasks[k].cycles - before[t].tasks[k].cycles;
      m.tasks[k].queries += after.tasks[k].queries - before[t].tasks[k].queries;
      for (std::size_t p = 0; p < processor_count; ++p)
        m.ran.queries[k][p] += after.ran.queries[k][p] - before[t].ran.queries[k][p];
    }
    for (std::size_t l = 0; l < threads_[t]->lanes.size(); ++l) {
      const Thread::Lane& lane = threads_[t]->lanes[l];
      const Tape::Sums sums = lane.tape.sums(lane.first_op, lane.done);
      m.gets += sums.gets;
      m.misses_expected += sums.misses;
      m.sets += sums.sets;
      m.request_bytes += sums.request_bytes;
      m.reply_bytes += sums.reply_bytes;
      m.batches += lane.batches;
      m.ops_of_workload[l] += lane.done;
    }
    // With getk the answer may have been an item of another key, of another size.
    if (!tapes_.may_evict && (!tapes_.getk || tapes_.has_fixed_sizes)) {
      expect_count(thread.expected_bytes, thread.answered_bytes, "bytes of replies", m.errors.wrong_replies, m.errors);
      compare_last(thread, m.errors);
    }
    const std::vector<std::uint64_t>& timeline = threads_[t]->timeline;
    m.timeline.resize(std::max(m.timeline.size(), timeline.size()));
    for (std::size_t i = 0; i < timeline.size(); ++i) m.timeline[i] += timeline[i];
  }
  expect_hits(m, tapes_);
  expect_count(m.sets, stored, "SETs stored", m.errors.wrong_replies, m.errors);
  if (engine_.schedulers() != nullptr) {
    m.device = on_device();
    *m.device -= device_before;
  }
  if (const auto stats = engine_.hot_key_stats(); m.hot && stats) m.hot->keys = stats->table.keys;
  return m;
}

// Of the turn's last batch: what each client's ring holds. Datagrams come in another order.
void WireSubject::compare_last(const Thread& thread, ReplyErrors& errors) const {
  const WireDriver& driver = *thread.driver;
  if (thread.format == nullptr || driver.sink().ring_bytes() == 0 || thread.format->in_datagrams()) return;
  const std::span<const WireOp> ops = thread.last.ops;
  const auto compare = [&](std::uint32_t client, std::size_t begin, std::size_t end) {
    std::uint64_t bytes = 0;
    std::size_t first = end;
    for (; first != begin; --first) {
      const std::uint64_t more = thread.format->reply_bytes(ops[first - 1]);
      if (bytes + more > driver.sink().ring_bytes()) break;
      bytes += more;
    }
    thread.format->check(ops.subspan(first, end - first), driver.sink().last(client, bytes), errors);
  };
  if (!driver.has_clients()) return compare(0, 0, ops.size());
  std::uint64_t request_bytes = 0;
  std::size_t begin = 0, end = 0;
  for (std::uint32_t client = 0; client < thread.last.ends.size(); ++client, begin = end) {
    while (end != ops.size() && request_bytes < thread.last.ends[client])
      request_bytes += thread.format->request_bytes(ops[end++]);
    compare(client, begin, end);
  }
}

Measured::OnDevice WireSubject::on_device() const {
  Measured::OnDevice sum;
  if (engine_.schedulers() == nullptr) return sum;
  for (const Scheduler* scheduler : *engine_.schedulers()) {
    const SchedulerCounters& c = scheduler->counters();
    sum.launches += c.launches.get();
    sum.searched += c.queries.get();
    sum.batches += c.batches.get();
    sum.refused_batches += c.refused_batches.get();
    sum.device_ns += c.device_ns.get();
  }
  for (const DeviceStats& device : engine_.device_stats()) {
    sum.changes += device.replica.records + device.replica.rewrites;
    sum.sent_bytes += device.replica.cells * sizeof(Cell) + device.replica.granules * granule_bytes;
  }
  const StoreTotals store = engine_.stats().counters;
  sum.answered = store.device_requests;
  sum.left_item = store.device_left_item;
  sum.left_length = store.device_left_length;
  sum.left_room = store.device_left_room;
  sum.left_other = store.device_left_other + store.device_left_headers + store.device_left_checksum;
  return sum;
}

Measured::OnDevice& Measured::OnDevice::operator-=(const OnDevice& other) noexcept {
  for (std::uint64_t OnDevice::* const n :
       {&OnDevice::launches, &OnDevice::searched, &OnDevice::batches, &OnDevice::refused_batches, &OnDevice::device_ns,
        &OnDevice::answered, &OnDevice::left_item, &OnDevice::left_length, &OnDevice::left_room, &OnDevice::left_other,
        &OnDevice::changes, &OnDevice::sent_bytes})
    this->*n -= other.*n;
  return *this;
}

ReplyErrors WireSubject::verify() {
  std::vector<ReplyErrors> errors(threads_.size());
  on_each_thread(tapes_.threads(), [&](unsigned t) {
    Thread& thread = *threads_[t];
    std::string replies;
    thread.driver->keep_replies(&replies);
    for (Thread::Lane& lane : thread.lanes) {
      for (std::size_t i = 0; i < lane.tape.size(); ++i) {
        const Tape::Slice batch = lane.tape.batch(i);
        replies.clear();
        thread.driver->run(batch);
        thread.driver->finish();
        lane.tape.format().check(batch.ops, replies, errors[t]);
      }
    }
    thread.driver->keep_replies(nullptr);
  });
  return all_of(errors, tapes_, ops_of(tapes_));
}

std::uint64_t WireSubject::probe(TaskProbe& probe, std::uint64_t ops_max) {
  Thread& thread = *threads_.front();
  const Tape& tape = thread.lanes.front().tape;
  std::uint64_t ops = 0;
  thread.driver->set_probe(&probe);
  for (std::size_t i = 0; i < tape.size() && ops < ops_max; ++i) {
    const Tape::Slice batch = tape.batch(i);
    thread.driver->run(batch);
    thread.driver->finish();
    ops += batch.ops.size();
  }
  thread.driver->set_probe(nullptr);
  return ops;
}

// --- the loops

CeilingSubject::CeilingSubject(const Ceiling& ceiling, bool copies, const workload::KeySpace& keys,
                               const CellTapes& tapes)
    : ceiling_(ceiling), copies_(copies), tapes_(tapes) {
  const std::size_t value_bytes = keys.value_bytes(0);  // all are the same
  for (unsigned t = 0; t < tapes.threads(); ++t) out_.emplace_back(copies ? tapes.batch_queries * value_bytes : 0);
}

Measured CeilingSubject::take(const TurnLength& length) {
  struct alignas(cache_line_bytes) Thread {
    std::size_t next = 0;
    std::uint64_t left = 0;
  };
  std::vector<Thread> threads(tapes_.threads());
  for (Thread& thread : threads) thread.left = ops_of(length);
  std::atomic<std::uint64_t> checksum{0};
  Measured m;
  m.turn = take_turn(tapes_.threads(), seconds_of(length), [&](unsigned t) {
    Thread& thread = threads[t];
    const std::span<const WireOp> all = tapes_.of_thread[t].front()->ops();
    const auto count = static_cast<std::size_t>(
        std::min<std::uint64_t>({tapes_.batch_queries, all.size() - thread.next, thread.left}));
    const std::span<const WireOp> ops = all.subspan(thread.next, count);
    const std::uint64_t sum = copies_ ? ceiling_.copy(ops, out_[t].data()) : ceiling_.two_lines(ops);
    if (TD_UNLIKELY(sum == std::numeric_limits<std::uint64_t>::max()))
      checksum.fetch_add(sum);  // never true; keeps the loop
    thread.next = thread.next + count == all.size() ? 0 : thread.next + count;
    thread.left -= count;
    return std::uint64_t{count};
  });
  m.gets = m.turn.ops;
  return m;
}

}  // namespace tandem::bench
