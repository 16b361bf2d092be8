// The duration of a tick of cycles_now().
#pragma once

namespace tandem {

// Nanoseconds per tick; 1 if the processor's ticks cannot be read. The first call measures for two milliseconds, later
// ones return its result. Any thread.
double ns_per_tick();

}  // namespace tandem
