// `tandem-member COMMAND ...`.
#pragma once
#include <span>
#include <string>

namespace tandem::cluster {

// Returns the exit code; errors are told on stderr.
int run_member_program(std::span<const std::string> arguments);

}  // namespace tandem::cluster
