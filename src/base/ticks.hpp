// What a tick of cycles_now() is worth.
#pragma once

namespace tandem {

// Nanoseconds per tick; 1 where the processor's ticks cannot be read. The first call measures for two milliseconds, all
// later ones return what it found. Any thread.
double ns_per_tick();

}  // namespace tandem
