// toml++ as used by this program: compiled in, so that it is fuzzed and sanitized with the rest, and with its
// assertions on in every build. Version 3.3 asserts what a file can violate (a table header "[!]"): without assertions
// that would be undefined behaviour, with assert() it would end the process. Here it is an error in the file.
#pragma once

namespace tandem::cli {

struct TomlAssertion {};  // thrown

[[noreturn]] inline void throw_toml_assertion() { throw TomlAssertion{}; }

}  // namespace tandem::cli

#pragma push_macro("NDEBUG")
#undef NDEBUG
#undef TOML_HEADER_ONLY
#undef TOML_SHARED_LIB
#define TOML_HEADER_ONLY 1
#define TOML_ASSERT(condition) ((condition) ? void() : ::tandem::cli::throw_toml_assertion())
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")
