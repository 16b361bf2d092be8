#include "device/sim/sim_queue.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <new>
#include <utility>

namespace tandem::sim {

Queue::Queue(std::shared_ptr<Core> core) : core_(std::move(core)) { core_->enrol(*this); }

void Queue::wake() noexcept {
  const std::lock_guard lock(mutex_);  // so that no thread is between its check and its wait
  work_.notify_all();
  settled_changed_.notify_all();
}

bool Queue::stopped() const noexcept { return core_->lost() || (closing_.load() && core_->hung()); }

void Queue::close() noexcept {
  closing_.store(true);
  core_->wake_all();  // its thread may be waiting in another queue
}

// --- its thread

void Queue::run() noexcept {
  prctl(PR_SET_TIMERSLACK, 1UL);  // modelled latencies are of microseconds
  bool good = true;               // no failure since the last mark
  for (;;) {
    Work work;
    {
      std::unique_lock lock(mutex_);
      work_.wait(lock, [this] { return stopped() || (works_.empty() ? closing_.load() : !core_->hung()); });
      if (stopped() || works_.empty()) break;
      work = std::move(works_.front());
      works_.pop_front();
    }
    if (!do_work(work, good)) break;
  }
  drop();
}

void Queue::drop() noexcept {
  std::deque<Work> dropped;  // destroyed after the lock is released: may hold the last reference to other queues
  const std::lock_guard lock(mutex_);
  works_.swap(dropped);
  ended_.store(true);
  settled_changed_.notify_all();
}

bool Queue::do_work(Work& work, bool& good) noexcept {
  if (work.other != nullptr) {
    if (!wait_for(*work.other, work.mark)) return false;
    good = good && work.other->settled_.load() >= work.mark;  // else dropped: the work that follows lacks its input
    return true;
  }
  if (!work.run) {
    if (!wait_while_hung()) return false;
    complete(work.mark, std::exchange(good, true));
    return true;
  }
  const double slow = core_->slow.load(std::memory_order_relaxed);
  const auto slowed = [slow](Nanoseconds t) {
    return Nanoseconds(static_cast<std::int64_t>(static_cast<double>(t.count()) * slow));
  };
  const Clock::time_point ready = work.queued + slowed(core_->options.latency);
  const Core::Span span = core_->reserve(work.engine, std::max(ready, Clock::now()), slowed(work.duration));
  if (!sleep_until(span.begin) || !wait_while_hung()) return false;

  const bool done = !core_->fail.hit() && run(work);
  good = good && done;
  return sleep_until(span.end) && wait_while_hung();
}

bool Queue::run(const Work& work) const noexcept {
  try {
    std::vector<Piece> pieces;  // keeps them mapped if they are released meanwhile
    std::vector<std::byte*> places;
    pieces.reserve(work.ranges.size());
    places.reserve(work.ranges.size());
    for (const MemoryRange& range : work.ranges) {
      pieces.push_back(core_->memory.find(range.address, range.bytes, range.alignment));
      places.push_back(pieces.back().at);
      if (places.back() == nullptr) return false;
    }
    return work.run(HostMemory(work.ranges, places));
  } catch (const std::bad_alloc&) {
    return false;
  }
}

bool Queue::sleep_until(Clock::time_point t) noexcept {
  if (Clock::now() >= t) return !stopped();
  std::unique_lock lock(mutex_);
  return !work_.wait_until(lock, t, [this] { return stopped(); });
}

bool Queue::wait_while_hung() noexcept {
  if (!core_->hung()) return !stopped();
  std::unique_lock lock(mutex_);
  work_.wait(lock, [this] { return stopped() || !core_->hung(); });
  return !stopped();
}

bool Queue::wait_for(Queue& other, DeviceMark mark) noexcept {
  std::unique_lock lock(other.mutex_);
  other.settled_changed_.wait(lock, [&] { return stopped() || other.ended_.load() || other.settled_.load() >= mark; });
  return !stopped();
}

void Queue::complete(DeviceMark mark, bool good) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!good) failed_.insert(mark);
    times_[mark % remembered] = {mark, Clock::now()};
    settled_.store(mark, std::memory_order_release);
  }
  settled_changed_.notify_all();
}

// --- called by its stream

DeviceStatus Queue::push(Work work) noexcept {
  if (core_->lost()) return DeviceStatus::lost;
  work.queued = Clock::now();
  try {
    const std::lock_guard lock(mutex_);
    works_.push_back(std::move(work));
  } catch (const std::bad_alloc&) {
    return DeviceStatus::out_of_memory;
  }
  work_.notify_one();
  return DeviceStatus::ok;
}

DeviceMark Queue::mark() noexcept {
  DeviceMark mark = 0;
  try {
    const std::lock_guard lock(mutex_);
    mark = ++last_;
    Work work;
    work.mark = mark;
    if (!core_->lost()) works_.push_back(std::move(work));
  } catch (const std::bad_alloc&) {
    core_->set_lost();
  }
  work_.notify_one();
  return mark;
}

DeviceStatus Queue::poll(DeviceMark mark) noexcept {
  if (core_->lost()) return DeviceStatus::lost;
  if (settled_.load(std::memory_order_acquire) < mark) return DeviceStatus::pending;
  const std::lock_guard lock(mutex_);
  return failed_.contains(mark) ? DeviceStatus::failed : DeviceStatus::ok;
}

DeviceStatus Queue::wait(DeviceMark mark, Nanoseconds limit) noexcept {
  const auto until = Clock::now() + std::clamp<Nanoseconds>(limit, Nanoseconds(0), std::chrono::hours(24 * 365));
  {
    std::unique_lock lock(mutex_);
    settled_changed_.wait_until(lock, until, [&] { return core_->lost() || settled_.load() >= mark; });
  }
  return poll(mark);
}

std::uint64_t Queue::elapsed_ns(DeviceMark from, DeviceMark to) noexcept {
  const std::lock_guard lock(mutex_);
  const Settled& a = times_[from % remembered];
  const Settled& b = times_[to % remembered];
  if (core_->lost() || a.mark != from || b.mark != to || from == 0 || to <= from) return 0;
  return static_cast<std::uint64_t>(std::chrono::duration_cast<Nanoseconds>(b.at - a.at).count());
}

}  // namespace tandem::sim
