// What comes of a page of a memory file that cannot be had: its disk does not read it back, somebody has shortened the
// file, or the memory that it lay in has failed. Whoever touches it gets a bus error (SIGBUS), at any instruction, so
// there is nothing to go on with: what was read so far may be half of something. The file is marked, so that no later
// process takes it over and meets the same page again; it is said which file; and the process ends.
//
// Async-signal-safe is what the handler calls, not these.
#pragma once
#include <cstdint>

namespace tandem {

class MemoryFile;

// From the first call on, bus errors of the whole process come here; those of other memory go on to what handled them
// before. Thread safety: any thread. More files at once than 64 are left unguarded.
void guard_against_bus_errors(const MemoryFile& file) noexcept;
// No bus error in the file is under way.
void unguard(const MemoryFile& file) noexcept;

// How the process ends then: by this exit code and without a dump of the heap. Before it is said it is what handled
// SIGBUS before, of which nobody should come back: by default a death by that signal.
void end_by_bus_errors_with(int exit_code) noexcept;

}  // namespace tandem
