// Decides which keys are hot while the store serves: publishes models, takes workers' samples, and trains on a thread
// of its own. What hot means, and what is done with a key that no longer is, the store knows.
//
// A model is published by one store, read by one load within an epoch, and freed when all epochs of then have ended.
// Nobody waits for a model, and any model is right; the next one comes when what the last one made cold is cold.
//
// Source: KVCG 7. Departures: no operation pauses or is tried again when the model changes, which their lock makes it.
//
// Thread safety: model() within an epoch of the domain, Samples by their workers, the rest from any thread.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/epoch.hpp"
#include "base/memory_budget.hpp"
#include "base/wakeup.hpp"
#include "router/trainer.hpp"

namespace tandem {

// What a router needs of the store that it routes for.
class RoutedStore {
 public:
  // The model was published: turns cold what is hot and not in it, and returns when that is done. One call at a time,
  // on the router's thread or set_model()'s; of the router only model() and stats() may be called in it.
  virtual void clean(const HotModel& now) noexcept = 0;
  virtual Measured measured() noexcept = 0;

 protected:
  ~RoutedStore() = default;
};

struct RouterStats {
  std::uint32_t model = 0;     // its number: how many were published
  std::uint32_t hot_keys = 0;  // of the model (of a histogram: bins)
  double threshold = 0;        // of the model: share of all requests
  double hot_share = 0;        // of the last samples
  std::uint64_t samples = 0, samples_dropped = 0;
  std::uint32_t sampled_one_in = 0;  // 0: nothing is sampled
  std::uint64_t refused = 0;         // models that there was no memory for
  std::uint32_t retired = 0;         // models that a reader may still see
  double trainer_share = 0;          // of a processor, since its start
  // Calls f(name, value) for each statistic: a number with a fraction, or a count.
  template <class F>
  void for_each(F f) const {
    f("model_keys", std::uint64_t{hot_keys});
    f("model", std::uint64_t{model});
    f("threshold", threshold);
    f("share", hot_share);
    f("samples", samples);
    f("samples_dropped", samples_dropped);
    f("sampled_one_in", std::uint64_t{sampled_one_in});
    f("models_refused", refused);
    f("trainer_share", trainer_share);
  }
};

class Router {
 public:
  // Nothing is hot and nothing sampled. All three outlive the router. Throws std::bad_alloc.
  Router(const RouterOptions& options, EpochDomain& epochs, MemoryBudget& budget, RoutedStore& store);
  // REQUIRES: no reader is in an epoch in which it has loaded a model; all samples were left.
  ~Router();
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;

  // Never nullptr. REQUIRES: within an epoch, until whose end it lasts.
  TD_INLINE const HotModel* model() const noexcept { return model_.load(std::memory_order_acquire); }

  // For a worker that offers its queries; it leaves with the last reference. Without room in the budget its samples are
  // dropped. Throws std::bad_alloc.
  std::shared_ptr<Samples> join();

  // Trains from now on. False: no memory, or no thread; the present model stays.
  bool start() noexcept;
  // The present model stays.
  void stop() noexcept;
  bool is_training() const noexcept { return is_training_.load(std::memory_order_relaxed); }

  // Publishes a model that was made by hand, and has the store cleaned. False, and nothing has changed: it trains, or
  // there is no memory. REQUIRES: the calling thread is where clean() may be called.
  bool set_model(std::unique_ptr<HotModel> model) noexcept;

  RouterStats stats() const noexcept;

 private:
  // Readers that stay in an epoch hold so many models at most; then none is published.
  static constexpr std::size_t retired_max = 8;
  struct Retired {
    std::uint64_t stamp, charged;
    std::unique_ptr<const HotModel> model;
  };

  void loop() noexcept;
  void step(std::uint64_t now_ns) noexcept;
  std::uint32_t drain() noexcept;
  void set_shifts(std::uint32_t shift) noexcept;
  bool publish(std::unique_ptr<HotModel>& model) noexcept;
  void free_retired() noexcept;

  const RouterOptions options_;
  EpochDomain& epochs_;
  MemoryBudget& budget_;
  RoutedStore& store_;

  std::mutex control_;  // start, stop, set_model
  std::thread thread_;
  std::atomic<bool> is_training_{false}, stopping_{false};
  WakeUp wake_;
  // The thread's.
  std::unique_ptr<Trainer> trainer_;
  std::uint64_t trainer_bytes_ = 0;
  std::uint64_t stepped_ns_ = 0, offered_ = 0;
  std::uint64_t begun_ns_ = 0, cpu_begun_ns_ = 0;

  mutable std::mutex workers_mutex_;  // guards what follows, up to models_mutex_
  std::vector<std::shared_ptr<Samples>> workers_;
  std::uint32_t seed_ = 0;
  std::uint32_t shift_ = Samples::off;
  std::uint64_t gone_samples_ = 0, gone_dropped_ = 0, gone_offered_ = 0;

  mutable std::mutex models_mutex_;  // guards what follows, but for loads of model_
  std::atomic<const HotModel*> model_;
  std::unique_ptr<const HotModel> owned_;
  std::vector<Retired> retired_;
  std::uint64_t charged_ = 0;  // of the budget, for owned_: nothing for the first one, in which no key is hot
  std::uint32_t number_ = 0;

  std::atomic<std::uint64_t> refused_{0};
  std::atomic<double> hot_share_{0}, trainer_share_{0};
};

}  // namespace tandem
