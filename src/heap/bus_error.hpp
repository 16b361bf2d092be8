// Handling of a memory file's page that cannot be read: its disk fails, the file was shortened, or the memory that held
// it has failed. An access then raises a bus error (SIGBUS), at any instruction. The process cannot continue, since
// what it has read so far may be incomplete. It marks the file, so that no later process takes it over and meets the
// same page again, logs the file's name, and ends.
//
// What the handler calls is async-signal-safe; these functions are not.
#pragma once
#include <cstdint>

namespace tandem {

class MemoryFile;

// From the first call on, this handles all bus errors of the process. Those of other memory are passed on to the
// previous handler. Thread safety: any thread. Beyond 64 files at once, further ones are not guarded.
void guard_against_bus_errors(const MemoryFile& file) noexcept;
// REQUIRES: no bus error in the file is being handled.
void unguard(const MemoryFile& file) noexcept;

// Sets how the process then ends: by this exit code and without a dump of the heap. Until it is set, the previous
// handler of SIGBUS ends it, which must not return; by default the process dies of the signal.
void end_by_bus_errors_with(int exit_code) noexcept;

}  // namespace tandem
