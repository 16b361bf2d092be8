// Memory kept for the moment when there is no more: operator new takes a block of it and tries again, so that the
// operation under way completes. Before the next one the caller refills the reserve or sheds load.
//
// Thread safety: all functions may be called by any thread, but hold_memory_reserve(), which is called once, before
// there are others.
#pragma once

namespace tandem {

// Allocates the reserve, and has operator new use it. Throws std::bad_alloc.
void hold_memory_reserve();

// Blocks of the reserve that are gone; 0 without one.
unsigned memory_reserve_missing() noexcept;

// Less than half of it is left.
bool memory_is_short() noexcept;

// Tries to get back what is gone. True: nothing is missing.
bool refill_memory_reserve() noexcept;

// What operator new does when it gets no memory, for other allocators. Throws std::bad_alloc when nothing was left to
// free.
void free_memory_reserve();

}  // namespace tandem
