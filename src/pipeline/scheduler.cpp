#include "pipeline/scheduler.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <utility>

#include "base/yield.hpp"
#include "index/cuckoo/table_kernels.hpp"

namespace tandem {
namespace {

using Steady = std::chrono::steady_clock;

// The thread polls this long after the last work before it sleeps: a launch costs less than a wake-up.
constexpr auto awake = std::chrono::microseconds(200);
// While asleep it services the replica at these intervals. No thread waits for that: a batch wakes it, and workers
// drain a log that fills.
constexpr auto nap = std::chrono::milliseconds(1), nap_max = std::chrono::milliseconds(64);
constexpr std::uint64_t upload_step_bytes = std::uint64_t{8} << 20;
// Memory of the device that other programs use may be freed.
constexpr auto start_again = std::chrono::milliseconds(500);
// The table changes, and so does other load on the machine.
constexpr auto measure_every = std::chrono::seconds(10);
constexpr auto measure_again = std::chrono::milliseconds(100);  // after a failed attempt
constexpr auto ask_power_every = std::chrono::seconds(2);

}  // namespace

Scheduler::Scheduler(Device& device, DeviceSide& replica, const SchedulerOptions& options, RoundTrip* round_trip)
    : device_(device),
      replica_(replica),
      options_(options),
      round_trip_(round_trip),
      start_pause_(start_again),
      cycle_us_(options.cycle.count()),
      queries_min_(round_trip != nullptr ? RoundTrip::never : options.queries_min),
      wakeup_(options.wakeup != nullptr ? options.wakeup : std::make_shared<WakeUp>()) {
  ready_.reserve(search_parts_max);
  thread_ = std::thread([this] { run(); });
}

void Scheduler::request_stop() noexcept {
  stopping_.store(true, std::memory_order_release);
  wakeup_->notify();
}

Scheduler::~Scheduler() {
  request_stop();
  if (thread_.joinable()) thread_.join();
}

bool Scheduler::stop(std::chrono::milliseconds limit) noexcept {
  request_stop();
  const TimePoint end = Steady::now() + limit;
  while (!ended_.load(std::memory_order_acquire)) {
    if (Steady::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (thread_.joinable()) thread_.join();
  return true;
}

void Scheduler::submit(DevicePart& part) noexcept {
  part.state_.store(DevicePart::State::queued, std::memory_order_relaxed);
  DevicePart* head = queue_.load(std::memory_order_relaxed);
  do {
    part.next_ = head;
  } while (!queue_.compare_exchange_weak(head, &part, std::memory_order_seq_cst, std::memory_order_relaxed));
  // Either this load sees that the thread sleeps, or the thread sees the batch before it sleeps.
  if (sleeps_.load(std::memory_order_seq_cst)) wakeup_->notify();
}

void Scheduler::run() noexcept {
  if (options_.processor >= 0 && options_.processor < CPU_SETSIZE) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<std::size_t>(options_.processor), &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
  }
  last_work_ = Steady::now();
  state_ = replica_.start();
  std::chrono::milliseconds next_nap = nap;
  while (!stopping_.load(std::memory_order_acquire)) {
    const bool follows = follow();
    if (launches_.empty()) {
      if (is_measure_due()) measure();
      ask_power();
    }
    serves_.store(state_ == ReplicaState::current, std::memory_order_relaxed);
    take_queue();
    if (!ready_.empty() && !serves()) refuse_all();
    if (!ready_.empty() && can_launch()) {
      launch();
    } else if (replica_.wants_drain()) {
      static_cast<void>(replica_.drain());
    }
    if (!launches_.empty()) land();
    release_kept();
    const TimePoint now = Steady::now();
    if (follows || !ready_.empty() || !launches_.empty()) {
      last_work_ = now;
      next_nap = nap;
      yield_processor();
    } else if (now - last_work_ < awake) {
      yield_processor();
    } else {
      sleeps_.store(true, std::memory_order_seq_cst);
      if (queue_.load(std::memory_order_seq_cst) == nullptr) wakeup_->wait_for(next_nap);
      sleeps_.store(false, std::memory_order_relaxed);
      next_nap = std::min(2 * next_nap, nap_most());
    }
  }
  while (!launches_.empty()) {
    land();
    yield_processor();
  }
  take_queue();
  refuse_all();
  release_kept();
  ended_.store(true, std::memory_order_release);
}

// When a measurement is due, launches must end first.
bool Scheduler::can_launch() const noexcept {
  return !is_measure_due() && launches_.size() < options_.launches_max &&
         Steady::now() >= last_launch_ + std::chrono::microseconds(cycle_us_.load(std::memory_order_relaxed));
}

// Lets the replica do its own work. True: there is more.
bool Scheduler::follow() noexcept {
  state_ = replica_.step(upload_step_bytes);
  if (options_.steer) obey();
  go_with_others();
  if (state_ != ReplicaState::current) measure_after_ = {};
  watch_replica();
  return state_ == ReplicaState::uploading || state_ == ReplicaState::leaving || state_ == ReplicaState::returning ||
         replica_.is_busy();
}

void Scheduler::go_with_others() noexcept {
  std::atomic<unsigned>& gone = *options_.gone;
  if (is_gone_ && state_ == ReplicaState::current) {
    is_gone_ = false;
    gone.fetch_sub(1, std::memory_order_relaxed);
    current_since_ = Steady::now();
  } else if (is_gone_ && state_ == ReplicaState::absent && !rests_ && Steady::now() >= start_again_after_) {
    state_ = replica_.start();
    start_pause_ = std::min(2 * start_pause_, options_.start_again_max);
    start_again_after_ = Steady::now() + start_pause_;
  }
  if (is_gone_) return;
  if (waits_for_others_) {
    if (gone.load(std::memory_order_relaxed) != 0) return;
    waits_for_others_ = false;
    state_ = replica_.start();
  } else if (state_ == ReplicaState::absent || state_ == ReplicaState::lost) {
    is_gone_ = true;
    gone.fetch_add(1, std::memory_order_relaxed);
    // A replica that was current only briefly does not reset the pause.
    if (Steady::now() - current_since_ > options_.start_again_max) start_pause_ = start_again;
    start_again_after_ = Steady::now() + start_pause_;
  } else if (gone.load(std::memory_order_relaxed) != 0) {
    waits_for_others_ = true;
    replica_.stop(ReplicaAbsence::stopped);
    state_ = ReplicaState::absent;
  }
}

// A replica that rests without memory on the device is absent, like one for which the device had none.
void Scheduler::obey() noexcept {
  if (rests_) settle_rewrites();
  const TimePoint now = Steady::now();
  if (now < steer_after_) return;
  const bool is_at_rest = rests_ && (state_ == ReplicaState::resting || state_ == ReplicaState::absent);
  const bool is_current = !rests_ && state_ == ReplicaState::current;
  const Steered steered = options_.steer({.device_ns = counters_.device_ns.get(),
                                          .overflows = replica_.stats().overflows,
                                          .round_trip_ns = costs_.load().device_ns,
                                          .is_current = is_current,
                                          .is_settled = is_current || is_at_rest},
                                         now);
  steer_every_ = steered.again_in;
  steer_after_ = now + steer_every_;
  if (steered.keeps_up && rests_) {
    wake_replica();
  } else if (!steered.keeps_up && (is_current || (!rests_ && state_ == ReplicaState::uploading))) {
    let_rest();
  }
}

std::chrono::milliseconds Scheduler::nap_most() const noexcept {
  if (!options_.steer) return nap_max;
  return std::clamp(std::chrono::ceil<std::chrono::milliseconds>(steer_every_), nap, nap_max);
}

void Scheduler::let_rest() noexcept {
  counters_.rests.add();
  rests_ = true;
  if (replica_.rest()) {
    state_ = ReplicaState::leaving;
  } else {
    replica_.stop(ReplicaAbsence::rests);
    state_ = ReplicaState::absent;
  }
  if (options_.rewrites != nullptr) rest_stamp_ = options_.epochs->retire_stamp();
}

void Scheduler::wake_replica() noexcept {
  rests_ = false;
  rest_stamp_.reset();
  // Before the log is on: a batch that does not see this began before, and the return waits for its end.
  if (options_.rewrites != nullptr) options_.rewrites->store(Rewrites::announced, std::memory_order_relaxed);
  if (state_ == ReplicaState::leaving || state_ == ReplicaState::resting) {
    state_ = replica_.start();
  } else {
    start_again_after_ = Steady::now();
    start_pause_ = start_again;
  }
}

// Batches that the replica has answered know by the keys' stripes whether that is current: until they have ended, sets
// in place are announced, with the log off.
void Scheduler::settle_rewrites() noexcept {
  if (!rest_stamp_ || state_ == ReplicaState::leaving || !options_.epochs->is_safe(*rest_stamp_)) return;
  const Rewrites rewrites = state_ == ReplicaState::resting ? Rewrites::marked : Rewrites::unseen;
  options_.rewrites->store(rewrites, std::memory_order_relaxed);
  // A replica that rests may still lose its memory.
  if (rewrites == Rewrites::unseen) rest_stamp_.reset();
}

// The replica's own work has the same deadline as a launch.
void Scheduler::watch_replica() noexcept {
  const DeviceMark mark = replica_.waits_for();
  if (mark == 0 || mark != replica_waits_for_) {
    replica_waits_for_ = mark;
    replica_waiting_ = {Steady::now()};
  } else if (replica_waiting_.is_late(Steady::now(), options_.deadline)) {
    device_.abandon();
  }
}

// Periodically, and when the replica is of another table.
bool Scheduler::is_measure_due() const noexcept {
  return round_trip_ != nullptr && state_ == ReplicaState::current && Steady::now() >= measure_after_;
}

void Scheduler::measure() noexcept {
  const std::chrono::microseconds cycle(cycle_us_.load(std::memory_order_relaxed));
  if (const auto queries_min = round_trip_->measure(replica_, options_.deadline, cycle)) {
    queries_min_.store(*queries_min, std::memory_order_relaxed);
    costs_.store(round_trip_->costs());
    measure_after_ = Steady::now() + measure_every;
  } else {
    measure_after_ = Steady::now() + measure_again;
  }
}

void Scheduler::ask_power() noexcept {
  const TimePoint now = Steady::now();
  if (now < ask_power_after_) return;
  power_mw_.store(device_.power_mw().value_or(0), std::memory_order_relaxed);
  ask_power_after_ = now + ask_power_every;
}

// Appends the submitted parts, oldest first.
void Scheduler::take_queue() noexcept {
  DevicePart* b = queue_.exchange(nullptr, std::memory_order_acquire);
  if (b == nullptr) return;
  if (ready_.empty()) ready_since_ = Steady::now();
  const auto before = static_cast<std::ptrdiff_t>(ready_.size());
  for (; b != nullptr; b = b->next_) ready_.push_back(b);
  std::reverse(ready_.begin() + before, ready_.end());
}

// Of the waiting parts, those that one launch takes.
std::size_t Scheduler::count_to_launch() const noexcept {
  std::size_t frames = 0, count = 0;
  for (; count < std::min<std::size_t>(ready_.size(), search_parts_max); ++count) {
    frames += static_cast<std::size_t>(ready_[count]->asks_frames_.load(std::memory_order_relaxed));
    if (frames > frame_parts_max) break;
  }
  return count;
}

// Queues the search of the first `count` waiting parts, except for those that ask for frames.
bool Scheduler::launch_search(const ReplicaLaunch& launched, std::size_t count) noexcept {
  SearchArguments search{.index = launched.index};
  for (std::size_t i = 0; i < count; ++i) {
    const DevicePart& b = *ready_[i];
    if (b.asks_frames_.load(std::memory_order_relaxed)) continue;
    search.part[search.parts++] = {.fingerprints = b.fingerprints_.at().address(),
                                   .locations = b.locations_.at().address(),
                                   .count = b.query_count_.load(std::memory_order_relaxed)};
  }
  return replica_.stream().launch(search_table, search) == DeviceStatus::ok;
}

// Queues the answers to the frames of those that ask for these. False: it failed, or there is no memory for them.
bool Scheduler::launch_frames(const ReplicaLaunch& launched, std::size_t count, FrameAnswers answers) noexcept {
  FramesArguments frames{};
  frames.answers = answers;
  frames.index = launched.index;
  frames.images = launched.images;
  for (std::size_t i = 0; i < count; ++i) {
    const DevicePart& b = *ready_[i];
    if (!b.asks_for(answers)) continue;
    FramePart& part = frames.part[frames.parts++];
    part = b.frames_->part(b.input_.at());
    part.cas = b.cas_.load(std::memory_order_relaxed);
  }
  if (frames.parts == 0) return true;
  if (frame_cursors_.count() == 0) {
    try {
      frame_cursors_ = DeviceArray<FrameCursors>(device_, frame_parts_max);
    } catch (const DeviceError&) {  // its memory is full; or it is lost
      return false;
    }
  }
  frames.cursors = frame_cursors_.at();
  frames.rules = options_.frame_rules();
  Stream& stream = replica_.stream();
  return stream.zero(frame_cursors_.bytes_at(), frames.parts * sizeof(FrameCursors)) == DeviceStatus::ok &&
         stream.launch(answer_frames, frames) == DeviceStatus::ok;
}

void Scheduler::launch() noexcept {
  Stream& stream = replica_.stream();
  const DeviceMark from = stream.mark();
  const ReplicaLaunch launched = replica_.drain();
  if (!launched.ready() || is_stuck()) return refuse_all();

  std::size_t count = count_to_launch();
  const bool searches = launch_search(launched, count);
  const bool replies = searches && launch_frames(launched, count, FrameAnswers::replies);
  const bool locations = searches && launch_frames(launched, count, FrameAnswers::locations);
  if (!(replies && locations) && device_.lost()) {
    // It may run what was queued nevertheless.
    for (std::size_t i = 0; i < count; ++i) give_back(*ready_[i], DevicePart::State::lost);
    counters_.failed_batches.add(count);
    ready_.erase(ready_.begin(), ready_.begin() + static_cast<std::ptrdiff_t>(count));
    return refuse_all();
  }
  if (!searches) return refuse_all();
  if (!replies) count -= refuse_frames(count, FrameAnswers::replies);
  if (!locations) count -= refuse_frames(count, FrameAnswers::locations);
  std::uint64_t queries = 0;
  for (std::size_t i = 0; i < count; ++i) {  // those of frames are known when they are answered
    if (ready_[i]->asks_frames_.load(std::memory_order_relaxed)) continue;
    queries += ready_[i]->query_count_.load(std::memory_order_relaxed);
  }

  Launch l;
  if (!spare_.empty()) {
    l = std::move(spare_.back());
    spare_.pop_back();
  }
  l.searched = launched;
  l.from = from;
  l.to = stream.mark();
  l.begun = ready_since_;
  const auto taken = ready_.begin() + static_cast<std::ptrdiff_t>(count);
  l.batches.assign(ready_.begin(), taken);
  ready_.erase(ready_.begin(), taken);
  ready_since_ = last_launch_ = Steady::now();
  l.waiting = {last_launch_};
  for (DevicePart* b : l.batches) {
    b->launch_.store(launched.number, std::memory_order_relaxed);
    b->whole_.store(launched.whole, std::memory_order_relaxed);
    // Unless its worker has taken it back: then the device is lost.
    auto queued = DevicePart::State::queued;
    b->state_.compare_exchange_strong(queued, DevicePart::State::running, std::memory_order_relaxed);
  }
  launches_.push_back(std::move(l));
  counters_.launches.add();
  counters_.batches.add(count);
  counters_.queries.add(queries);
}

// Returns the batches of launches that have ended, in order.
void Scheduler::land() noexcept {
  while (!launches_.empty()) {
    Launch& l = launches_.front();
    const TimePoint looked = Steady::now();
    DeviceStatus status = replica_.stream().poll(l.to);
    if (status == DeviceStatus::ok) status = replica_.poll(l.searched);
    if (status == DeviceStatus::pending) {
      if (!l.waiting.is_late(looked, options_.deadline)) return;
      device_.abandon();
      status = DeviceStatus::lost;
    }
    const bool done = status == DeviceStatus::ok;
    if (done) {
      counters_.searched_batches.add(l.batches.size());
      for (const DevicePart* b : l.batches) {
        if (b->asks_frames_.load(std::memory_order_relaxed)) counters_.queries.add(b->frames_->keys());
      }
      counters_.device_ns.add(replica_.stream().elapsed_ns(l.from, l.to));
      counters_.cycle_ns.add(static_cast<std::uint64_t>(
          std::chrono::duration_cast<std::chrono::nanoseconds>(Steady::now() - l.begun).count()));
    } else {
      counters_.failed_batches.add(l.batches.size());
      serves_.store(false, std::memory_order_relaxed);
    }
    const auto state = done                           ? DevicePart::State::done
                       : status == DeviceStatus::lost ? DevicePart::State::lost
                                                      : DevicePart::State::refused;
    for (DevicePart* b : l.batches) give_back(*b, state);
    l.batches.clear();
    l.searched = {};
    spare_.push_back(std::move(l));
    launches_.pop_front();
    if (!launches_.empty()) launches_.front().waiting.since = looked;
  }
}

// Unless its worker has taken it back.
void Scheduler::give_back(DevicePart& part, DevicePart::State state) noexcept {
  auto now = part.state_.load(std::memory_order_relaxed);
  while ((now == DevicePart::State::queued || now == DevicePart::State::running) &&
         !part.state_.compare_exchange_weak(now, state, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

void Scheduler::take_back(DevicePart& part) noexcept {
  stuck_.store(true, std::memory_order_release);
  device_.abandon();
  give_back(part, DevicePart::State::lost);
}

void Scheduler::keep(std::unique_ptr<DevicePart> part) noexcept {
  {
    const std::lock_guard lock(kept_mutex_);
    part->next_kept_ = std::move(kept_);
    kept_ = std::move(part);
  }
  keeps_.store(true, std::memory_order_release);
  wakeup_->notify();
}

// A kept part may still be referenced by the queue, by the waiting parts and by launches.
void Scheduler::release_kept() noexcept {
  if (!keeps_.exchange(false, std::memory_order_acquire)) return;
  if (is_stuck()) {
    take_queue();
    refuse_all();
    if (!launches_.empty()) return keeps_.store(true, std::memory_order_relaxed);
  }
  std::unique_ptr<DevicePart> kept;
  {
    const std::lock_guard lock(kept_mutex_);
    kept.swap(kept_);
  }
  while (kept != nullptr) kept = std::move(kept->next_kept_);
}

// Those of the first `count` waiting parts that ask for these answers to frames; returns how many they were.
std::size_t Scheduler::refuse_frames(std::size_t count, FrameAnswers answers) noexcept {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count; ++i) {
    DevicePart* const b = ready_[i];
    if (b->asks_for(answers)) {
      give_back(*b, DevicePart::State::refused);
    } else {
      ready_[kept++] = b;
    }
  }
  const std::size_t refused = count - kept;
  ready_.erase(ready_.begin() + static_cast<std::ptrdiff_t>(kept), ready_.begin() + static_cast<std::ptrdiff_t>(count));
  counters_.refused_batches.add(refused);
  return refused;
}

void Scheduler::refuse_all() noexcept {
  counters_.refused_batches.add(ready_.size());
  for (DevicePart* b : ready_) give_back(*b, DevicePart::State::refused);
  ready_.clear();
}

}  // namespace tandem
