// Lets others run while this thread waits for something that takes them microseconds.
#pragma once

namespace tandem {

// A sched_yield(), which returns at once on a processor that nobody else wants. Where others compute, each yield gives
// them a whole time slice, and threads that wait for each other in turns get on by a slice at a time: once a yield has
// taken a millisecond this thread sleeps some tens of microseconds instead, 200 times, before it tries a yield again.
// What that brings: docs/decisions/0014. Thread safety: any.
void yield_processor() noexcept;

}  // namespace tandem
