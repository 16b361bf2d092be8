// Yields to other threads while this thread waits for their work of microseconds.
#pragma once

namespace tandem {

// A sched_yield(), which returns at once on an idle processor. On a busy one each yield gives other threads a whole
// time slice, and threads that wait for each other in turns progress by one slice at a time. So once a yield has taken
// a millisecond, this thread sleeps some tens of microseconds instead, 200 times, before it yields again.
// docs/decisions/0014 has the effect. Thread safety: any.
void yield_processor() noexcept;

}  // namespace tandem
