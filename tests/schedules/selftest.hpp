// Small programs with defects that a simulation of schedules must find, and repaired forms that it must not blame.
#pragma once

namespace tandem::schedules {

// Prints a line for each. False: one did not end as it should.
bool self_test();

}  // namespace tandem::schedules
