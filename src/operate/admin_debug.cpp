// debugtime and debugitem, for builds with TANDEM_DEBUG_COMMANDS. They hold locks that ordinary commands wait for.
#include "operate/admin.hpp"

#ifdef TANDEM_DEBUG_COMMANDS

#include <map>

#include "base/hash.hpp"

namespace tandem::net {

struct Admin::Debug {
  explicit Debug(Engine& e) : engine(e), context(e.make_context()) {}
  Debug(const Debug&) = delete;
  Debug& operator=(const Debug&) = delete;
  ~Debug() {
    for (const auto& [key, pins] : refs) {
      for (const Location l : pins) engine.shared().heap.unpin(l);
    }
    locks.clear();
    if (context->epoch.active()) context->epoch.exit();
  }

  Engine& engine;
  Engine::ContextPtr context;  // in an epoch while a lock is held
  std::map<std::string, std::unique_ptr<KeyHold>, std::less<>> locks;
  std::map<std::string, std::vector<Location>, std::less<>> refs;
};

Admin::Admin(State& state) : state_(state) {}
Admin::~Admin() = default;

void Admin::debug_time(DebugTime how, std::int64_t seconds) {
  Clock& clock = state_.engine.shared().clock;
  if (how == DebugTime::pause) clock.pause();
  if (how == DebugTime::resume) clock.resume();
  if (how == DebugTime::advance) clock.advance(seconds);
}

bool Admin::debug_item(DebugItem how, std::string_view key, std::uint32_t count) {
  const std::lock_guard lock(debug_mutex_);
  if (debug_ == nullptr) debug_ = std::make_unique<Debug>(state_.engine);
  Debug& debug = *debug_;
  const Shared& shared = state_.engine.shared();
  const Fingerprint f = fingerprint_of(key, shared.hash_seed);
  EpochDomain::Participant& epoch = debug.context->epoch;
  switch (how) {
    case DebugItem::lock:
      if (debug.locks.contains(key)) return true;
      if (!epoch.active()) epoch.enter();
      debug.locks.emplace(key, shared.index.hold(f));
      return true;
    case DebugItem::unlock: {
      const auto held = debug.locks.find(key);
      if (held == debug.locks.end()) return false;
      debug.locks.erase(held);
      if (debug.locks.empty()) epoch.exit();
      return true;
    }
    case DebugItem::ref: {
      const bool enters = !epoch.active();
      if (enters) epoch.enter();
      ItemVersion seen;
      const Item* const item = shared.index.find(f, key, seen, no_location);
      if (item != nullptr) {
        const Location l = shared.heap.location_of(item);
        for (std::uint32_t i = 0; i < std::min(count, 1000u); ++i) {
          shared.heap.pin(l);
          debug.refs[std::string(key)].push_back(l);
        }
      }
      if (enters) epoch.exit();
      return item != nullptr;
    }
    case DebugItem::unref: {
      const auto held = debug.refs.find(key);
      if (held == debug.refs.end()) return false;
      for (std::uint32_t i = 0; i < count && !held->second.empty(); ++i) {
        shared.heap.unpin(held->second.back());
        held->second.pop_back();
      }
      if (held->second.empty()) debug.refs.erase(held);
      return true;
    }
  }
  return false;
}

}  // namespace tandem::net

#endif
