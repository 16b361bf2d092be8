#include "pipeline/runner.hpp"

#include <chrono>
#include <utility>

#include "index/stripes.hpp"

namespace tandem {

Runner::Runner(Context& context, const Schedulers* schedulers, std::uint32_t capacity, std::uint64_t input_bytes,
               unsigned flights)
    : context_(context),
      executor_(context),
      schedulers_(schedulers != nullptr ? std::optional(*schedulers) : std::nullopt) {
  if (!schedulers_) flights = 1;
  for (unsigned i = 0; i < flights; ++i) {
    std::vector<std::unique_ptr<DevicePart>> parts;
    if (schedulers_) {
      for (Scheduler* s : *schedulers_) {
        const std::uint64_t bytes = parts.empty() ? input_bytes : 0;
        parts.push_back(std::make_unique<DevicePart>(s->device(), capacity, s->image_granules(), bytes));
      }
    }
    flights_.push_back(std::make_unique<Flight>(context.shared.epochs, std::move(parts), capacity, input_bytes));
  }
  if (schedulers_) context_.in_flight = this;
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
  if (flight.has_devices() && can_begin(plan)) flight.batch().plan = plan_to_begin(plan, flight.batch().size());
  if (!flight.batch().plan.uses(Processor::device)) return flight.stay_here();
  flight.describe(context_.shared.hash_seed);
  flight.begin(*schedulers_);
}

// True: the flight is the worker's again. After 10 ms, leaves all in-flight epochs of this worker so that memory can be
// reclaimed. Gives up on a scheduler that is late itself, as when a driver call does not return.
bool Runner::look_at(Flight& flight) noexcept {
  constexpr auto patience = std::chrono::milliseconds(10);
  if (flight.state() == Flight::State::host || flight.look(*schedulers_)) return true;
  if (TD_UNLIKELY(flight.state() == Flight::State::searching && flight.age() > patience)) let_go();
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
  return flight.batch();
}

void Runner::end_answer() noexcept {
  flights_[oldest_]->end();
  oldest_ = (oldest_ + 1) % count();
  --in_flight_;
  waited_ = false;
  relieve();
}

void Runner::answer_oldest(ResponseWriter& writer) {
  run(begin_answer(), writer);
  end_answer();
}

void Runner::let_go() noexcept {
  for (unsigned i = 0; i < in_flight_; ++i) flights_[(oldest_ + i) % count()]->let_go();
}

}  // namespace tandem
