#include "pipeline/runner.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/ticks.hpp"
#include "index/index.hpp"
#include "index/stripes.hpp"
#include "task/key_compare.hpp"

namespace tandem {

namespace {

// Of a key, with what stands around it in its reply.
constexpr std::uint64_t reply_bytes_of(std::uint32_t image_granules) {
  constexpr std::uint64_t around_bytes = 32;
  return std::uint64_t{image_granules} * granule_bytes + around_bytes;
}
// Of the located keys of a short input. Longer ones have as many bytes as the input: lines of one key are longer than a
// LocatedKey, nearly always.
constexpr std::uint64_t located_bytes_min = 4096;

}  // namespace

Runner::Runner(Context& context, const Schedulers* schedulers, std::uint32_t capacity, std::uint64_t input_bytes,
               Frames frames, unsigned flights)
    : context_(context),
      schedulers_(schedulers != nullptr ? std::optional(*schedulers) : std::nullopt),
      may_locate_(context.shared.index.cells_in() == CellsIn::table) {
  if (!schedulers_) flights = 1;
  for (unsigned i = 0; i < flights; ++i) {
    std::vector<std::unique_ptr<DevicePart>> parts;
    if (schedulers_) {
      for (Scheduler* s : *schedulers_) {
        const std::uint64_t bytes = parts.empty() ? input_bytes : 0;
        parts.push_back(std::make_unique<DevicePart>(s->device(), capacity, bytes));
      }
      if (frames == Frames::yes && parts.size() == 1) add_frames(*parts[0], capacity, input_bytes);
    }
    flights_.push_back(std::make_unique<Flight>(context.shared.epochs, std::move(parts), capacity, input_bytes));
  }
  if (schedulers_) context_.in_flight = this;
}

void Runner::add_frames(DevicePart& part, std::uint32_t capacity, std::uint64_t input_bytes) {
  Scheduler& scheduler = (*schedulers_)[0];
  if (const std::uint32_t images = schedulers_->image_granules(); images != 0) {
    part.add_frames(scheduler.device(), capacity, capacity * reply_bytes_of(images));
    if (!runs_) runs_.emplace(context_.shared.hash_seed);
  } else if (may_locate_) {
    part.add_frames(scheduler.device(), 0, std::max(input_bytes, located_bytes_min));
  }
}

Runner::~Runner() {
  if (!schedulers_) return;
  for (; in_flight_ != 0; --in_flight_, oldest_ = (oldest_ + 1) % count()) {
    Flight& flight = *flights_[oldest_];
    for (SpinWait waiting; !look_at(flight);) waiting.once();
    flight.end();
  }
  context_.in_flight = nullptr;
  for (const auto& flight : flights_) {
    auto parts = flight->take_parts();
    for (std::size_t s = 0; s < parts.size(); ++s) (*schedulers_)[s].keep(std::move(parts[s]));
  }
}

// The plan for a new batch: if devices cannot keep up, the host gets a part of it, or all of it.
Plan Runner::plan_to_begin(const Plan& plan, std::uint32_t queries) noexcept {
  // Without an index on the host, it cannot take a part.
  if (!schedulers_->steal() || plan.runs(Task::insert, Processor::device) ||
      !plan.range_of(Task::search, Processor::device).is_whole())
    return plan;
  const std::uint32_t share = share_.queries(queries);
  context_.counters.device_stolen.add(queries - share);
  if (share == queries) return plan;
  return share != 0 ? plan.split(static_cast<std::uint16_t>(share / Range::set)) : plan_cpu;
}

void Runner::submit(const Plan& plan) noexcept {
  Flight& flight = *flights_[next()];
  if (in_flight_++ == 0) waited_ = false;
  flight.batch().plan = plan_cpu;
  if (flight.has_devices() && can_begin(plan))
    flight.batch().plan = plan_to_begin(search_alone(plan), flight.batch().size());
  if (!flight.batch().plan.uses(Processor::device)) return flight.stay_here();
  flight.describe(context_.shared.hash_seed);
  flight.begin(*schedulers_);
  give_way();
}

// The schedulers' threads launch what was submitted. On a machine without an idle processor they have only what a
// worker leaves them, and would wait for the end of its time slice.
void Runner::give_way() noexcept {
  constexpr std::uint64_t every_ticks = 100'000;
  if (cycles_now() - gave_way_ < every_ticks) return;
  std::this_thread::yield();
  gave_way_ = cycles_now();
}

void Runner::submit_frames(const Plan& plan, bool cas) noexcept {
  Flight& flight = *flights_[next()];
  TD_ASSERT(flight.batch().size() == 0);
  if (in_flight_++ == 0) waited_ = false;
  flight.begin_frames(*schedulers_, locates_keys(plan) ? FrameAnswers::locations : FrameAnswers::replies, cas);
  give_way();
}

bool Runner::begin_located() noexcept {
  Flight& flight = *flights_[oldest_];
  if (!flight.has_frames(FrameAnswers::locations)) return false;
  located_.emplace(*flight.frames(), flight.batch().input().begin());
  count_left(*flight.frames());
  return true;
}

bool Runner::begin_frames() noexcept {
  Flight& flight = *flights_[oldest_];
  if (!flight.has_frames(FrameAnswers::replies)) return false;
  Shared& shared = context_.shared;
  flight.frames()->begin([&](Fingerprint f) {
    if (flight.is_final_miss(shared.index_as<FollowedIndex>(), f)) return true;
    context_.counters.device_rechecks.add();
    return false;
  });
  runs_->begin(*flight.frames(), flight.batch().input().begin());
  has_runs_ = true;
  context_.tasks.batches.add();
  count_left(*flight.frames());
  return true;
}

// The run that was found last.
bool Runner::take(bool is_found, FrameRun& run) noexcept {
  if (!is_found) return false;
  run = runs_->run();
  runs_->count(run);
  if (const auto reads = runs_->reads(runs_->tile(), run); TD_UNLIKELY(!reads.empty()))
    task::mark_reads(context_.shared, reads);
  return true;
}

void Runner::count_left(const FrameColumns& frames) noexcept {
  const auto left = frames.left();
  StoreCounters& counters = context_.counters;
  counters.device_left_other.add(left[static_cast<std::size_t>(FrameLeft::other)]);
  counters.device_left_item.add(left[static_cast<std::size_t>(FrameLeft::item)]);
  counters.device_left_length.add(left[static_cast<std::size_t>(FrameLeft::length)]);
  counters.device_left_room.add(left[static_cast<std::size_t>(FrameLeft::room)]);
  counters.device_left_headers.add(left[static_cast<std::size_t>(FrameLeft::headers)]);
  counters.device_left_checksum.add(left[static_cast<std::size_t>(FrameLeft::checksum)]);
}

// Counts what the device has answered of the oldest flight.
void Runner::count_taken(const FrameCounts& taken) noexcept {
  context_.tasks.queries_total.add(taken.keys);
  for (const Task task : {Task::parse, Task::search, Task::key_compare, Task::read_value, Task::write_response})
    context_.tasks.on_device[index_of(task)].add(taken.keys);
  StoreCounters& counters = context_.counters;
  counters.device_requests.add(taken.requests);
  counters.device_images.add(taken.hits);
  counters.cmd_get.add(taken.keys);
  counters.get_hits.add(taken.hits);
  counters.get_misses.add(taken.keys - taken.hits);
}

// True: the flight is the worker's again. Gives up on a scheduler that is late itself, as when a driver call does not
// return.
bool Runner::look_at(Flight& flight) noexcept {
  if (flight.state() == Flight::State::host || flight.look(*schedulers_)) return true;
  if (TD_UNLIKELY(flight.state() == Flight::State::searching && flight.age() > patience_)) let_go();
  return false;
}

bool Runner::wait_for_oldest(std::chrono::microseconds age_max) noexcept {
  Flight& flight = *flights_[oldest_];
  for (SpinWait waiting; !look_at(flight); waiting.once()) {
    waited_ = true;
    if (std::chrono::duration_cast<std::chrono::microseconds>(flight.age()) > age_max) return false;
  }
  return true;
}

Batch& Runner::begin_answer() {
  Flight& flight = *flights_[oldest_];
  static_cast<void>(wait_for_oldest(std::chrono::microseconds::max()));
  if (flight.state() != Flight::State::host) share_.answered(in_flight_ + 1 >= count(), waited_);
  flight.land();
  is_answering_ = true;
  return flight.batch();
}

void Runner::end_answer() noexcept {
  if (TD_UNLIKELY(has_runs_) && runs_->counts().keys != 0) count_taken(runs_->counts());
  has_runs_ = is_answering_ = false;
  located_.reset();
  flights_[oldest_]->end();
  oldest_ = (oldest_ + 1) % count();
  --in_flight_;
  waited_ = false;
  relieve();
}

void Runner::let_go() noexcept {
  for (unsigned i = 0; i < in_flight_; ++i) flights_[(oldest_ + i) % count()]->let_go();
}

}  // namespace tandem
