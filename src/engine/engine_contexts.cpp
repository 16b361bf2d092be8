// The engine's contexts: one for each thread that uses the store.
#include <algorithm>
#include <memory>
#include <mutex>

#include "engine/hot_keys.hpp"
#include "engine/on_device.hpp"
#include "pipeline/device_search.hpp"

namespace tandem {

Engine::ContextPtr Engine::make_context() {
  auto context = std::make_unique<Context>(*shared_);
  if (schedulers_ && placement_->wants_search()) {
    try {
      context->remote = std::make_unique<DeviceSearch>(*context, *schedulers_);
    } catch (const DeviceError& e) {
      if (e.status() != DeviceStatus::lost) throw;
      placement_->leave();  // as its scheduler would do
    }
  }
  if (hot_keys_ != nullptr) hot_keys_->join(*context);
  if (file_) context->redo = file_->take_redo();
  const std::lock_guard lock(contexts_mutex_);
  contexts_.push_back(context.get());
  return {context.release(), {this}};
}

bool Engine::has_contexts() const {
  const std::lock_guard lock(contexts_mutex_);
  return std::ranges::any_of(contexts_, [&](const Context* c) {
    return c != maintenance_context_.get() && c != crawler_context_.get() && c != arranger_context_.get() &&
           (hot_keys_ == nullptr || c != hot_keys_->context.get());
  });
}

void Engine::retire_context(Context* context) noexcept {
  if (context->redo != nullptr) file_->give_redo(context->redo);
  {
    const std::lock_guard lock(contexts_mutex_);
    gone_counters_.add(context->counters);
    for (std::size_t c = 0; c < gone_class_counters_.size(); ++c) gone_class_counters_[c].add(context->classes[c]);
    for (std::size_t t = 0; t < task_count; ++t) {
      gone_costs_[t].cycles += context->tasks.cycles[t].get();
      gone_costs_[t].queries += context->tasks.queries[t].get();
      gone_latencies_[t].add(context->tasks.cycles_per_query[t]);
    }
    gone_ran_.add(context->tasks);
    if (hot_keys_ != nullptr) hot_keys_->leave(*context);
    std::erase(contexts_, context);
  }
  delete context;
}

}  // namespace tandem
