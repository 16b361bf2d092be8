// What a session has, and calls of one request, which C++ and C share.
#pragma once
#include <memory>
#include <span>
#include <string_view>

#include "embedded/device_calls.hpp"
#include "embedded/scan_calls.hpp"
#include "engine/engine.hpp"
#include "lane/calls.hpp"
#include "planner/planner.hpp"
#include "tandem/store.hpp"

namespace tandem {

struct Session::Impl {
  // Throws EpochDomainFull, std::bad_alloc.
  Impl(Engine& e, const Planner& p);

  Engine& engine;
  Engine::ContextPtr context;
  ScanBuffers scanned;
  Planner planner;
  CallLane lane;
  std::unique_ptr<DeviceCalls> devices;  // nullptr: the host does everything

  void execute(std::span<const Request> requests, ReplyVisitor visit, void* visitor) {
    if (TD_UNLIKELY(devices != nullptr)) return devices->run(requests, visit, visitor);
    lane.run(requests, 0, visit, visitor);
  }
  void get(std::span<const std::string_view> keys, KeyCheck check, ReplyVisitor visit, void* visitor) {
    if (TD_UNLIKELY(devices != nullptr)) return devices->run(keys, check, visit, visitor);
    lane.run(keys, check, 0, visit, visitor);
  }
};

// Calls of one request. visit(Reply) is called once, inside the epoch, and must not throw.
class OneCall {
 public:
  template <class Visit>
  static void get(Session& session, std::string_view key, Visit&& visit) {
    session.impl_->get({&key, 1}, KeyCheck::store, visit_one<std::remove_reference_t<Visit>>, &visit);
  }
  template <class Visit>
  static void execute(Session& session, const Request& request, Visit&& visit) {
    session.impl_->execute({&request, 1}, visit_one<std::remove_reference_t<Visit>>, &visit);
  }

 private:
  template <class Visit>
  static void visit_one(void* visit, std::size_t, std::span<const Reply> replies) {
    (*static_cast<Visit*>(visit))(replies.front());
  }
};

}  // namespace tandem
