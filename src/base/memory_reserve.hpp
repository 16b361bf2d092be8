// Memory reserved for exhaustion: operator new frees a block of it and tries again, so that the running operation
// completes. Before the next one the caller refills the reserve or sheds load.
//
// Thread safety: any thread, except hold_memory_reserve(), which is called once, before other threads start.
#pragma once

namespace tandem {

// Allocates the reserve and installs it in operator new. Throws std::bad_alloc.
void hold_memory_reserve();

// Blocks missing from the reserve; 0 without one.
unsigned memory_reserve_missing() noexcept;

// Less than half of the reserve is left.
bool memory_is_short() noexcept;

// Tries to replace the missing blocks. True: none is missing.
bool refill_memory_reserve() noexcept;

// What operator new does without memory, for other allocators. Throws std::bad_alloc when nothing was left to free.
void free_memory_reserve();

}  // namespace tandem
