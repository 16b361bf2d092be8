// Shared by the engine's tests: queries one at a time, without a protocol.
#pragma once
#include <chrono>
#include <thread>

#include "engine/engine.hpp"
#include "query/query_of.hpp"
#include "task/alone.hpp"

namespace tandem {

// Whether it becomes true within half a minute.
template <class F>
bool soon(F is_so) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  do {
    if (is_so()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

// Runs one query; the caller owns its strings. answered() is called in its epoch.
template <class F>
Status run_alone(Context& context, Batch& batch, const Query& query, F answered) {
  batch.clear();
  batch.next() = query;
  batch.commit();
  task::execute_alone(context, batch, answered);
  return batch.result(0).status;
}
inline Status run_alone(Context& context, Batch& batch, const Query& query) {
  return run_alone(context, batch, query, [] {});
}

}  // namespace tandem
