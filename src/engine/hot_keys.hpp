// Hot keys of a store with its index on devices alone: who decides which they are, and what it has done. Private to the
// engine's files.
#pragma once
#include <atomic>

#include "base/memory_budget.hpp"
#include "engine/engine.hpp"
#include "observe/hot_latency.hpp"
#include "router/router.hpp"

namespace tandem {

struct Engine::HotKeys final : RoutedStore {
  explicit HotKeys(Engine& engine);
  ~HotKeys();
  HotKeys(const HotKeys&) = delete;
  HotKeys& operator=(const HotKeys&) = delete;

  // The context's queries are sampled from now on.
  void join(Context& context);
  void leave(const Context& context) noexcept;

  void clean(const HotModel& now) noexcept override;
  Measured measured() noexcept override;

  Engine& engine;
  HotLatencyTotals gone, before;  // of destroyed contexts, under contexts_mutex_; at the last measured()
  std::atomic<bool> stopping{false};
  MemoryBudget budget;  // beside the memory limit, as other memory of threads
  Router router;
  ContextPtr context;  // of the router's thread
};

}  // namespace tandem
