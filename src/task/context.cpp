#include "task/context.hpp"

#include <chrono>
#include <thread>

namespace tandem {

void Context::wait_for_index() noexcept {
  constexpr auto look_again = std::chrono::microseconds(200);
  do {
    epoch.exit();
    let_go();
    while (shared.index.place() == Index::Place::leaving) {
      shared.maintenance.notify();
      std::this_thread::sleep_for(look_again);
    }
    epoch.enter();
  } while (shared.index.place() == Index::Place::leaving);
}

}  // namespace tandem
