// Shared by the engine's tests: queries one at a time, without a protocol.
#pragma once
#include <chrono>
#include <thread>

#include "pipeline/executor.hpp"
#include "store/engine.hpp"

namespace tandem {

struct NoWriter final : ResponseWriter {
  bool write(Batch&, Strip) override { return true; }
  void control(Batch&, std::uint32_t) override {}
};

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

// Runs one query; the caller owns its strings.
inline Status run_alone(Context& context, Batch& batch, const Query& query) {
  batch.clear();
  batch.next() = query;
  batch.commit();
  NoWriter writer;
  Executor(context).run(batch, writer);
  return batch.result(0).status;
}

}  // namespace tandem
