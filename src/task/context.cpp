#include "task/context.hpp"

#include <chrono>
#include <thread>

namespace tandem {

void Context::wait_for_index() noexcept {
  constexpr auto look_again = std::chrono::microseconds(200);
  do {
    epoch.exit();
    let_go();
    while (shared.placement.is_closed()) {
      shared.maintenance.notify();
      std::this_thread::sleep_for(look_again);
    }
    epoch.enter();
  } while (shared.placement.is_closed());
}

}  // namespace tandem
