#include "router/router.hpp"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <new>
#include <system_error>

#include "base/process_meter.hpp"

namespace tandem {
namespace {

constexpr std::uint32_t rest_least_ms = 1, rest_most_ms = 20;
constexpr std::uint32_t first_shift = 8;  // right for 256 M queries a second; a fast store would pay for a lower one

}  // namespace

Router::Router(const RouterOptions& options, EpochDomain& epochs, MemoryBudget& budget, RoutedStore& store)
    : options_(options), epochs_(epochs), budget_(budget), store_(store), owned_(HotModel::of_keys({})) {
  if (owned_ == nullptr) throw std::bad_alloc();
  retired_.reserve(retired_max);
  model_.store(owned_.get(), std::memory_order_relaxed);
}

Router::~Router() {
  stop();
  for (const Retired& each : retired_) budget_.give_back(each.charged);
  budget_.give_back(charged_);
  for (const auto& worker : workers_) {
    if (worker->has_ring()) budget_.give_back(Samples::ring_bytes);
  }
}

// --- samples

std::shared_ptr<Samples> Router::join() {
  const std::lock_guard lock(workers_mutex_);
  workers_.reserve(workers_.size() + 1);
  const bool has_room = budget_.take(Samples::ring_bytes);
  std::shared_ptr<Samples> samples;
  try {
    samples = std::make_shared<Samples>(0x9e37'79b9u * ++seed_, has_room);
  } catch (...) {
    if (has_room) budget_.give_back(Samples::ring_bytes);
    throw;
  }
  if (has_room && !samples->has_ring()) budget_.give_back(Samples::ring_bytes);
  samples->set_shift(shift_);
  workers_.push_back(samples);
  return samples;
}

// Trains on all that has come; returns the most that a ring had.
std::uint32_t Router::drain() noexcept {
  std::array<Sample, 512> some;
  std::uint32_t most = 0;
  const std::lock_guard lock(workers_mutex_);
  for (auto& worker : workers_) {
    const bool is_gone = worker.use_count() == 1;  // before the last of its samples are taken
    std::uint32_t count = 0, taken = 0;
    // Once round at most: a worker may be as fast as this thread.
    while (count < Samples::capacity && (taken = worker->take(some)) != 0) {
      trainer_->train({some.data(), taken});
      count += taken;
    }
    most = std::max(most, count);
    if (!is_gone) continue;
    gone_samples_ += worker->taken();
    gone_dropped_ += worker->dropped();
    gone_offered_ += worker->offered();
    if (worker->has_ring()) budget_.give_back(Samples::ring_bytes);
    worker.reset();
  }
  std::erase(workers_, nullptr);
  return most;
}

void Router::set_shifts(std::uint32_t shift) noexcept {
  const std::lock_guard lock(workers_mutex_);
  shift_ = shift;
  for (const auto& worker : workers_) worker->set_shift(shift);
}

// --- the thread

bool Router::start() noexcept {
  const std::lock_guard lock(control_);
  if (thread_.joinable()) return true;
  auto popularity = make_popularity(options_, budget_, trainer_bytes_);
  if (popularity == nullptr) return false;
  trainer_.reset(new (std::nothrow) Trainer(std::move(popularity), options_));
  try {
    if (trainer_ == nullptr) throw std::bad_alloc();
    stopping_.store(false, std::memory_order_relaxed);
    set_shifts(first_shift);
    thread_ = std::thread([this] {
      pthread_setname_np(pthread_self(), "tandem-router");  // by itself: naming another thread writes a file
      loop();
    });
  } catch (const std::exception&) {
    set_shifts(Samples::off);
    trainer_.reset();
    budget_.give_back(trainer_bytes_);
    return false;
  }
  is_training_.store(true, std::memory_order_relaxed);
  return true;
}

void Router::stop() noexcept {
  const std::lock_guard lock(control_);
  if (!thread_.joinable()) return;
  stopping_.store(true, std::memory_order_relaxed);
  wake_.notify();
  thread_.join();
  is_training_.store(false, std::memory_order_relaxed);
  trainer_.reset();
  budget_.give_back(trainer_bytes_);
}

// Rests as long as rings have room for what comes meanwhile.
void Router::loop() noexcept {
  std::uint32_t rest_ms = rest_least_ms;
  stepped_ns_ = begun_ns_ = monotonic_ns();
  cpu_begun_ns_ = read_clock_ns(CLOCK_THREAD_CPUTIME_ID);
  {
    const std::lock_guard lock(workers_mutex_);
    offered_ = gone_offered_;
    for (const auto& worker : workers_) offered_ += worker->offered();
  }
  while (!stopping_.load(std::memory_order_relaxed)) {
    const std::uint32_t most = drain();
    const std::uint64_t now_ns = monotonic_ns();
    if (now_ns < stepped_ns_) stepped_ns_ = now_ns;
    if (now_ns - stepped_ns_ >= Trainer::step_ns) step(now_ns);
    if (most > Samples::capacity / 2) rest_ms = std::max(rest_ms / 2, rest_least_ms);
    if (most < Samples::capacity / 8) rest_ms = std::min(rest_ms + 1, rest_most_ms);
    wake_.wait_for(std::chrono::milliseconds(rest_ms));
  }
  set_shifts(Samples::off);
}

void Router::step(std::uint64_t now_ns) noexcept {
  std::uint64_t offered = 0;
  std::uint32_t shift = 0;
  {
    const std::lock_guard lock(workers_mutex_);
    offered = gone_offered_;
    for (const auto& worker : workers_) offered += worker->offered();
    shift = shift_;
  }
  const auto passed_ns = static_cast<double>(now_ns - stepped_ns_);
  const double queries = offered > offered_ ? static_cast<double>(offered - offered_) : 0;
  set_shifts(sampling_shift(shift, queries * 1e9 / passed_ns, options_.samples_per_s));
  offered_ = offered;
  stepped_ns_ = now_ns;

  std::unique_ptr<HotModel> model = trainer_->step(now_ns, store_.measured());
  if (model != nullptr && publish(model)) trainer_->adopt();
  {
    const std::lock_guard lock(models_mutex_);
    free_retired();
  }
  hot_share_.store(trainer_->hot_share(), std::memory_order_relaxed);
  const auto cpu_ns = static_cast<double>(read_clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_begun_ns_);
  if (now_ns > begun_ns_)
    trainer_share_.store(cpu_ns / static_cast<double>(now_ns - begun_ns_), std::memory_order_relaxed);
}

// --- models

bool Router::set_model(std::unique_ptr<HotModel> model) noexcept {
  const std::lock_guard lock(control_);
  if (model == nullptr || thread_.joinable()) return false;
  // Keys turn hot when they are sampled: with their next request, or one soon after it.
  set_shifts(0);
  return publish(model);
}

// Called by one thread at a time: the router's, or who holds control_ without one.
bool Router::publish(std::unique_ptr<HotModel>& model) noexcept {
  const HotModel* published = model.get();
  {
    const std::lock_guard lock(models_mutex_);
    free_retired();
    if (retired_.size() == retired_max || !budget_.take(model->bytes())) {
      refused_.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
    model->set_number(++number_);
    model_.store(published, std::memory_order_release);
    retired_.push_back({epochs_.retire_stamp(), charged_, std::move(owned_)});
    charged_ = model->bytes();
    owned_ = std::move(model);
  }
  store_.clean(*published);
  return true;
}

void Router::free_retired() noexcept {
  std::erase_if(retired_, [&](const Retired& each) {
    if (!epochs_.is_safe(each.stamp)) return false;
    budget_.give_back(each.charged);
    return true;
  });
}

RouterStats Router::stats() const noexcept {
  RouterStats stats{.refused = refused_.load(std::memory_order_relaxed)};
  stats.hot_share = hot_share_.load(std::memory_order_relaxed);
  stats.trainer_share = trainer_share_.load(std::memory_order_relaxed);
  {
    const std::lock_guard lock(models_mutex_);
    stats.model = owned_->number();
    stats.hot_keys = owned_->size();
    stats.threshold = owned_->threshold();
    stats.retired = static_cast<std::uint32_t>(retired_.size());
  }
  const std::lock_guard lock(workers_mutex_);
  stats.samples = gone_samples_;
  stats.samples_dropped = gone_dropped_;
  for (const auto& worker : workers_) {
    stats.samples += worker->taken();
    stats.samples_dropped += worker->dropped();
  }
  stats.sampled_one_in = shift_ > Samples::shift_max ? 0 : 1u << shift_;
  return stats;
}

}  // namespace tandem
