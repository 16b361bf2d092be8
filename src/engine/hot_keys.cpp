#include "engine/hot_keys.hpp"

#include <chrono>
#include <thread>
#include <utility>

#include "base/ticks.hpp"

namespace tandem {
namespace {

RouterOptions options_of(const EngineOptions& o) {
  RouterOptions options = o.router;
  options.sketch.hot_keys = static_cast<std::uint32_t>(o.hot_memory_bytes / HotTable::bytes_of_key);
  return options;
}

// The sketch, its candidates and some models, and a ring of samples a context.
std::uint64_t router_bytes(const EngineOptions& o) {
  constexpr std::uint64_t training = 12 << 20, models_of_key = 512;
  return training + o.hot_memory_bytes / HotTable::bytes_of_key * models_of_key +
         std::uint64_t{o.contexts_max} * Samples::ring_bytes;
}

}  // namespace

Engine::HotKeys::HotKeys(Engine& e)
    : engine(e), budget(router_bytes(e.options_)), router(options_of(e.options_), e.epochs_, budget, *this) {}

Engine::HotKeys::~HotKeys() {
  stopping = true;
  router.stop();
  context.reset();
}

void Engine::HotKeys::join(Context& c) {
  c.hot_latency = std::make_unique<HotLatency>();
  c.samples = router.join();
  c.router = &router;
}

void Engine::HotKeys::leave(const Context& c) noexcept {
  if (c.hot_latency != nullptr) gone.add(*c.hot_latency);
}

void Engine::HotKeys::clean(const HotModel& now) noexcept {
  IndexPlacement& placement = *engine.placement_;
  const auto stays = [&now](Fingerprint f) { return now.is_hot(f); };
  while (!stopping && placement.can_search() && !placement.clean(stays)) {
    // Until the device has taken changes: then there is room for others.
    placement.reclaim_changes(context->cache, Overlay::Reclaim::mine);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  placement.reclaim_changes(context->cache, Overlay::Reclaim::mine);
}

Measured Engine::HotKeys::measured() noexcept {
  const double ns = ns_per_tick();
  const StoreTotals counters = engine.counters();
  HotLatencyTotals now = engine.hot_latencies(), since = now;
  since.subtract(before);
  before = std::move(now);
  return {.operations = counters.cmd_get + counters.cmd_set + counters.cmd_touch,
          .hot_p99_ns = since.hot.quantile(0.99) * ns,
          .cold_p99_ns = since.cold.quantile(0.99) * ns};
}

// --- the engine's side

void Engine::learn_hot_keys() {
  if (!placement_->wants_search() || placement_->hot() == nullptr) return;
  hot_keys_ = std::make_unique<HotKeys>(*this);
  hot_keys_->context = make_context();
  if (options_.learns_hot_keys && !hot_keys_->router.start() && options_.warn)
    options_.warn("no memory to learn which keys are hot: none is");
}

HotLatencyTotals Engine::hot_latencies() const {
  const std::lock_guard lock(contexts_mutex_);
  HotLatencyTotals all = hot_keys_ != nullptr ? hot_keys_->gone : HotLatencyTotals{};
  for (const Context* c : contexts_) {
    if (c->hot_latency != nullptr) all.add(*c->hot_latency);
  }
  return all;
}

bool Engine::set_hot_model(std::unique_ptr<HotModel> model) noexcept {
  return hot_keys_ != nullptr && hot_keys_->router.set_model(std::move(model));
}

std::optional<HotKeyStats> Engine::hot_key_stats() const {
  const HotTable* const hot = placement_->hot();
  if (hot_keys_ == nullptr || hot == nullptr) return std::nullopt;
  return HotKeyStats{hot->stats(), hot_keys_->router.stats(), hot_latencies()};
}

}  // namespace tandem
