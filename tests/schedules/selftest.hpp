// Small programs whose defects a simulation of schedules must find, and whose repaired forms it must not blame.
#pragma once

namespace tandem::schedules {

// Prints a line for each. False: one did not end as it should.
bool self_test();

}  // namespace tandem::schedules
